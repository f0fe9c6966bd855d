/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: regimes are found again in what was drawn from them, the filter knows in which one a place
 * is, and drawn futures last as long as hazards say. */
#include "plan/draw.h"
#include "plan/pool.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"

/* Two regimes that last about four days: good ones with 9 hours up and half an hour down, bad ones
 * the other way round. */
static const struct spotnik_availability two = {
    .regimes = 2,
    .share = { 0.5, 0.5 },
    .up = { 0.95, 0.05 },
    .end = { { { 0.33, 0.33, 0.33, 0.33, 0.33, 0.33 },
               { 0.0185, 0.0185, 0.0185, 0.0185, 0.0185, 0.0185 } },
             { { 0.0185, 0.0185, 0.0185, 0.0185, 0.0185, 0.0185 },
               { 0.33, 0.33, 0.33, 0.33, 0.33, 0.33 } } },
    .go = { { 0.998, 0.002 }, { 0.002, 0.998 } },
};

static struct spotnik_trace drawn(uint64_t seed, double hours)
{
    struct spotnik_belief belief = spotnik_belief_unknown(&two);
    struct spotnik_trace trace = { 0 };
    struct spotnik_path path;
    struct spotnik_prng prng;
    double at_s = 0;

    spotnik_prng_seed(&prng, seed);
    spotnik_path_start(&path, &two, &belief, &prng);
    while (at_s < hours * 3600) {
        bool up = path.up;
        double next_s = spotnik_path_next_s(&path, &prng);
        assert_int_equal(spotnik_trace_append(&trace, at_s, up, NULL), 0);
        at_s += next_s;
    }
    trace.length_s = at_s;
    trace.on_off = true;
    return trace;
}

TEST(paths_last_as_hazards_say)
{
    struct spotnik_availability one = two;
    struct spotnik_belief belief;
    struct spotnik_path path;
    struct spotnik_prng prng;
    double up_s = 0, down_s = 0;

    one.regimes = 1;
    one.go[0][0] = 1;
    spotnik_prng_seed(&prng, 1);
    belief = spotnik_belief_unknown(&one);
    spotnik_path_start(&path, &one, &belief, &prng);
    for (unsigned i = 0; i < 40000; i++) {
        bool up = path.up;
        *(up ? &up_s : &down_s) += spotnik_path_next_s(&path, &prng) / 20000;
    }
    /* geometric: 1 / hazard ticks */
    assert_true(fabs(up_s / 600 * 0.0185 - 1) < 0.03);
    assert_true(fabs(down_s / 600 * 0.33 - 1) < 0.03);
}

TEST(the_filter_knows_the_regime)
{
    struct spotnik_trace calm = { 0 }, bad = { 0 };

    spotnik_trace_append(&calm, 0, 1, NULL);
    spotnik_trace_append(&calm, 86400, 0, NULL);
    spotnik_trace_append(&calm, 86400 + 1200, 1, NULL);
    calm.length_s = 2 * 86400;
    spotnik_trace_append(&bad, 0, 1, NULL);
    spotnik_trace_append(&bad, 600, 0, NULL);
    bad.length_s = 86400;
    struct spotnik_belief o = spotnik_belief_after(&two, &calm, 1, INFINITY);
    assert_true(o.chance[0] > 0.9 && o.up_known && o.up);
    assert_int_equal(o.age_ticks, 2 * 144 - 144 - 2 - 1);
    o = spotnik_belief_after(&two, &bad, 1, INFINITY);
    assert_true(o.chance[1] > 0.9 && !o.up);
    /* what comes later is not seen */
    o = spotnik_belief_after(&two, &calm, 1, 86400 + 600);
    assert_false(o.up);
    spotnik_trace_free(&calm);
    spotnik_trace_free(&bad);
}

TEST(regimes_are_found_again)
{
    struct spotnik_trace traces[4];
    struct spotnik_availability learned;
    size_t good;

    for (size_t i = 0; i < 4; i++)
        traces[i] = drawn(i + 1, 24 * 60);
    assert_int_equal(spotnik_availability_learn(traces, 4, 2, 1, &learned, NULL), 0);
    good = learned.up[0] > learned.up[1] ? 0 : 1;
    assert_true(fabs(learned.up[good] - 0.95) < 0.03 && fabs(learned.up[!good] - 0.05) < 0.03);
    assert_true(fabs(learned.end[good][0][0] - 0.33) < 0.06);
    assert_true(fabs(learned.go[good][good] - 0.998) < 0.0015);
    for (size_t i = 0; i < 4; i++)
        spotnik_trace_free(&traces[i]);
}

TEST(a_day_has_hours)
{
    struct spotnik_trace trace = { 0 };

    for (unsigned day = 0; day < 30;
         day++) { /* between 6 and 9 h of every day capacity goes away each hour */
        for (unsigned hour = 6; hour < 9; hour++) {
            spotnik_trace_append(&trace, day * 86400.0 + hour * 3600.0, 1, NULL);
            spotnik_trace_append(&trace, day * 86400.0 + hour * 3600.0 + 3000, 0, NULL);
        }
        spotnik_trace_append(&trace, day * 86400.0 + 9 * 3600.0, 1, NULL);
    }
    trace.length_s = 30 * 86400;
    struct spotnik_belief o = spotnik_belief_after(&two, &trace, 1, INFINITY);
    assert_true(o.hours[1][2] > 2);   /* 6 to 9 h */
    assert_true(o.hours[1][6] < 0.6); /* 18 to 21 h */
    spotnik_trace_free(&trace);
}

TEST(pools_by_what_is_known)
{
    struct spotnik_pool pool = {
        .kind = SPOTNIK_POOL_RATE, .availability = &two, .low_per_h = 0.5, .high_per_h = 0.5
    };
    struct spotnik_sky sky;
    struct spotnik_prng prng;
    double mean_h = 0;
    unsigned modelled = 0;

    spotnik_prng_seed(&prng, 1);
    spotnik_sky_start(&sky, &pool, NAN, &prng);
    assert_true(sky.machines == UINT_MAX && isinf(sky.changes_s));
    for (unsigned i = 0; i < 4000; i++)
        mean_h += spotnik_sky_life_s(&sky, &prng) / 3600 / 4000;
    assert_true(fabs(mean_h - 2) < 0.1);
    /* a band: the rate is another one in every run, and in some runs the band tells nothing */
    pool.kind = SPOTNIK_POOL_BAND;
    pool.high_per_h = 50;
    pool.doubt = 0.3;
    pool.belief = spotnik_belief_unknown(&two);
    for (unsigned i = 0; i < 4000; i++) {
        spotnik_sky_start(&sky, &pool, NAN, &prng);
        modelled += isfinite(sky.changes_s);
        assert_true(isfinite(sky.changes_s) || (sky.losses_per_h >= 0.5 && sky.losses_per_h <= 50));
    }
    assert_true(fabs(modelled / 4000.0 - 0.3) < 0.03);
    /* a cap ends everybody */
    pool.cap_s = 60;
    assert_true(spotnik_sky_life_s(&sky, &prng) <= 60);
}

/* Places differ the more the longer a job lasts, and by nothing in what is sure. */
TEST(places_differ)
{
    double low[2], high[2];

    spotnik_belief_range(0.9, 4 * 3600, &low[0], &high[0]);
    spotnik_belief_range(0.9, 36 * 3600, &low[1], &high[1]);
    assert_true(0.7 < low[1] && low[1] < low[0] && low[0] < 0.9);
    assert_true(0.9 < high[0] && high[0] < high[1] && high[1] < 0.97);
    spotnik_belief_range(0.9, INFINITY, &low[0], &high[0]); /* no more than was measured */
    assert_true(low[0] == low[1] && high[0] == high[1]);
    spotnik_belief_range(1, 3600, &low[0], &high[0]);
    assert_true(low[0] == 1 && high[0] == 1);
    spotnik_belief_range(0, 3600, &low[0], &high[0]);
    assert_true(low[0] == 0 && high[0] == 0);
}
