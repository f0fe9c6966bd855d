/* SPDX-License-Identifier: Apache-2.0 */
/* The shape of the trees that passes go by. Places count from the initiator. They form blocks of
 * `block`, the reach of a warm link: within a block place p tells 2p+1 and 2p+2. The head of a
 * block tells the next head. Where members are many it tells two heads, as if heads were a block
 * of their own, and no place is deeper than the logarithm of the size. Rules: docs/protocol.md
 * 8. */
#include "base/assert.h"
#include "membership/agreement.h"

static void add(const struct tree_layout *tree_layout, uint64_t place, uint32_t below[],
                uint32_t *count)
{
    if (place < tree_layout->count)
        below[(*count)++] = (uint32_t)place;
}

uint32_t tree_layout_below(const struct tree_layout *tree_layout, uint32_t place,
                           uint32_t below[TREE_CHILDREN_MAX])
{
    uint32_t block = tree_layout->block, within = place % block, head = place - within, count = 0;

    SPOTNIK_ASSERT(block >= 1);
    SPOTNIK_ASSERT(place < tree_layout->count);
    if (within == 0 && tree_layout->forked) {
        add(tree_layout, 2 * (uint64_t)head + block, below, &count);
        add(tree_layout, 2 * ((uint64_t)head + block), below, &count);
    } else if (within == 0) {
        add(tree_layout, (uint64_t)head + block, below, &count);
    }
    for (uint32_t child = 2 * within + 1; child <= 2 * within + 2 && child < block; child++)
        add(tree_layout, head + child, below, &count);
    return count;
}

uint32_t tree_layout_above(const struct tree_layout *tree_layout, uint32_t place)
{
    uint32_t block = tree_layout->block, within = place % block;

    SPOTNIK_ASSERT(place > 0 && place < tree_layout->count);
    if (within > 0)
        return place - within + (within - 1) / 2;
    return tree_layout->forked ? (place / block - 1) / 2 * block : place - block;
}
