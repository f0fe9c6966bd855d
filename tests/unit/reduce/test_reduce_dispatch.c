/* SPDX-License-Identifier: Apache-2.0 */
/* SPOTNIK_CPU=scalar (set by the build) keeps the library to the first tier, and the public
 * functions still work. */
#include "reduce/reduce.h"
#include "tests.h"

TEST(environment_masks_the_better_tiers)
{
    int32_t a[9], b[9];

    for (int i = 0; i < 9; i++) {
        a[i] = i;
        b[i] = 100 * i;
    }
    assert_string_equal(spotnik_reduce_tier_name(), "scalar");
    spotnik_reduce_combine(a, a, b, 9, SPOTNIK_I32, SPOTNIK_SUM, 1, 1);
    for (int i = 0; i < 9; i++)
        assert_int_equal(a[i], 101 * i);
}
