/* SPDX-License-Identifier: Apache-2.0 */
/* A tree over places 0 to size - 1: the way of partial sums (docs/design/0007-data-path.md). Place
 * 0 is the root, place p has the children fan p + 1 to fan p + fan, as far as there are. Pure
 * arithmetic: callers decide what is at a place, and what to send.
 *
 *            0            A place knows its neighbours by slots: 0 is its parent, 1 to `fan` are
 *                         its children, in the order
 *          / | \          in which their sums are added.
 *         1  2  3
 *       / | \  ...        fan 3 */
#ifndef SPOTNIK_RING_TREE_H
#define SPOTNIK_RING_TREE_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_TREE_FAN_MAX 8
#define SPOTNIK_TREE_STRANGER UINT32_MAX

struct spotnik_tree {
    uint32_t size, place; /* places of the tree, and the one of this member */
    uint32_t fan;         /* 1 to SPOTNIK_TREE_FAN_MAX */
};

static inline uint32_t spotnik_tree_children(const struct spotnik_tree *tree)
{
    uint64_t first = (uint64_t)tree->fan * tree->place + 1,
             left = first < tree->size ? tree->size - first : 0;
    return left < tree->fan ? (uint32_t)left : tree->fan;
}

/* The place at a slot that is taken. */
static inline uint32_t spotnik_tree_at(const struct spotnik_tree *tree, uint32_t slot)
{
    return slot == 0 ? (tree->place - 1) / tree->fan : tree->fan * tree->place + slot;
}

/* The slot of `child` at its parent. */
static inline uint32_t spotnik_tree_order(const struct spotnik_tree *tree, uint32_t child)
{
    return (child - 1) % tree->fan + 1;
}

/* The slot of another place; STRANGER: it is no neighbour. */
static inline uint32_t spotnik_tree_slot(const struct spotnik_tree *tree, uint32_t other)
{
    if (tree->place > 0 && other == spotnik_tree_at(tree, 0))
        return 0;
    if (other == 0 || other >= tree->size || (other - 1) / tree->fan != tree->place)
        return SPOTNIK_TREE_STRANGER;
    return spotnik_tree_order(tree, other);
}

#endif
