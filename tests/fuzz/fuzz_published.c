/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that another member of this host lends us: whatever its bytes say, nothing beyond it
 * is read, and what is found is of the size that was asked for. The input is the number of rows,
 * two rows, and what lies behind the table. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "p2p/published.h"
#include "fuzz.h"

#define ROWS 2
#define HEAD (sizeof(uint64_t) + ROWS * sizeof(struct spotnik_published_row))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spotnik_published_wanted wanted = { .name = "model", .dtype = 1, .bytes = 128 };
    uint64_t version = 0;
    uint8_t found[128];
    void *memory = NULL;

    if (size < HEAD
        || posix_memalign(&memory, SPOTNIK_PUBLISHED_LINE,
                          sizeof(struct spotnik_published) + size - HEAD))
        return 0;
    struct spotnik_published *published = memory;
    memset(published, 0, sizeof *published);
    spotnik_published_init(published);
    memcpy(&published->count, data, sizeof published->count);
    memcpy(published->row, data + sizeof published->count, ROWS * sizeof *published->row);
    memcpy(published + 1, data + HEAD, size - HEAD);
    enum spotnik_published_sight sight =
        spotnik_published_look(published, sizeof *published + size - HEAD, &wanted, found,
                               &version);
    SPOTNIK_ASSERT(sight != SPOTNIK_PUBLISHED_READ || version > 0);
    free(memory);
    return 0;
}
