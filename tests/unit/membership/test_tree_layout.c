/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of every shape up to a size: each place but the first has one place above it. */
#include "membership/agreement.h"
#include "tests.h"

#define COUNT_MAX 70
#define BLOCK_MAX 9

static void check(const struct tree_layout *layout)
{
    uint32_t above[COUNT_MAX] = { 0 }, told = 0;
    for (uint32_t place = 0; place < layout->count; place++) {
        uint32_t below[TREE_CHILDREN_MAX], count = tree_layout_below(layout, place, below);
        assert_true(count <= TREE_CHILDREN_MAX);
        for (uint32_t i = 0; i < count; i++, told++) {
            assert_true(below[i] > place && below[i] < layout->count);
            above[below[i]] = place;
            assert_int_equal(tree_layout_above(layout, below[i]), place);
        }
    }
    assert_int_equal(told, layout->count - 1);
    for (uint32_t place = 1; place < layout->count; place++)
        assert_int_equal(above[place], tree_layout_above(layout, place));
}

/* Claim: every place is told once, by the place that tree_layout_above() names. */
TEST(every_place_is_told_once)
{
    for (uint32_t count = 1; count <= COUNT_MAX; count++)
        for (uint32_t block = 1; block <= BLOCK_MAX; block++)
            for (int forked = 0; forked <= 1; forked++)
                check(&(struct tree_layout){ .count = count, .block = block, .forked = forked });
}
