/* SPDX-License-Identifier: Apache-2.0 */
/* What the age of a machine means for saves and places. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bag/pace.h"

#define HOUR 3600.0

static struct bag_life bathtub(void)
{
    return (struct bag_life){ .kind = BAG_LIFE_BATHTUB,
                              .bathtub = spotnik_bathtub_published,
                              .cap_s = 24 * HOUR };
}

static double next_s(const struct bag_life *life, double rest_s, double age_s)
{
    double work_s = 0, expected_s = 0;
    assert_int_equal(bag_pace_next(life, rest_s, age_s, 60, 60, &work_s, &expected_s, NULL), 0);
    assert_true(expected_s > rest_s);
    return work_s;
}

/* Claim: a young machine is saved often, one in its calm years seldom, one near its cap often
 * again, and no save comes too late for it. */
static void saves_follow_age(void **state)
{
    struct bag_life life = bathtub();
    (void)state;
    double young = next_s(&life, 5 * HOUR, 0), calm = next_s(&life, 5 * HOUR, 8 * HOUR),
           old = next_s(&life, 5 * HOUR, 22 * HOUR);
    assert_true(young < calm / 3);
    assert_true(old < calm);
    assert_true(old + 60 < 2 * HOUR);
}

/* Claim: with a constant rate of losses the interval is Young's, whatever the age and the time
 * scale. */
static void saves_without_memory(void **state)
{
    struct bag_life life = { .kind = BAG_LIFE_MTTF, .mttf_s = HOUR };
    (void)state;
    double at_0 = next_s(&life, 3 * HOUR, 0), at_9 = next_s(&life, 3 * HOUR, 9 * HOUR);
    assert_float_equal(at_0, 657, 100); /* sqrt(2 60 3600), in ticks of 54 s */
    assert_float_equal(at_0, at_9, 55);
}

/* Claim: a long job is saved as often as a short one; what it is expected to take is all of it. */
static void long_jobs_are_saved_as_often(void **state)
{
    struct bag_life life = { .kind = BAG_LIFE_MTTF, .mttf_s = HOUR }, tub = bathtub();
    (void)state;
    assert_float_equal(next_s(&life, 3 * HOUR, 0), 657, 66); /* sqrt(2 60 3600) */
    assert_float_equal(next_s(&life, 100 * HOUR, 0), 657, 66);
    assert_float_equal(next_s(&tub, 20 * HOUR, 0), next_s(&tub, 5 * HOUR, 0), 180);
}

/* Claim: what a job is expected to take on an old machine counts a new one in its place, which is
 * young in turn. */
static void a_lost_machine_is_replaced(void **state)
{
    struct bag_life life = bathtub();
    double work_s, calm_s, young_s;
    (void)state;
    assert_int_equal(bag_pace_next(&life, 2 * HOUR, 8 * HOUR, 60, 60, &work_s, &calm_s, NULL), 0);
    assert_int_equal(bag_pace_next(&life, 2 * HOUR, 0, 60, 60, &work_s, &young_s, NULL), 0);
    assert_true(calm_s < young_s);
    assert_true(calm_s > 2 * HOUR);
}

/* Claim: long jobs keep off machines that are infants and off those near their cap; in between they
 * go first. */
static void long_jobs_want_calm(void **state)
{
    struct bag_life life = bathtub();
    const double length_s[] = { 1 * HOUR, 6 * HOUR, 0.25 * HOUR, 6 * HOUR, 3 * HOUR };
    (void)state;
    assert_int_equal(bag_place_choose(&life, 0, length_s, 5), 2);
    assert_int_equal(bag_place_choose(&life, 8 * HOUR, length_s, 5), 1);
    assert_int_equal(bag_place_choose(&life, 23.9 * HOUR, length_s, 5), 2);
    double fits = length_s[bag_place_choose(&life, 18.5 * HOUR, length_s, 5)];
    assert_true(fits < 6 * HOUR && fits >= 1 * HOUR);
}

/* Claim: without memory age tells nothing, and the longest job comes first. */
static void without_memory_the_longest(void **state)
{
    struct bag_life life = { .kind = BAG_LIFE_MTTF, .mttf_s = HOUR };
    const double length_s[] = { 60, 600, 300 };
    (void)state;
    assert_int_equal(bag_place_choose(&life, 0, length_s, 3), 1);
    assert_int_equal(bag_place_choose(&life, 50 * HOUR, length_s, 3), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(saves_follow_age),
        cmocka_unit_test(saves_without_memory),
        cmocka_unit_test(long_jobs_are_saved_as_often),
        cmocka_unit_test(a_lost_machine_is_replaced),
        cmocka_unit_test(long_jobs_want_calm),
        cmocka_unit_test(without_memory_the_longest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
