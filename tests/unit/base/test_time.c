/* SPDX-License-Identifier: Apache-2.0 */
/* Instants saturate instead of wrapping: a limit of NEVER plus anything is still never. */
#include "base/time.h"
#include "tests.h"

TEST(addition_saturates)
{
    assert_true(spotnik_time_add(1, 2) == 3);
    assert_true(spotnik_time_add(SPOTNIK_NEVER, 0) == SPOTNIK_NEVER);
    assert_true(spotnik_time_add(SPOTNIK_NEVER, 1) == SPOTNIK_NEVER);
    assert_true(spotnik_time_add(SPOTNIK_NEVER - 5, 5) == SPOTNIK_NEVER);
    assert_true(spotnik_time_add(SPOTNIK_NEVER - 5, 4) == SPOTNIK_NEVER - 1);
    assert_true(spotnik_time_add(SPOTNIK_NEVER, SPOTNIK_NEVER) == SPOTNIK_NEVER);
}

TEST(nothing_has_passed_since_the_future)
{
    assert_true(spotnik_time_since(10, 4) == 6);
    assert_true(spotnik_time_since(4, 4) == 0);
    assert_true(spotnik_time_since(4, 10) == 0);
    assert_true(spotnik_time_since(4, SPOTNIK_NEVER) == 0);
}

TEST(units_fit_together)
{
    assert_true(spotnik_time_min(SPOTNIK_S, SPOTNIK_MS) == SPOTNIK_MS);
    assert_true(1000 * SPOTNIK_US == SPOTNIK_MS && 1000 * SPOTNIK_MS == SPOTNIK_S);
}
