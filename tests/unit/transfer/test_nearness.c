/* SPDX-License-Identifier: Apache-2.0 */
/* When a joiner asks. Claims: at once where it is near; one that comes nearer is left to do so;
 * one that comes no nearer asks all the same, from where the members wait for it, and not from
 * farther. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "transfer/nearness.h"

enum { NEAR = 1, STEPS = 1000 };

/* The first step at which it asks, when the members make `theirs` steps in the time of `ours` of
 * its own; 0: never. */
static uint64_t asks_at(uint64_t behind, uint64_t ours, uint64_t theirs)
{
    struct spotnik_nearness nearness = { 0 };

    for (uint64_t step = 1; step <= STEPS; step++)
        if (spotnik_nearness_asks(&nearness, NEAR, step, behind + step * theirs / ours))
            return step;
    return 0;
}

static void test_near(void **state)
{
    (void)state;
    assert_int_equal(asks_at(0, 1, 1), 1);
    assert_int_equal(asks_at(NEAR, 1, 1), 1);
}

/* 40 behind, and as slow as the members: in each of 1000 steps it was as far as before. */
static void test_no_nearer(void **state)
{
    (void)state;
    for (uint64_t behind = NEAR + 1; behind <= 64; behind++)
        assert_in_range(asks_at(behind, 1, 1), 2, 32);
}

static void test_nearer(void **state)
{
    (void)state;
    assert_in_range(asks_at(40, 2, 1), 2 * (40 - NEAR) - 2, 2 * 40);
}

static void test_far(void **state)
{
    (void)state;
    assert_int_equal(asks_at(65, 1, 1), 0);
    assert_in_range(asks_at(30, 1, 2), 2, 34); /* falling back: before it is too far */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_near),
        cmocka_unit_test(test_no_nearer),
        cmocka_unit_test(test_nearer),
        cmocka_unit_test(test_far),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
