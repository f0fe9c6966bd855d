/* SPDX-License-Identifier: Apache-2.0 */
/* The job simulator on windows that can be worked out by hand, and every policy's promise on random
 * ones: no deadline is missed, and hours add up. */
#include "tables/hazards.h"
#include "tables/price_means.h"
#include "tables/windows_cut.h"
#include "tables/dp_policy.h"
#include "tables/offline_optimum.h"
#include "tables/backtest_policy.h"
#include "common/windows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"

#define TICK_S 600.0

static const struct spotnik_job_terms terms = {
    .work_s = 10 * 3600, .deadline_s = 15 * 3600, .changeover_s = 720, .price_ratio = 3
};

static void near(double value, double wanted)
{
    if (!(fabs(value - wanted) < 1e-3))
        fail_msg("%.6f, wanted %.6f", value, wanted);
}

static struct spotnik_job_result run(const uint8_t *machines, size_t ticks,
                                     const struct spotnik_job_terms *t,
                                     struct spotnik_policy policy)
{
    const struct spotnik_window window = { machines, ticks };
    struct spotnik_job_result result;
    struct spotnik_fault fault;

    if (spotnik_backtest_run(&window, 1, TICK_S, t, &policy, &result, &fault))
        fail_msg("%s", fault.text);
    return result;
}

TEST(always_spot)
{
    uint8_t machines[90];

    memset(machines, 1, sizeof(machines));
    struct spotnik_job_result r = run(machines, 90, &terms, spotnik_policy_greedy());
    near(r.spot_work_s, 36000);
    near(r.spot_billed_s, 36720);
    near(r.finish_s, 36720);
    near(r.on_demand_billed_s, 0);
    assert_int_equal(r.changeovers, 1);
    near(spotnik_backtest_cost(&r, 3), 10.2);
}

TEST(never_spot)
{
    uint8_t machines[90] = { 0 };

    /* greedy waits for the safety net at R = C + 2 d: 15 h - 10 h - 0.4 h */
    struct spotnik_job_result r = run(machines, 90, &terms, spotnik_policy_greedy());
    near(r.finish_s, (15 - 0.2) * 3600);
    near(r.on_demand_work_s, 36000);
    assert_false(r.missed);
}

TEST(one_revocation)
{
    uint8_t machines[90];

    memset(machines, 1, sizeof(machines));
    machines[12] = 0; /* from 2 h 00 to 2 h 10 */
    struct spotnik_job_result r = run(machines, 90, &terms, spotnik_policy_greedy());
    near(r.finish_s, 36000 + 2 * 720 + 600);
    assert_int_equal(r.revocations, 1);
}

TEST(overlap_loses_no_time)
{
    uint8_t machines[90];
    struct spotnik_job_terms with = terms;

    with.pair_speed = 1;
    memset(machines, 1, sizeof(machines));
    memset(machines, 0, 36); /* none in the first 6 hours: uniform progress starts on on-demand */
    struct spotnik_job_result apart = run(machines, 90, &terms, spotnik_policy_uniform());
    struct spotnik_job_result both = run(machines, 90, &with, spotnik_policy_uniform());
    near(apart.on_demand_work_s + apart.spot_work_s, 36000);
    near(both.on_demand_work_s + both.spot_work_s, 36000);
    assert_true(both.spot_billed_s > both.spot_work_s);
    assert_true(both.finish_s <= apart.finish_s + 1);
}

static void random_window(uint8_t *machines, size_t ticks, unsigned seed);

/* A policy that always wants the same set. */
static struct spotnik_choice wants(void *self, const struct spotnik_job_view *view)
{
    const enum spotnik_machine *set = self;

    return (struct spotnik_choice){ view->available ? *set : SPOTNIK_ON_DEMAND, 1e30, false };
}

TEST(two_are_faster)
{
    enum spotnik_machine both = SPOTNIK_BOTH;
    const struct spotnik_policy policy = { .name = "both", .self = &both, .choose = wants };
    struct spotnik_job_terms with = terms;
    uint8_t machines[90];

    memset(machines, 1, sizeof(machines));
    with.pair_speed = 1.6;
    struct spotnik_job_result r = run(machines, 90, &with, policy);
    near(r.finish_s, 720 + 36000 / 1.6);
    near(r.spot_work_s, 18000);
    near(r.on_demand_work_s, 18000);
    near(r.spot_billed_s, r.finish_s);
    near(r.on_demand_billed_s, r.finish_s);
    /* spot comes at 1 h 00 and is up at 1 h 12; on-demand, up at 0 h 12, has worked on since */
    memset(machines, 0, 6);
    r = run(machines, 90, &with, policy);
    near(r.finish_s, 3600 + 720 + (36000 - 3600) / 1.6);
    near(r.spot_billed_s, r.finish_s - 3600);
}

/* Greedy on spot, which asks for on-demand when it is warned. */
static struct spotnik_choice heeds(void *self, const struct spotnik_job_view *view)
{
    (void)self;
    if (!view->available)
        return (struct spotnik_choice){ SPOTNIK_ON_DEMAND, 1e30, false };
    return (struct spotnik_choice){ view->warned ? SPOTNIK_BOTH : SPOTNIK_SPOT, 1e30, false };
}

TEST(notice_saves_time)
{
    const struct spotnik_policy policy = { .name = "heeds", .choose = heeds };
    struct spotnik_job_terms with = terms;
    uint8_t machines[90];

    memset(machines, 1, sizeof(machines));
    memset(machines + 12, 0, 78); /* lost for good at 2 h 00 */
    with.pair_speed = 1;
    near(run(machines, 90, &with, policy).finish_s, 36000 + 2 * 720);
    with.notice_s = 120; /* on-demand starts at 1 h 58 */
    near(run(machines, 90, &with, policy).finish_s, 36000 + 2 * 720 - 120);
    with.notice_s = 900; /* from 1 h 45: it is up at 1 h 57, before the loss */
    near(run(machines, 90, &with, policy).finish_s, 36000 + 720);
}

TEST(prices_by_the_second)
{
    double at_s[] = { 0, 5400, 50000 }, usd_per_h[] = { 1, 3, 3 };
    const struct spotnik_prices prices = { 3, at_s, usd_per_h };
    struct spotnik_job_terms with = terms;
    uint8_t machines[90];

    memset(machines, 1, sizeof(machines));
    with.prices = &prices;
    struct spotnik_job_result r = run(machines, 90, &with, spotnik_policy_greedy());
    near(r.spot_paid_s, 5400 + 3 * (36720 - 5400));
    with.prices_from_s = 5400;
    r = run(machines, 90, &with, spotnik_policy_greedy());
    near(spotnik_backtest_cost(&r, 3), 3 * 10.2);
}

/* No policy that is told nothing beats the one that knows all; where spot is always there they
 * agree. */
TEST(offline_optimum_bounds)
{
    struct spotnik_job_terms whole = terms;
    struct spotnik_job_result r;
    struct spotnik_fault fault;
    uint8_t machines[90];

    whole.changeover_s = TICK_S; /* so that ticks and continuous time agree */
    for (unsigned seed = 1; seed <= 100; seed++) {
        const struct spotnik_window window = { machines, 90 };
        random_window(machines, 90, seed);
        assert_int_equal(spotnik_offline_optimum_run(&window, TICK_S, &whole, &r, &fault), 0);
        double bound = spotnik_backtest_cost(&r, whole.price_ratio);
        const struct spotnik_policy policies[] = { spotnik_policy_greedy(),
                                                   spotnik_policy_uniform() };
        for (size_t i = 0; i < 2; i++) {
            struct spotnik_job_result other = run(machines, 90, &whole, policies[i]);
            /* a tick of on-demand */
            if (spotnik_backtest_cost(&other, whole.price_ratio) < bound - 0.51)
                fail_msg("seed %u: %s is cheaper", seed, policies[i].name);
        }
    }
    memset(machines, 1, sizeof(machines));
    assert_int_equal(spotnik_offline_optimum_run(&(struct spotnik_window){ machines, 90 }, TICK_S,
                                                 &terms, &r, &fault),
                     0);
    near(r.spot_work_s, 36000);
    assert_int_equal(r.changeovers, 1);
    near(r.spot_billed_s, 62 * TICK_S);
}

/* Spot is taken back while it costs more than the cap, and comes back; no price above the cap is
 * ever paid. */
TEST(nobody_pays_beyond_the_cap)
{
    double at_s[] = { 0, 7200, 14400, 54000 }, price[] = { 1, 9, 1, 1 };
    const struct spotnik_prices prices = { 4, at_s, price };
    struct spotnik_job_terms t = terms;
    uint8_t machines[90];

    memset(machines, 1, sizeof(machines));
    t.prices = &prices;
    struct spotnik_job_result r = run(machines, 90, &t, spotnik_policy_greedy());
    near(spotnik_backtest_cost(&r, 3), 10.2 + 2 * 8); /* two hours at nine */
    t.cap = 3;
    r = run(machines, 90, &t, spotnik_policy_greedy());
    near(r.spot_paid_s, r.spot_billed_s);
    assert_int_equal(r.revocations, 1);
    near(r.finish_s, 36000 + 2 * 720 + 7200); /* two hours waited, two starts */
}

/* Random prices with spikes: the policy that sees them stays below the one that does not, and
 * nobody is below the bound. */
TEST(prices_are_seen)
{
    enum { STEPS = 400 };
    static double at_s[STEPS], price[STEPS];
    struct spotnik_prices prices = { STEPS, at_s, price };
    struct spotnik_job_terms t = terms;
    struct spotnik_dp_policy *dp;
    double ours = 0, theirs = 0;
    uint8_t machines[90];
    unsigned seed = 7;

    /* an hour of usual prices, then now and then one of spikes */
    for (unsigned i = 0; i < STEPS; i++) {
        seed = seed * 1664525 + 1013904223;
        at_s[i] = i * 3600.0;
        price[i] = (seed >> 24) < 64 ? 6 : 0.7 + (seed >> 28) * 0.02;
    }
    t.prices = &prices;
    t.price_ratio = t.cap = 3;
    t.price_typical = spotnik_prices_mean_below(&prices, t.cap);
    t.pair_speed = 1.8;
    assert_int_equal(spotnik_dp_policy_new(&t, spotnik_hazard_tables_builtin, 4, &dp, NULL), 0);
    memset(machines, 1, sizeof(machines));
    const struct spotnik_window window = { machines, 90 };
    for (unsigned i = 0; i < 24; i++) {
        struct spotnik_job_result bound;
        t.prices_from_s = i * 4 * 3600.0;
        struct spotnik_job_terms blind = t;
        blind.cap = blind.pair_speed = 0;
        struct spotnik_job_result r = run(machines, 90, &t, spotnik_policy_dp(dp));
        struct spotnik_job_result u = run(machines, 90, &blind, spotnik_policy_uniform());
        assert_int_equal(spotnik_bound_run(&window, TICK_S, &t, &bound, NULL), 0);
        assert_false(r.missed);
        assert_true(spotnik_backtest_cost(&r, 3) >= spotnik_backtest_cost(&bound, 3) - 1e-6);
        assert_true(spotnik_backtest_cost(&u, 3) >= spotnik_backtest_cost(&bound, 3) - 1e-6);
        ours += spotnik_backtest_cost(&r, 3);
        theirs += spotnik_backtest_cost(&u, 3);
    }
    if (ours > 0.9 * theirs)
        fail_msg("%.2f against %.2f", ours, theirs);
    spotnik_dp_policy_free(dp);
}

static void random_window(uint8_t *machines, size_t ticks, unsigned seed)
{
    bool up = seed & 1;

    srandom(seed);
    for (size_t i = 0; i < ticks; i++) {
        if (random() % 100 < (up ? 3 + seed % 40 : 2 + seed % 23))
            up = !up;
        machines[i] = up;
    }
}

TEST(nobody_is_late)
{
    struct spotnik_sliced sliced = { 5 };
    struct spotnik_dp_policy *dp;
    struct spotnik_job_terms with = terms;
    uint8_t machines[90];

    with.pair_speed = 1.6;
    assert_int_equal(spotnik_dp_policy_new(&with, spotnik_hazard_tables_builtin, 3, &dp, NULL), 0);
    const struct spotnik_policy policies[] = { spotnik_policy_greedy(), spotnik_policy_uniform(),
                                               spotnik_policy_sliced(&sliced),
                                               spotnik_policy_on_demand(), spotnik_policy_dp(dp) };
    for (unsigned seed = 1; seed <= 300; seed++) {
        random_window(machines, 90, seed);
        for (size_t i = 0; i < 5; i++) {
            for (int pair = 0; pair < 2; pair++) {
                const struct spotnik_job_terms *t = pair ? &with : &terms;
                struct spotnik_job_result r = run(machines, 90, t, policies[i]);
                if (r.missed || fabs(r.on_demand_work_s + r.spot_work_s - t->work_s) > 1e-2)
                    fail_msg("seed %u, %s: %.1f h", seed, policies[i].name, r.finish_s / 3600);
            }
        }
    }
    spotnik_dp_policy_free(dp);
}

static struct spotnik_job_result run_places(const struct spotnik_window *places, size_t count,
                                            const struct spotnik_job_terms *t,
                                            struct spotnik_policy policy)
{
    struct spotnik_job_result result;
    struct spotnik_fault fault;

    if (spotnik_backtest_run(places, count, TICK_S, t, &policy, &result, &fault))
        fail_msg("%s", fault.text);
    return result;
}

/* Spot for five hours here, always there. A move that costs two hours of spot and 10 min pays after
 * 65 min of the two hours that on-demand would cost more; one that costs more than the rest of the
 * work never pays. */
TEST(a_move_is_paid_for)
{
    struct spotnik_job_terms t = terms;
    uint8_t here[90], there[90];
    const struct spotnik_window places[] = { { here, 90 }, { there, 90 } };

    memset(there, 1, sizeof(there));
    for (size_t i = 0; i < 90; i++)
        here[i] = i < 30;
    t.move_cost = 2;
    t.move_s = 600;
    struct spotnik_job_result r = run_places(places, 2, &t, spotnik_policy_greedy());
    assert_int_equal(r.moves, 1);
    near(r.moves_paid, 2);
    near(r.finish_s, 18000 + 3900 + 720 + 600 + 18720);
    near(r.spot_billed_s, 18000 + 720 + 600 + 18720);
    near(spotnik_backtest_cost(&r, 3), 38040 / 3600.0 + 2);
    t.move_cost = 20;
    r = run_places(places, 2, &t, spotnik_policy_greedy());
    struct spotnik_job_result alone = run(here, 90, &t, spotnik_policy_greedy());
    assert_int_equal(r.moves, 0);
    near(r.finish_s, alone.finish_s);
    t.pair_speed = 1.8;
    struct spotnik_policy policy = spotnik_policy_greedy();
    struct spotnik_fault fault;
    assert_int_equal(spotnik_backtest_run(places, 2, TICK_S, &t, &policy, &r, &fault), -1);
    assert_non_null(strstr(fault.text, "share no step"));
}

/* No move makes a job late, with any policy. Three places are cheaper than the first of them when
 * moves cost nothing, and hardly dearer when they cost up to two hours of spot and places flap at
 * random. */
TEST(movers_are_not_late)
{
    struct spotnik_sliced sliced = { 5 };
    struct spotnik_dp_policy *dp;
    struct spotnik_job_terms t = terms;
    static uint8_t machines[3][90];
    const struct spotnik_window places[] = { { machines[0], 90 },
                                             { machines[1], 90 },
                                             { machines[2], 90 } };
    double moved[2] = { 0, 0 }, stayed[2] = { 0, 0 }; /* by whether a move costs anything */
    unsigned moves = 0;

    t.pair_speed = 1;
    assert_int_equal(spotnik_dp_policy_new(&t, spotnik_hazard_tables_builtin, 3, &dp, NULL), 0);
    const struct spotnik_policy policies[] = { spotnik_policy_greedy(), spotnik_policy_uniform(),
                                               spotnik_policy_sliced(&sliced),
                                               spotnik_policy_dp(dp) };
    for (unsigned seed = 1; seed <= 300; seed++) {
        for (unsigned place = 0; place < 3; place++)
            random_window(machines[place], 90, 3 * seed + place);
        for (unsigned i = 0; i < 8; i++) {
            t.pair_speed = i & 1;
            t.move_cost = seed % 3;
            t.move_s = 450.0 * (seed % 5);
            struct spotnik_job_result r = run_places(places, 3, &t, policies[i / 2]);
            if (r.missed || fabs(r.on_demand_work_s + r.spot_work_s - t.work_s) > 1e-2)
                fail_msg("seed %u, %s: %.1f h", seed, policies[i / 2].name, r.finish_s / 3600);
            near(r.moves_paid, r.moves * t.move_cost);
            unsigned costs = t.move_cost > 0 || t.move_s > 0;
            moves += r.moves;
            moved[costs] += spotnik_backtest_cost(&r, 3);
            r = run(machines[0], 90, &t, policies[i / 2]);
            stayed[costs] += spotnik_backtest_cost(&r, 3);
        }
    }
    spotnik_dp_policy_free(dp);
    if (!moves || moved[0] > 0.9 * stayed[0] || moved[1] > 1.1 * stayed[1])
        fail_msg("%u moves, %.0f against %.0f, %.0f against %.0f", moves, moved[0], stayed[0],
                 moved[1], stayed[1]);
}

TEST(impossible_terms)
{
    struct spotnik_job_terms tight = terms;
    struct spotnik_fault fault;

    tight.deadline_s = tight.work_s;
    assert_int_equal(spotnik_job_terms_check(&tight, &fault), -1);
    assert_non_null(strstr(fault.text, "the deadline binds"));
    assert_non_null(strstr(fault.text, "--deadline 10.40h"));
}

TEST(hazard_counts)
{
    /* 100 stretches: up for 6 ticks (1 h), down for 3 (30 min) */
    static uint8_t machines[900];
    const struct spotnik_window window = { machines, 900 };
    const struct spotnik_windows windows = { .tick_s = TICK_S,
                                             .count = 1,
                                             .windows = (struct spotnik_window *)&window };
    struct spotnik_hazard_table hazards;

    for (size_t i = 0; i < 900; i++)
        machines[i] = i % 9 < 6;
    spotnik_hazard_table_learn(&windows, &hazards);
    assert_true(hazards.end_per_h[true][2] > 1); /* all end between 36 and 75 minutes */
    assert_true(hazards.end_per_h[true][0] < 0.05);
    assert_int_equal(spotnik_hazard_bucket(0), 0);
    assert_int_equal(spotnik_hazard_bucket(1e9), SPOTNIK_HAZARD_BUCKETS - 1);
}

static void refused(const char *text, const char *part)
{
    char path[] = "/tmp/spotnik-windows-XXXXXX";
    struct spotnik_windows windows;
    struct spotnik_fault fault;
    int fd = mkstemp(path);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    int rc = spotnik_windows_load(path, &windows, &fault);
    unlink(path);
    assert_int_equal(rc, -1);
    if (!strstr(fault.text, part))
        fail_msg("'%s' does not say '%s'", fault.text, part);
}

TEST(bad_traces)
{
    refused("{\"metadata\":{\"gap_seconds\":600},\"data\":[]}", "empty");
    refused("{\"metadata\":{\"gap_seconds\":0},\"data\":[1]}", "gap_seconds");
    refused("{\"metadata\":{\"gap_seconds\":600},\"data\":[1,-1]}", "data[1]");
    refused(
        "{\"metadata_of_last\":{\"gap_seconds\":600},\"traces_1_means_UNAVAILABLE\":[\"0102\"]}",
        ":1:71: window 1, tick 4");
    refused("{\"metadata\":{\n\"gap_seconds\":600,}", ":2:");
    refused("{}", "neither");
}
