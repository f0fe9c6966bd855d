/* SPDX-License-Identifier: Apache-2.0 */
/* The controller of dynamic batching against a model of workers: a step takes overhead + samples /
 * speed, give or take noise. Published cases (ACSOS'20), what the dead-band is for, learnt bounds,
 * views that change, conservation. */
#include "adapt/controller.h"

#include <string.h>

#include "random.h"
#include "spotnik/spotnik.h"
#include "tests.h"

#define WORKERS_MAX 32
#define SEEDS 20

struct workers {
    uint32_t count;
    double speed[WORKERS_MAX]; /* samples/s */
    double overhead_s, noise;  /* relative, uniform in +-noise */
    /* relative, normal; part of the steps that take three times as long */
    double deviation, spikes;
    struct spotnik_prng prng;
};

static struct spotnik_batch_controller controller;

static void workers_set(struct workers *w, uint32_t count, const double *speed, double noise)
{
    *w = (struct workers){ .count = count, .noise = noise };
    memcpy(w->speed, speed, count * sizeof *speed);
    spotnik_prng_seed(&w->prng, 11);
}

static void times(struct workers *w, double *ret_s)
{
    for (uint32_t i = 0; i < w->count; i++) {
        double exact = w->overhead_s + (double)controller.member[i].samples / w->speed[i];
        ret_s[i] = exact * (1 + w->noise * (2 * uniform(&w->prng) - 1));
        if (w->deviation > 0)
            ret_s[i] = exact * (1 + w->deviation * normal(&w->prng))
                       * (uniform(&w->prng) < w->spikes ? 3 : 1);
    }
}

static uint64_t total(void)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < controller.size; i++)
        sum += controller.member[i].samples;
    return sum;
}

/* One step; conservation is checked in all of them. */
static bool step(struct workers *w)
{
    double time_s[WORKERS_MAX];

    times(w, time_s);
    bool changed = spotnik_batch_controller_observe(&controller, time_s);
    assert_int_equal(total(), controller.config.batch);
    return changed;
}

static void steps_until(struct workers *w, uint64_t adjustments)
{
    for (int i = 0; i < 1000 && controller.adjustments < adjustments; i++)
        step(w);
}

/* (slowest - fastest) / slowest, of exact times. */
static double spread(const struct workers *w)
{
    double least = 1e300, most = 0;

    for (uint32_t i = 0; i < w->count; i++) {
        double exact = w->overhead_s + (double)controller.member[i].samples / w->speed[i];
        least = exact < least ? exact : least;
        most = exact > most ? exact : most;
    }
    return (most - least) / most;
}

static void start(uint64_t batch, uint32_t size)
{
    struct spotnik_batch_config config;

    spotnik_batch_config_init(&config, batch);
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, size, NULL), 0);
}

static const double cores[3][3] = { { 9, 12, 18 },
                                    { 3, 18, 18 },
                                    { 2, 17, 20 } }; /* H = 2, 6, 10; 39 in all */

/* Claim: with times in proportion to samples, uniform batches become just the published shares
 * 9:12:18, 2:17:20 and one between, in one adjustment, and stay. */
TEST(published_shares)
{
    struct workers w;

    for (int h = 0; h < 3; h++) {
        workers_set(&w, 3, cores[h], 0);
        start(39 * 32, 3);
        for (int i = 0; i < 100; i++)
            step(&w);
        for (int i = 0; i < 3; i++)
            assert_int_equal(controller.member[i].samples, 32 * (uint64_t)cores[h][i]);
        assert_int_equal(controller.adjustments, 1);
    }
}

/* Claim: also with an overhead that does not scale (10 % of the mean step) and 2 % noise, iteration
 * times are within 5 % of each other after two adjustments, in all three cases. */
TEST(two_adjustments)
{
    struct workers w;

    for (int h = 0; h < 3; h++) {
        workers_set(&w, 3, cores[h], 0.02);
        w.overhead_s = 3.2;
        start(39 * 32, 3);
        steps_until(&w, 2);
        for (int i = 0; i < 50; i++)
            step(&w);
        assert_true(controller.adjustments <= 2);
        assert_true(spread(&w) < 0.05);
    }
}

static uint64_t adjustments_after_convergence(double dead_band)
{
    struct spotnik_batch_config config;
    struct workers w;

    workers_set(&w, 3, cores[0], 0.02);
    spotnik_batch_config_init(&config, 39 * 32);
    config.dead_band = dead_band;
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 3, cores[0]), 0);
    for (int i = 0; i < 1000; i++)
        step(&w);
    return controller.adjustments;
}

/* Claim (Fig 4b): without dead-band batches never come to rest on noisy times; with 5 % nothing
 * moves at all. */
TEST(oscillation)
{
    assert_true(adjustments_after_convergence(0) > 150); /* of 200 windows */
    assert_int_equal(adjustments_after_convergence(SPOTNIK_BATCH_DEAD_BAND), 0);
}

struct restlessness {
    /* changes of shares, mean over seeds: in the first 100 steps, in the 900 after them */
    double early, late;
    double spread; /* after 100 */
};

/* As a job runs it: only a fall by half teaches a bound. */
static struct restlessness noisy(const double *speed, double deviation, double spikes,
                                 double caution)
{
    struct restlessness result = { 0, 0, 0 };
    struct spotnik_batch_config config;
    struct workers w;

    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        workers_set(&w, 3, speed, 0);
        w.deviation = deviation;
        w.spikes = spikes;
        spotnik_prng_seed(&w.prng, seed);
        spotnik_batch_config_init(&config, 39 * 128);
        config.fall_band = 0.5;
        config.caution = caution;
        assert_int_equal(spotnik_batch_controller_init(&controller, &config, 3, NULL), 0);
        for (int i = 0; i < 100; i++)
            step(&w);
        result.early += (double)controller.adjustments / SEEDS;
        result.spread += spread(&w) / SEEDS;
        for (int i = 0; i < 900; i++)
            step(&w);
        result.late += (double)controller.adjustments / SEEDS;
    }
    result.late -= result.early;
    return result;
}

/* Claim: on machines of 1, 2, 5 and 10 % noise, and with one step in twenty that takes three times
 * as long, shares come to the speeds in two changes and stay; what is left between the members'
 * times is below what one step differs from the next. */
TEST(noise_levels)
{
    static const double deviation[4] = { 0.01, 0.02, 0.05, 0.10 }, even[3] = { 1, 1, 1 };

    for (int n = 0; n < 4; n++)
        for (int spiky = 0; spiky < 2; spiky++) {
            for (int h = 0; h < 3; h++) {
                struct restlessness r = noisy(cores[h], deviation[n], 0.05 * spiky, 4);
                assert_true(r.early >= 1 && r.early <= 2);
                assert_true(r.late <= 1);
                assert_true(r.spread < 0.02 + 0.6 * deviation[n]);
            }
            struct restlessness r = noisy(even, deviation[n], 0.05 * spiky, 4);
            assert_true(r.early <= 0.2 && r.late <= 0.2);
        }
}

/* Claim: that is what caution is for: with the dead-band alone, 10 % noise moves shares in most of
 * the 180 windows for nothing. */
TEST(without_caution)
{
    assert_true(noisy(cores[0], 0.10, 0, 0).late > 90);
    assert_true(noisy(cores[0], 0.05, 0, 0).late > 2);
}

/* Claim: with shares so small that no whole number is right, they rest as well. */
TEST(small_batches)
{
    struct workers w;

    for (uint64_t batch = 6; batch < 60; batch++) {
        workers_set(&w, 3, cores[0], 0.02);
        start(batch, 3);
        for (int i = 0; i < 100; i++)
            step(&w);
        uint64_t before = controller.adjustments;
        assert_true(before <= 2);
        for (int i = 0; i < 500; i++)
            step(&w);
        assert_true(controller.adjustments - before <= 1);
    }
}

/* Claim: "if one moves, move all": members within their own dead-band move too. */
TEST(all_move)
{
    double speed[3] = { 100, 100, 60 };
    struct workers w;

    workers_set(&w, 3, speed, 0);
    start(2600, 3);
    steps_until(&w, 1);
    assert_int_equal(controller.member[0].samples, 1000);
    assert_int_equal(controller.member[1].samples, 1000);
    assert_int_equal(controller.member[2].samples, 600);
}

/* Claim: a worker that becomes slow while the job runs is followed, also back. */
TEST(follows)
{
    double even[3] = { 100, 100, 100 };
    struct workers w;

    workers_set(&w, 3, even, 0.02);
    start(3000, 3);
    for (int i = 0; i < 50; i++)
        step(&w);
    assert_int_equal(controller.adjustments, 0);
    w.speed[1] = 25;
    for (int i = 0; i < 50; i++)
        step(&w);
    assert_in_range(controller.member[1].samples, 310, 360); /* a ninth */
    w.speed[1] = 100;
    for (int i = 0; i < 50; i++)
        step(&w);
    assert_in_range(controller.member[1].samples, 930, 1070);
}

/* A device that is slower per sample above 400 samples (its memory ends, say). */
static double cliff_time(uint64_t samples)
{
    return (double)samples / (samples > 400 ? 70 : 100);
}

/* Claim: throughput that falls after an increase teaches a bound, the batch before it; the rest
 * goes to the others and the global batch is kept. */
TEST(learns_bound)
{
    struct spotnik_batch_config config;
    double speed[3] = { 40, 60, 1 };
    bool over = false;

    spotnik_batch_config_init(&config, 900);
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 3, NULL), 0);
    for (int i = 0; i < 100; i++) {
        double time_s[3];
        for (int k = 0; k < 2; k++)
            time_s[k] = (double)controller.member[k].samples / speed[k];
        time_s[2] = cliff_time(controller.member[2].samples);
        spotnik_batch_controller_observe(&controller, time_s);
        assert_int_equal(total(), 900);
        over = over || controller.member[2].samples > 400;
    }
    assert_true(over);
    assert_int_equal(controller.member[2].most, 300);
    assert_int_equal(controller.member[2].samples, 300);
    assert_in_range(controller.member[0].samples, 235, 245); /* 600 at 40:60 */
}

/* Claim: a bound that was learnt yields to the global batch when the view shrinks; memory does
 * not. */
TEST(bounds_and_views)
{
    struct spotnik_batch_config config;
    uint32_t two[2] = { 0, 2 }, one[1] = { 2 };

    spotnik_batch_config_init(&config, 900);
    config.most = 450;
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 3, NULL), 0);
    controller.member[2].most = 300;
    assert_int_equal(spotnik_batch_controller_view(&controller, 2, two), 0);
    assert_true(controller.member[0].samples == 450 && controller.member[1].samples == 450);
    assert_int_equal(controller.member[1].most, 450);
    one[0] = 1;
    assert_int_equal(spotnik_batch_controller_view(&controller, 1, one), SPOTNIK_ERR_LIMIT);
    assert_true(controller.size == 2 && total() == 900);
}

/* Claim: survivors keep their proportion, newcomers start at the survivors' mean, the global batch
 * is kept. */
TEST(view)
{
    double speed[4] = { 1, 2, 3, 4 };
    uint32_t from[4] = { 3, 1, SPOTNIK_BATCH_NEWCOMER, SPOTNIK_BATCH_NEWCOMER };
    struct spotnik_batch_config config;

    spotnik_batch_config_init(&config, 1200);
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 4, speed), 0);
    assert_int_equal(controller.member[3].samples, 480);
    assert_int_equal(spotnik_batch_controller_view(&controller, 4, from), 0);
    assert_int_equal(controller.member[0].samples, 400); /* 4 : 2 : 3 : 3 */
    assert_int_equal(controller.member[1].samples, 200);
    assert_int_equal(controller.member[2].samples, 300);
    assert_int_equal(controller.member[3].samples, 300);
}

/* Claim: lambda_k weighs mean gradients to the mean over the union of all mini-batches, for any
 * split (to rounding). */
TEST(lambda)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 3);
    for (int n = 0; n < 1000; n++) {
        double speed[8], weighted = 0, everything = 0, lambdas = 0;
        struct spotnik_batch_config config;
        for (int i = 0; i < 8; i++)
            speed[i] = 0.01 + uniform(&prng);
        spotnik_batch_config_init(&config, 200);
        assert_int_equal(spotnik_batch_controller_init(&controller, &config, 8, speed), 0);
        for (uint32_t i = 0; i < 8; i++) {
            double sum = 0;
            for (uint64_t k = 0; k < controller.member[i].samples; k++)
                sum += normal(&prng);
            double samples = (double)controller.member[i].samples;
            weighted += samples / 200 * (sum / samples);
            lambdas += samples / 200;
            everything += sum;
        }
        assert_true(weighted - everything / 200 < 1e-12 && everything / 200 - weighted < 1e-12);
        assert_true(lambdas > 1 - 1e-12 && lambdas < 1 + 1e-12);
    }
}

/* Claim: whatever is measured (zeros, infinities, nonsense) and whoever comes and goes: conserved,
 * every member within the bounds of memory always, and within what it has learnt but for the
 * dead-band; and two controllers fed alike are equal to the last bit. */
TEST(churn)
{
    static struct spotnik_batch_controller twin;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 4);
    start(5000, 16);
    controller.config.most = 2000;
    for (uint32_t i = 0; i < 16; i++)
        controller.member[i].most = 2000;
    memcpy(&twin, &controller, sizeof twin);
    for (int n = 0; n < 20000; n++) {
        double time_s[WORKERS_MAX];
        static const double odd[4] = { 0, -1, 1e308 * 10, 1e308 * 10 * 0 };
        for (uint32_t i = 0; i < controller.size; i++)
            time_s[i] = spotnik_prng_chance(&prng, 1, 50)
                            ? odd[spotnik_prng_below(&prng, 4)]
                            : 0.01 + uniform(&prng) * (double)controller.member[i].samples;
        spotnik_batch_controller_observe(&controller, time_s);
        spotnik_batch_controller_observe(&twin, time_s);
        if (spotnik_prng_chance(&prng, 1, 40)) {
            uint32_t from[WORKERS_MAX],
                size = (uint32_t)spotnik_prng_between(&prng, 3, WORKERS_MAX);
            for (uint32_t i = 0; i < size; i++)
                from[i] = i < controller.size && spotnik_prng_chance(&prng, 3, 4)
                              ? i
                              : SPOTNIK_BATCH_NEWCOMER;
            assert_int_equal(spotnik_batch_controller_view(&controller, size, from), 0);
            assert_int_equal(spotnik_batch_controller_view(&twin, size, from), 0);
        }
        assert_int_equal(total(), 5000);
        assert_memory_equal(controller.member, twin.member,
                            controller.size * sizeof twin.member[0]);
        for (uint32_t i = 0; i < controller.size; i++)
            assert_in_range(controller.member[i].samples, 1,
                            controller.member[i].most * 107 / 100 + 1);
        for (uint32_t i = 0; i < controller.size; i++)
            assert_true(controller.member[i].samples <= 2000);
    }
}

/* Claim: what cannot be meant is refused. */
TEST(refusals)
{
    struct spotnik_batch_config config;
    double speed[2] = { 1, 0 };

    spotnik_batch_config_init(&config, 10);
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 0, NULL),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 2, speed),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 11, NULL),
                     SPOTNIK_ERR_LIMIT);
    config.smoothing = 0;
    assert_int_equal(spotnik_batch_controller_init(&controller, &config, 2, NULL),
                     SPOTNIK_ERR_ARGUMENT);
}
