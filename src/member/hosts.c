/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of a view, counted by looking for their holders: once per view, in a table by host. */
#include "member/hosts.h"

#include <string.h>

#include "base/assert.h"

/* Least power of two that leaves half of the table free. */
static uint32_t table_size(uint32_t members)
{
    uint32_t size = 2;

    while (size < 2 * members)
        size *= 2;
    return size;
}

static uint32_t slot_of(uint64_t host, uint32_t size)
{
    return (uint32_t)((host * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (size - 1);
}

/* Is no member of this host in the table? Then this one is put there, as rank + 1. */
static bool is_first(const struct spotnik_view *view, uint32_t rank, uint32_t *table, uint32_t size)
{
    uint32_t slot = slot_of(view->entry[rank].member.host, size);

    while (table[slot] != 0) {
        if (spotnik_hosts_mate(view, table[slot] - 1, rank))
            return false;
        slot = (slot + 1) & (size - 1);
    }
    table[slot] = rank + 1;
    return true;
}

uint32_t spotnik_hosts_holders(const struct spotnik_view *view, uint32_t *ret_ranks,
                               uint32_t *scratch)
{
    uint32_t count = 0, size = table_size(view->size);

    memset(scratch, 0, size * sizeof(*scratch));
    for (uint32_t rank = 0; rank < view->size; rank++)
        if (is_first(view, rank, scratch, size))
            ret_ranks[count++] = rank;
    return count;
}

static uint32_t index_of(const struct spotnik_view *view, uint32_t rank, const uint32_t *holder,
                         uint32_t holders)
{
    uint32_t index = 0;

    while (!spotnik_hosts_mate(view, holder[index], rank)) {
        index++;
        SPOTNIK_ASSERT(index < holders);
    }
    return index;
}

struct spotnik_hosts spotnik_hosts_of(const struct spotnik_view *view, uint32_t rank,
                                      const uint32_t *holder, uint32_t holders)
{
    SPOTNIK_ASSERT(rank < view->size);
    uint32_t index = index_of(view, rank, holder, holders);
    struct spotnik_hosts hosts = { .count = holders,
                                   .index = index,
                                   .next = holder[(index + 1) % holders],
                                   .previous = holder[(index + holders - 1) % holders] };

    for (uint32_t i = 0; i < view->size; i++) {
        bool mate = spotnik_hosts_mate(view, i, rank);
        hosts.members += mate;
        hosts.place += mate && i < rank;
    }
    return hosts;
}

uint32_t spotnik_hosts_count(const struct spotnik_view *view)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        uint32_t before = 0;
        while (!spotnik_hosts_mate(view, before, rank))
            before++;
        count += before == rank;
    }
    return count;
}
