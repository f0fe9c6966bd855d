/* SPDX-License-Identifier: Apache-2.0 */
/* Which of two congestion controls, on model links: one that the usual control leaves idle now and
 * then, one that drops, one where both are the same, one that changes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "carry/congestion.h"

#define MBIT UINT64_C(125000)
#define TICK_NS (50 * SPOTNIK_MS)

/* Of a link of 1 Gbit/s, in thousandths; and milliseconds of each ten seconds in which
 * nothing goes. */
struct link {
    uint64_t usual, other;
    uint64_t usual_idle_ms;
    uint64_t noise, seed;
};

static uint64_t rate_of(struct link *link, bool other, uint64_t at_ns)
{
    uint64_t share = other ? link->other : link->usual;
    if (!other && at_ns / SPOTNIK_MS % 10000 < link->usual_idle_ms)
        return 0;
    link->seed = link->seed * UINT64_C(6364136223846793005) + 1;
    uint64_t swing = link->noise == 0 ? 0 : (link->seed >> 40) % (2 * link->noise + 1);
    return 1000 * MBIT * (share - link->noise + swing) / 1000;
}

/* Pressed for so long. Returns the time for which the other one was in use. */
static uint64_t press(struct spotnik_congestion *congestion, struct link *link, uint64_t ns)
{
    uint64_t other_ns = 0;
    for (uint64_t at = 0; at < ns; at += TICK_NS) {
        bool other = congestion->other;
        other_ns += other ? TICK_NS : 0;
        bool changed =
            spotnik_congestion_pressed(congestion, rate_of(link, other, at) / (SPOTNIK_S / TICK_NS),
                                       TICK_NS);
        assert_int_equal(changed, congestion->other != other);
    }
    return other_ns;
}

static void test_pauses_of_the_usual_one_are_found(void **context)
{
    struct link link = { .usual = 1000, .other = 1000, .usual_idle_ms = 200 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, false, false);
    (void)context;
    press(&congestion, &link, 30 * SPOTNIK_S);
    assert_true(congestion.other);
    assert_false(congestion.trying);
    uint64_t other_ns = press(&congestion, &link, 900 * SPOTNIK_S);
    assert_true(congestion.other);
    assert_true(other_ns > 850 * SPOTNIK_S); /* the usual one is tried now and then */
}

static void test_what_is_much_worse_is_given_up_soon(void **context)
{
    struct link link = { .usual = 1000, .other = 800, .usual_idle_ms = 200 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, false, false);
    (void)context;
    uint64_t other_ns = press(&congestion, &link, 100 * SPOTNIK_S);
    assert_false(congestion.other);
    assert_true(other_ns > 0);
    assert_true(other_ns <= 2 * SPOTNIK_S);
}

static void test_the_usual_one_stays_where_both_are_the_same(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct link link = { .usual = 1000, .other = 1000, .noise = 50, .seed = seed };
        struct spotnik_congestion congestion = spotnik_congestion_make(false, false, false);
        press(&congestion, &link, 100 * SPOTNIK_S);
        assert_false(congestion.other);
    }
}

/* All members pause at once, and none sees it. */
static void test_of_equals_the_one_without_pauses_stays(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct link link = { .usual = 1000, .other = 1000, .noise = 50, .seed = seed };
        struct spotnik_congestion congestion = spotnik_congestion_make(false, true, false);
        press(&congestion, &link, 30 * SPOTNIK_S);
        assert_true(congestion.other);
        assert_true(press(&congestion, &link, 900 * SPOTNIK_S) > 850 * SPOTNIK_S);
    }
}

static void test_one_without_pauses_is_not_kept_where_it_is_worse(void **context)
{
    struct link link = { .usual = 1000, .other = 970 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, true, false);
    (void)context;
    press(&congestion, &link, 60 * SPOTNIK_S);
    assert_false(congestion.other);
}

static void test_tries_become_rare(void **context)
{
    struct link link = { .usual = 1000, .other = 1000 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, false, false);
    (void)context;
    uint64_t other_ns = press(&congestion, &link, 10000 * SPOTNIK_S);
    assert_true(other_ns < 100 * SPOTNIK_S);
}

/* The line begins to drop: the usual one is back within a minute. */
static void test_a_line_that_changes_gets_the_usual_one_again(void **context)
{
    struct link link = { .usual = 1000, .other = 1000, .usual_idle_ms = 200 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, false, false);
    (void)context;
    press(&congestion, &link, 50 * SPOTNIK_S);
    assert_true(congestion.other);
    link.other = 300;
    press(&congestion, &link, 60 * SPOTNIK_S);
    assert_false(congestion.other);
}

/* A lane that becomes wider is no better for it because of its congestion control. */
static void test_another_width_is_measured_from_the_start(void **context)
{
    struct link link = { .usual = 250, .other = 250 }, wider = { .usual = 1000, .other = 1000 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, false, false);
    (void)context;
    press(&congestion, &link, 11 * SPOTNIK_S);
    spotnik_congestion_anew(&congestion);
    press(&congestion, &wider, 60 * SPOTNIK_S);
    assert_false(congestion.other);
}

static void test_nothing_is_tried_where_it_is_fixed(void **context)
{
    struct link link = { .usual = 100, .other = 1000 };
    struct spotnik_congestion congestion = spotnik_congestion_make(true, false, false);
    (void)context;
    assert_int_equal(press(&congestion, &link, 1000 * SPOTNIK_S), 0);
}

static void test_what_was_better_elsewhere_comes_first(void **context)
{
    struct link link = { .usual = 1000, .other = 1000, .usual_idle_ms = 200 };
    struct spotnik_congestion congestion = spotnik_congestion_make(false, false, true);
    (void)context;
    assert_true(congestion.other);
    press(&congestion, &link, 60 * SPOTNIK_S);
    assert_true(congestion.other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pauses_of_the_usual_one_are_found),
        cmocka_unit_test(test_what_is_much_worse_is_given_up_soon),
        cmocka_unit_test(test_the_usual_one_stays_where_both_are_the_same),
        cmocka_unit_test(test_of_equals_the_one_without_pauses_stays),
        cmocka_unit_test(test_one_without_pauses_is_not_kept_where_it_is_worse),
        cmocka_unit_test(test_tries_become_rare),
        cmocka_unit_test(test_a_line_that_changes_gets_the_usual_one_again),
        cmocka_unit_test(test_another_width_is_measured_from_the_start),
        cmocka_unit_test(test_nothing_is_tried_where_it_is_fixed),
        cmocka_unit_test(test_what_was_better_elsewhere_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
