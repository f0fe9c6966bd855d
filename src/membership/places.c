/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of the trees that passes go by. Places count from the initiator. They form blocks of
 * `block`, the reach of a warm link: within a block place p tells 2p+1 and 2p+2. The head of a
 * block tells the next head. Where members are many it tells two heads, as if heads were a block of
 * their own, and no place is deeper than the logarithm of the size. */
#include "base/assert.h"
#include "membership/membership.h"

static void add(const struct places *places, uint64_t place, uint32_t below[], uint32_t *count)
{
    if (place < places->count)
        below[(*count)++] = (uint32_t)place;
}

uint32_t places_below(const struct places *places, uint32_t place, uint32_t below[PLACES_BELOW])
{
    uint32_t block = places->block, within = place % block, head = place - within, count = 0;

    SPOTNIK_ASSERT(block >= 1);
    SPOTNIK_ASSERT(place < places->count);
    if (within == 0 && places->forked) {
        add(places, 2 * (uint64_t)head + block, below, &count);
        add(places, 2 * ((uint64_t)head + block), below, &count);
    } else if (within == 0) {
        add(places, (uint64_t)head + block, below, &count);
    }
    for (uint32_t child = 2 * within + 1; child <= 2 * within + 2 && child < block; child++)
        add(places, head + child, below, &count);
    return count;
}

uint32_t places_above(const struct places *places, uint32_t place)
{
    uint32_t block = places->block, within = place % block;

    SPOTNIK_ASSERT(place > 0 && place < places->count);
    if (within > 0)
        return place - within + (within - 1) / 2;
    return places->forked ? (place / block - 1) / 2 * block : place - block;
}
