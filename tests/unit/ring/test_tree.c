/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of all sizes to 200 and all fans: who is whose neighbour, seen from both ends, and how far
 * the root is. */
#include "ring/tree.h"
#include "tests.h"

#define SIZE_MAX_TRIED 200u

/* Claim: a child's slot at its parent and the parent's at the child name each other, and nobody
 * else is a neighbour. */
static void check_place(const struct spotnik_tree *tree)
{
    uint32_t neighbours = 0;

    for (uint32_t other = 0; other < tree->size + 3; other++) {
        struct spotnik_tree seen = { .size = tree->size, .place = other, .fan = tree->fan };
        uint32_t slot = spotnik_tree_slot(tree, other);
        if (slot == SPOTNIK_TREE_STRANGER) {
            assert_true(other >= tree->size
                        || spotnik_tree_slot(&seen, tree->place) == SPOTNIK_TREE_STRANGER);
            continue;
        }
        assert_true(other < tree->size && other != tree->place);
        assert_true(slot <= tree->fan);
        assert_int_equal(spotnik_tree_at(tree, slot), other);
        uint32_t back = spotnik_tree_slot(&seen, tree->place);
        assert_true((slot == 0) != (back == 0));
        if (slot > 0)
            assert_int_equal(spotnik_tree_order(tree, other), slot);
        neighbours++;
    }
    assert_int_equal(neighbours, spotnik_tree_children(tree) + (tree->place > 0));
}

TEST(neighbours)
{
    for (uint32_t fan = 1; fan <= SPOTNIK_TREE_FAN_MAX; fan++)
        for (uint32_t size = 1; size <= SIZE_MAX_TRIED; size += 1 + size / 20)
            for (uint32_t place = 0; place < size; place++)
                check_place(&(struct spotnik_tree){ .size = size, .place = place, .fan = fan });
}

static uint32_t height(uint32_t size, uint32_t fan)
{
    uint32_t hops = 0;
    for (uint32_t place = size - 1; place > 0; hops++)
        place =
            spotnik_tree_at(&(struct spotnik_tree){ .size = size, .place = place, .fan = fan }, 0);
    return hops;
}

/* Claim: every place leads to the root; with eight below each, 9 members are one hop away at most,
 * 73 two, 585 three. */
TEST(height)
{
    assert_int_equal(height(1, 8), 0);
    assert_int_equal(height(9, 8), 1);
    assert_int_equal(height(10, 8), 2);
    assert_int_equal(height(73, 8), 2);
    assert_int_equal(height(74, 8), 3);
    assert_int_equal(height(585, 8), 3);
    assert_int_equal(height(586, 8), 4);
    assert_int_equal(height(6, 1), 5);
}
