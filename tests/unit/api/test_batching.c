/* SPDX-License-Identifier: Apache-2.0 */
/* From agreed rows to weights, on a model of workers: shares come to those of the speeds, members
 * are followed by what their rows say of themselves, a step that is reduced again counts once, and
 * the state travels. */
#include <string.h>

#include "api/batching.h"
#include "api/noise.h"
#include "tests.h"

enum { SLOTS = 8, BATCH = 39 * 32 };

static struct spotnik_batching batching, other;
static struct spotnik_step_stats_row row[SLOTS];
static uint64_t step;

static void start(void)
{
    memset(&batching, 0, sizeof batching);
    memset(row, 0, sizeof row);
    spotnik_batch_config_init(&batching.config, BATCH);
    batching.config.window = 1;
    step = 0;
}

/* Share `share` takes `samples` at `per_ms` samples per ms, and was share `before` - 1. */
static void give(uint32_t share, uint64_t samples, double per_ms, uint32_t before)
{
    row[share] =
        (struct spotnik_step_stats_row){ .compute_us = (uint32_t)(1000 * (double)samples / per_ms),
                                         .samples = (uint32_t)samples,
                                         .before = before };
}

static void observe(void)
{
    spotnik_batching_observe(&batching, ++step, SLOTS, row);
    assert_int_equal(spotnik_batching_weights(&batching, SLOTS), SLOTS);
}

static uint64_t weights(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < SLOTS; i++)
        sum += batching.weight[i];
    return sum;
}

/* Three members of these speeds for `steps` steps; the first is dealt evenly. */
static void run(const double *speed, int steps)
{
    for (int n = 0; n < steps; n++) {
        for (uint32_t i = 0; i < 3; i++)
            give(i, step ? batching.weight[i] : BATCH / 3, speed[i], step ? i + 1 : 0);
        observe();
        assert_int_equal(weights(), BATCH);
    }
}

TEST(shares_come_to_the_speeds)
{
    static const double speed[3] = { 2, 17, 20 };

    start();
    run(speed, 4);
    assert_true(batching.weight[0] == 64 && batching.weight[1] == 544 && batching.weight[2] == 640);
    assert_true(batching.now.controller.adjustments <= 2);
}

/* The second is lost, and the others stand the other way round; then somebody comes. */
TEST(members_are_followed)
{
    static const double speed[3] = { 2, 17, 20 };

    start();
    run(speed, 6);
    memset(row, 0, sizeof row);
    give(1, 64, 2, 1);
    give(4, 640, 20, 3); /* shares may lie apart: who had those between is lost */
    observe();
    assert_true(batching.weight[0] == 0 && batching.weight[2] == 0);
    assert_int_equal(weights(), BATCH);
    assert_true(batching.weight[4] > 9 * batching.weight[1]
                && batching.weight[4] < 11 * batching.weight[1]);
    memset(row, 0, sizeof row);
    give(0, 113, 2, 2);
    give(1, 1135, 20, 5);
    row[2] = (struct spotnik_step_stats_row){ .compute_us = 1 };
    observe();
    assert_int_equal(weights(), BATCH);
    /* the mean of the others, made to fit */
    assert_true(batching.weight[2] > 300 && batching.weight[2] < 500);
}

/* With a batch for each member, the job's grows and shrinks with it. */
TEST(a_batch_of_each)
{
    start();
    batching.per_member = true;
    batching.config.batch = 100;
    for (uint32_t i = 0; i < 3; i++)
        give(i, 100, 1, 0);
    observe();
    assert_int_equal(weights(), 300);
    memset(&row[1], 0, sizeof row[1]);
    give(0, 100, 1, 1);
    give(2, 100, 1, 3);
    observe();
    assert_int_equal(weights(), 200);
}

/* A step whose result was seen, but not committed, is observed anew when it comes with another one;
 * with the same it is not. */
TEST(a_step_counts_once)
{
    static const double speed[3] = { 2, 17, 20 };
    struct spotnik_step_stats_row kept[SLOTS];

    start();
    run(speed, 1);
    memcpy(&other, &batching, sizeof other);
    for (uint32_t i = 0; i < 3; i++)
        give(i, batching.weight[i], speed[i], i + 1);
    memcpy(kept, row, sizeof kept);
    give(1, 1, 17, 2);
    observe();
    memcpy(row, kept, sizeof row);
    step--;
    observe();
    spotnik_batching_observe(&batching, step, SLOTS, row);
    spotnik_batching_observe(&other, step, SLOTS, row);
    spotnik_batching_weights(&other, SLOTS);
    assert_memory_equal(batching.weight, other.weight, sizeof batching.weight);
    assert_int_equal(batching.now.controller.observed, other.now.controller.observed);
}

/* A joiner that takes the state over goes on as the others do. Bytes that make no sense leave
 * nothing. */
TEST(the_state_travels)
{
    static const double speed[3] = { 9, 12, 18 };
    static unsigned char bytes[sizeof(struct spotnik_batching_state) + 64];

    start();
    run(speed, 3);
    size_t size = spotnik_batching_pack(&batching, bytes, sizeof bytes);
    assert_true(size > 0 && size < 600);
    assert_int_equal(spotnik_batching_pack(&batching, bytes, size - 1), 0);
    memset(&other, 0, sizeof other);
    other.config = batching.config;
    assert_true(spotnik_batching_unpack(&other, bytes, size));
    for (uint32_t i = 0; i < 3; i++)
        give(i, batching.weight[i], 10 + i, i + 1);
    observe();
    spotnik_batching_observe(&other, step, SLOTS, row);
    spotnik_batching_weights(&other, SLOTS);
    assert_memory_equal(batching.weight, other.weight, sizeof batching.weight);
    assert_false(spotnik_batching_unpack(&other, bytes, size - 1));
    assert_int_equal(spotnik_batching_weights(&other, SLOTS), 0);
    memset(bytes + 16, 0xff, 60);
    assert_false(spotnik_batching_unpack(&other, bytes, size));
    assert_false(spotnik_batching_unpack(&other, NULL, 0));
}

/* Members that run apart give their rows early: a time belongs to the share of the step before.
 * Each follows its own speed by the asynchronous rule; the sum is the batch in the mean; standing
 * together again it is exactly that. */
TEST(members_apart)
{
    static const double speed[3] = { 2, 17, 20 };
    uint64_t before[3] = { BATCH / 3, BATCH / 3, BATCH / 3 };

    start();
    batching.config.window = 5;
    for (int n = 0; n < 60; n++) {
        for (uint32_t i = 0; i < 3; i++) {
            uint64_t now = step ? batching.weight[i] : BATCH / 3;
            give(i, now, speed[i], step ? i + 1 : 0);
            row[i].compute_us = step ? (uint32_t)(1000 * (double)before[i] / speed[i]) : 1;
            row[i].timed = step ? (uint32_t)before[i] : UINT32_MAX;
            before[i] = now;
        }
        observe();
    }
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(batching.weight[i], 32 * speed[i] * 0.94, 32 * speed[i] * 1.06);
    assert_in_range(weights(), BATCH * 0.95, BATCH * 1.05);
    assert_in_range(batching.now.controller.adjustments, 1, 4);
    batching.weight[0]--; /* whatever they have come to */
    batching.now.controller.member[0].samples--;
    for (uint32_t i = 0; i < 3; i++)
        give(i, batching.weight[i], speed[i], i + 1);
    observe();
    assert_int_equal(weights(), BATCH);
}

/* Bounds that the batch does not fit into: even, until it does. */
TEST(impossible_bounds_are_even)
{
    start();
    batching.config.most = BATCH / 2;
    give(0, BATCH, 1, 0);
    spotnik_batching_observe(&batching, ++step, SLOTS, row);
    assert_int_equal(spotnik_batching_weights(&batching, SLOTS), 0);
    give(0, BATCH / 2, 1, 1);
    give(1, BATCH / 2, 1, 0);
    observe();
    assert_int_equal(weights(), BATCH);
}

/* Two passes over the gradients stay within 1 % of the time of the steps. */
TEST(noise_is_measured_seldom_enough)
{
    assert_int_equal(spotnik_noise_interval(1000, 0.1), 1);
    for (uint64_t bytes = 1 << 10; bytes <= UINT64_C(1) << 30; bytes *= 4)
        for (double step_s = 1e-3; step_s < 10; step_s *= 10) {
            uint32_t every = spotnik_noise_interval(bytes, step_s);
            assert_true((every & (every - 1)) == 0);
            assert_true(2 * (double)bytes / 2.5e9 <= 0.01 * step_s * every);
        }
}
