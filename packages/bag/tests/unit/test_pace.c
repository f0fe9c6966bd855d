/* SPDX-License-Identifier: Apache-2.0 */
/* What the age of a machine means for saves and slots. */
#include "bag/bag_pace.h"
#include "tests.h"

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
TEST(saves_follow_age)
{
    struct bag_life life = bathtub();
    double young = next_s(&life, 5 * HOUR, 0), calm = next_s(&life, 5 * HOUR, 8 * HOUR),
           old = next_s(&life, 5 * HOUR, 22 * HOUR);
    assert_true(young < calm / 3);
    assert_true(old < calm);
    assert_true(old + 60 < 2 * HOUR);
}

/* Claim: with a constant rate of losses the interval is Young's, whatever the age and the time
 * scale. */
TEST(saves_without_memory)
{
    struct bag_life life = { .kind = BAG_LIFE_MTTF, .mttf_s = HOUR };
    double at_0 = next_s(&life, 3 * HOUR, 0), at_9 = next_s(&life, 3 * HOUR, 9 * HOUR);
    assert_float_equal(at_0, 657, 100); /* sqrt(2 60 3600), in ticks of 54 s */
    assert_float_equal(at_0, at_9, 55);
}

/* Claim: a long job is saved as often as a short one; what it is expected to take is all of it. */
TEST(long_jobs_are_saved_as_often)
{
    struct bag_life life = { .kind = BAG_LIFE_MTTF, .mttf_s = HOUR }, tub = bathtub();
    assert_float_equal(next_s(&life, 3 * HOUR, 0), 657, 66); /* sqrt(2 60 3600) */
    assert_float_equal(next_s(&life, 100 * HOUR, 0), 657, 66);
    assert_float_equal(next_s(&tub, 20 * HOUR, 0), next_s(&tub, 5 * HOUR, 0), 180);
}

/* Claim: what a job is expected to take on an old machine counts a new one in its place, which is
 * young in turn. */
TEST(a_lost_machine_is_replaced)
{
    struct bag_life life = bathtub();
    double work_s, calm_s, young_s;
    assert_int_equal(bag_pace_next(&life, 2 * HOUR, 8 * HOUR, 60, 60, &work_s, &calm_s, NULL), 0);
    assert_int_equal(bag_pace_next(&life, 2 * HOUR, 0, 60, 60, &work_s, &young_s, NULL), 0);
    assert_true(calm_s < young_s);
    assert_true(calm_s > 2 * HOUR);
}

/* Claim: long jobs keep off machines that are infants and off those near their cap; in between they
 * go first. */
TEST(long_jobs_want_calm)
{
    struct bag_life life = bathtub();
    const double length_s[] = { 1 * HOUR, 6 * HOUR, 0.25 * HOUR, 6 * HOUR, 3 * HOUR };
    assert_int_equal(bag_slot_choose(&life, 0, length_s, 5), 2);
    assert_int_equal(bag_slot_choose(&life, 8 * HOUR, length_s, 5), 1);
    assert_int_equal(bag_slot_choose(&life, 23.9 * HOUR, length_s, 5), 2);
    double fits = length_s[bag_slot_choose(&life, 18.5 * HOUR, length_s, 5)];
    assert_true(fits < 6 * HOUR && fits >= 1 * HOUR);
}

/* Claim: without memory age tells nothing, and the longest job comes first. */
TEST(without_memory_the_longest)
{
    struct bag_life life = { .kind = BAG_LIFE_MTTF, .mttf_s = HOUR };
    const double length_s[] = { 60, 600, 300 };
    assert_int_equal(bag_slot_choose(&life, 0, length_s, 3), 1);
    assert_int_equal(bag_slot_choose(&life, 50 * HOUR, length_s, 3), 1);
}
