/* SPDX-License-Identifier: Apache-2.0 */
/* An exchange connection as one that is asked reads it: heads, and the payload that each lets
 * follow. Whatever is accepted must encode to the same bytes, and have a size that can be. */
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "fuzz.h"
#include "wire/p2p_frame.h"

/* Returns the bytes of the first message, 0 when it is refused or not all there. */
static size_t message_take(const uint8_t *data, size_t size)
{
    struct spotnik_p2p_head head;
    uint8_t again[SPOTNIK_P2P_HEAD_BYTES];

    if (size < SPOTNIK_P2P_HEAD_BYTES || spotnik_p2p_decode(data, &head) != SPOTNIK_OK)
        return 0;
    spotnik_p2p_encode(&head, again);
    SPOTNIK_ASSERT(memcmp(again, data, sizeof again) == 0);
    SPOTNIK_ASSERT(memchr(head.name, 0, sizeof head.name) != NULL);
    SPOTNIK_ASSERT(head.name[0] == 0 || spotnik_p2p_is_name(head.name));
    SPOTNIK_ASSERT(head.bytes <= SPOTNIK_P2P_BYTES_MAX && head.offset <= SPOTNIK_P2P_BYTES_MAX);
    SPOTNIK_ASSERT(head.bytes == 0 || head.bytes % spotnik_dtype_bytes(head.dtype) == 0);
    return size - SPOTNIK_P2P_HEAD_BYTES < head.bytes ? 0
                                                      : SPOTNIK_P2P_HEAD_BYTES + (size_t)head.bytes;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t taken; (taken = message_take(data, size)) > 0; data += taken)
        size -= taken;
    return 0;
}
