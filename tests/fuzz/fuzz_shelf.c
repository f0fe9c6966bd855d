/* SPDX-License-Identifier: Apache-2.0 */
/* The memory that another member of this host lends us: whatever its bytes say, nothing beyond it is read, and what is
 * found is of the size that was asked for. The input is the number of rows, two rows, and what lies behind the shelf. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "exchange/shelf.h"
#include "fuzz.h"

#define ROWS 2
#define HEAD (sizeof(uint64_t) + ROWS * sizeof(struct spotnik_shelf_row))

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spotnik_shelf_wanted wanted = { .name = "model", .dtype = 1, .bytes = 128 };
    uint64_t version = 0;
    uint8_t found[128];
    void *memory = NULL;

    if (size < HEAD || posix_memalign(&memory, SPOTNIK_SHELF_LINE, sizeof(struct spotnik_shelf) + size - HEAD))
        return 0;
    struct spotnik_shelf *shelf = memory;
    memset(shelf, 0, sizeof *shelf);
    spotnik_shelf_init(shelf);
    memcpy(&shelf->count, data, sizeof shelf->count);
    memcpy(shelf->row, data + sizeof shelf->count, ROWS * sizeof *shelf->row);
    memcpy(shelf + 1, data + HEAD, size - HEAD);
    enum spotnik_shelf_sight sight =
        spotnik_shelf_look(shelf, sizeof *shelf + size - HEAD, &wanted, found, &version);
    SPOTNIK_ASSERT(sight != SPOTNIK_SHELF_READ || version > 0);
    free(memory);
    return 0;
}
