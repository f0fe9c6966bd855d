/* SPDX-License-Identifier: Apache-2.0 */
/* How many connections, on model links: capped per flow, full with one, lossy, noisy, with a flow
 * that never comes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/time.h"
#include "carry/width.h"

#define MBIT UINT64_C(125000)
#define TICK_NS (10 * SPOTNIK_MS)

/* What a link carries, all flows together: each gets `flow` at most. */
struct link {
    uint64_t flow, all;
    uint64_t noise_percent;
    uint64_t seed;
};

static uint64_t rate_of(struct link *link, uint32_t flows)
{
    uint64_t rate = link->flow * flows < link->all ? link->flow * flows : link->all;
    link->seed = link->seed * UINT64_C(6364136223846793005) + 1;
    uint64_t swing =
        link->noise_percent == 0 ? 0 : (link->seed >> 40) % (2 * link->noise_percent + 1);
    return rate * (100 - link->noise_percent + swing) / 100;
}

/* Pressed for so long. Returns the time during which more were in use than in the end. */
static uint64_t press(struct spotnik_width *width, struct link *link, uint64_t ns)
{
    uint64_t in_use_ns[SPOTNIK_WIDTH_MAX + 1] = { 0 }, beyond_ns = 0;
    for (uint64_t at = 0; at < ns; at += TICK_NS) {
        uint32_t before = width->wanted;
        in_use_ns[before] += TICK_NS;
        spotnik_width_pressed(width, rate_of(link, before) / (SPOTNIK_S / TICK_NS), TICK_NS);
        assert_in_range(width->wanted, 1, SPOTNIK_WIDTH_MAX);
        if (width->wanted > before)
            spotnik_width_opened(width, SPOTNIK_MS);
    }
    for (uint32_t i = width->wanted + 1; i <= SPOTNIK_WIDTH_MAX; i++)
        beyond_ns += in_use_ns[i];
    return beyond_ns;
}

static void test_capped_flows_add_up(void **context)
{
    (void)context;
    for (uint32_t flows = 1; flows <= SPOTNIK_WIDTH_MAX; flows++) {
        struct link link = { .flow = 1000 * MBIT / flows, .all = 1000 * MBIT };
        struct spotnik_width width = spotnik_width_make(0, 0);
        press(&width, &link, 10 * SPOTNIK_S);
        assert_int_equal(width.wanted, flows);
    }
}

static void test_a_full_link_gets_one(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct link link = {
            .flow = 1000 * MBIT, .all = 1000 * MBIT, .noise_percent = 15, .seed = seed
        };
        struct spotnik_width width = spotnik_width_make(0, 0);
        uint64_t tried_ns = press(&width, &link, 60 * SPOTNIK_S);
        assert_int_equal(width.wanted, 1);
        assert_true(tried_ns <= 3 * SPOTNIK_S); /* of 60: tries are few */
    }
}

static void test_noise_does_not_hide_a_cap(void **context)
{
    (void)context;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct link link = {
            .flow = 250 * MBIT, .all = 1000 * MBIT, .noise_percent = 10, .seed = seed
        };
        struct spotnik_width width = spotnik_width_make(0, 0);
        press(&width, &link, 10 * SPOTNIK_S);
        assert_int_equal(width.wanted, 4);
    }
}

static void test_a_cap_that_comes_later_is_found(void **context)
{
    struct link link = { .flow = 1000 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(0, 0);
    (void)context;
    press(&width, &link, 5 * SPOTNIK_S);
    assert_int_equal(width.wanted, 1);
    link.flow = 300 * MBIT;
    press(&width, &link, 60 * SPOTNIK_S);
    assert_int_equal(width.wanted, 4);
}

static void test_tries_become_rare(void **context)
{
    struct link link = { .flow = 1000 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(0, 0);
    (void)context;
    uint64_t first_ns = press(&width, &link, 100 * SPOTNIK_S),
             later_ns = press(&width, &link, 100 * SPOTNIK_S);
    assert_true(first_ns > 0);
    assert_true(later_ns < first_ns);
}

static void test_one_that_cannot_be_opened_is_given_up(void **context)
{
    struct link link = { .flow = 250 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(0, 0);
    (void)context;
    while (width.wanted == 1)
        spotnik_width_pressed(&width, rate_of(&link, 1) / 100, TICK_NS);
    spotnik_width_failed(&width);
    assert_int_equal(width.wanted, 1);
    for (uint64_t ns = 0; ns < 10 * SPOTNIK_S; ns += TICK_NS)
        assert_false(spotnik_width_pressed(&width, rate_of(&link, 1) / 100, TICK_NS));
}

static void test_a_given_number_stays(void **context)
{
    struct link link = { .flow = 100 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(3, 0);
    (void)context;
    press(&width, &link, 60 * SPOTNIK_S);
    assert_int_equal(width.wanted, 3);
    assert_int_equal(width.rate / MBIT, 300);
}

/* Twice as many at a time: a capped flow each quarter of a second would be seconds of a fraction of
 * the link. */
static void test_eight_are_found_within_two_seconds(void **context)
{
    struct link link = { .flow = 125 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(0, 0);
    (void)context;
    press(&width, &link, 2 * SPOTNIK_S);
    assert_int_equal(width.wanted, 8);
}

static void test_what_was_right_elsewhere_comes_first(void **context)
{
    struct link link = { .flow = 250 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(0, 4), given = spotnik_width_make(2, 4);
    (void)context;
    assert_int_equal(width.wanted, 4);
    assert_int_equal(given.wanted, 2);
    press(&width, &link, 10 * SPOTNIK_S);
    assert_int_equal(width.wanted, 4);
}

/* Four are tried beside four, and two of them cannot be opened: the others are judged all the
 * same. */
static void test_some_of_many_cannot_be_opened(void **context)
{
    struct link link = { .flow = 150 * MBIT, .all = 1000 * MBIT };
    struct spotnik_width width = spotnik_width_make(0, 4);
    (void)context;
    while (width.wanted == 4)
        spotnik_width_pressed(&width, rate_of(&link, 4) / 100, TICK_NS);
    assert_int_equal(width.wanted, 8);
    spotnik_width_failed(&width);
    spotnik_width_failed(&width);
    assert_int_equal(width.wanted, 6);
    assert_int_equal(width.trying, 2);
    spotnik_width_opened(&width, SPOTNIK_MS);
    while (width.trying == 2)
        spotnik_width_pressed(&width, rate_of(&link, 6) / 100, TICK_NS);
    assert_true(width.wanted >= 6);
}

/* Little data: nothing can be said of the link, and nothing is tried. */
static void test_little_data_says_nothing(void **context)
{
    struct spotnik_width width = spotnik_width_make(0, 0);
    (void)context;
    for (int i = 0; i < 10000; i++)
        assert_false(spotnik_width_pressed(&width, 100, TICK_NS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_capped_flows_add_up),
        cmocka_unit_test(test_a_full_link_gets_one),
        cmocka_unit_test(test_noise_does_not_hide_a_cap),
        cmocka_unit_test(test_a_cap_that_comes_later_is_found),
        cmocka_unit_test(test_tries_become_rare),
        cmocka_unit_test(test_one_that_cannot_be_opened_is_given_up),
        cmocka_unit_test(test_a_given_number_stays),
        cmocka_unit_test(test_eight_are_found_within_two_seconds),
        cmocka_unit_test(test_what_was_right_elsewhere_comes_first),
        cmocka_unit_test(test_some_of_many_cannot_be_opened),
        cmocka_unit_test(test_little_data_says_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
