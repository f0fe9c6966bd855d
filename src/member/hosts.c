/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts of a view, counted by looking for their holders. Quadratic in the view, once per view. */
#include "member/hosts.h"

#include "base/assert.h"

static bool is_holder(const struct spotnik_view *view, uint32_t rank)
{
    for (uint32_t before = 0; before < rank; before++)
        if (spotnik_hosts_mate(view, before, rank))
            return false;
    return true;
}

struct spotnik_hosts spotnik_hosts_of(const struct spotnik_view *view, uint32_t rank)
{
    struct spotnik_hosts hosts = {.next = SPOTNIK_NO_RANK, .previous = SPOTNIK_NO_RANK};
    uint32_t first = SPOTNIK_NO_RANK, last = SPOTNIK_NO_RANK, own = SPOTNIK_NO_RANK;

    SPOTNIK_ASSERT(rank < view->size);
    for (uint32_t i = 0; i < view->size; i++) {
        bool mate = spotnik_hosts_mate(view, i, rank);
        hosts.members += mate;
        hosts.place += mate && i < rank;
        if (!is_holder(view, i))
            continue;
        if (mate) {
            hosts.index = hosts.count;
            hosts.previous = last;
            own = i;
        } else if (last == own && own != SPOTNIK_NO_RANK) {
            hosts.next = i;
        }
        first = first == SPOTNIK_NO_RANK ? i : first;
        last = i;
        hosts.count++;
    }
    hosts.next = hosts.next == SPOTNIK_NO_RANK ? first : hosts.next;
    hosts.previous = hosts.previous == SPOTNIK_NO_RANK ? last : hosts.previous;
    return hosts;
}

uint32_t spotnik_hosts_holders(const struct spotnik_view *view, uint32_t *ret_ranks)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < view->size; rank++)
        if (is_holder(view, rank))
            ret_ranks[count++] = rank;
    return count;
}
