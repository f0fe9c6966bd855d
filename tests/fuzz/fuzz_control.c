/* SPDX-License-Identifier: Apache-2.0 */
/* Payloads of CONTROL frames. Whatever decodes must encode to the same bytes: the encoding is
 * canonical. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz.h"
#include "sample.h"
#include "wire/control.h"

#define BYTES_MAX 65536

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct spotnik_wire_storage *storage;
    static uint8_t again[BYTES_MAX];
    struct spotnik_limits limits = spotnik_sample_limits();
    struct spotnik_message message;

    if (!storage) {
        void *memory = malloc(spotnik_wire_storage_size(&limits));
        SPOTNIK_ASSERT(memory);
        storage = spotnik_wire_storage_init(memory, &limits);
    }
    if (spotnik_control_decode(data, size, storage, &message) != SPOTNIK_OK)
        return 0;
    SPOTNIK_ASSERT(spotnik_control_size(&message) == size);
    SPOTNIK_ASSERT(size <= spotnik_control_bytes_max(&limits));
    SPOTNIK_ASSERT(spotnik_control_encode(&message, again, sizeof again) == size);
    SPOTNIK_ASSERT(memcmp(again, data, size) == 0);
    return 0;
}
