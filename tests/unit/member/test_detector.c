/* SPDX-License-Identifier: Apache-2.0 */
/* The adaptive silence limit: it keeps between floor and ceiling, widens with jitter, narrows
 * again, never decreases with lateness. */
#include "member/detector.h"

#include "base/prng.h"
#include "base/time.h"
#include "tests.h"

#define FLOOR_NS (250 * SPOTNIK_MS)
#define CEILING_NS (2 * SPOTNIK_S)

static uint64_t patience(const struct spotnik_detector *detector)
{
    return spotnik_detector_limit(detector, FLOOR_NS, CEILING_NS) - detector->heard_ns;
}

static uint64_t hear_every(struct spotnik_detector *detector, uint64_t now_ns, uint64_t gap_ns,
                           uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        spotnik_detector_hear(detector, now_ns += gap_ns, FLOOR_NS);
    return now_ns;
}

/* Claim: before anything was heard, and on a regular quiet network, patience is the floor. */
TEST(floor)
{
    struct spotnik_detector detector;

    spotnik_detector_start(&detector, 7 * SPOTNIK_S);
    assert_int_equal(patience(&detector), FLOOR_NS);
    hear_every(&detector, 7 * SPOTNIK_S, 50 * SPOTNIK_MS, 200);
    assert_int_equal(patience(&detector), FLOOR_NS);
}

/* Claim: gaps that come and go widen it above the longest of them; when they cease it comes back to
 * the floor. */
TEST(adapts_and_forgets)
{
    struct spotnik_detector detector;
    uint64_t now_ns = 0;

    spotnik_detector_start(&detector, now_ns);
    for (int i = 0; i < 50; i++) {
        now_ns = hear_every(&detector, now_ns, 10 * SPOTNIK_MS, 2);
        now_ns = hear_every(&detector, now_ns, 300 * SPOTNIK_MS, 1);
        assert_true(patience(&detector) >= FLOOR_NS && patience(&detector) <= CEILING_NS);
    }
    assert_true(patience(&detector) > 300 * SPOTNIK_MS);
    hear_every(&detector, now_ns, 50 * SPOTNIK_MS, 20 * 60);
    assert_int_equal(patience(&detector), FLOOR_NS);
}

/* Claim: one long gap among a hundred short ones is remembered (the mean and deviation have
 * forgotten it), and gone after a minute. */
TEST(remembers)
{
    struct spotnik_detector detector;
    uint64_t now_ns = 0;

    spotnik_detector_start(&detector, now_ns);
    now_ns = hear_every(&detector, now_ns, 240 * SPOTNIK_MS, 1);
    now_ns = hear_every(&detector, now_ns, 50 * SPOTNIK_MS, 100);
    assert_true(patience(&detector) > 2 * FLOOR_NS - FLOOR_NS / 8);
    hear_every(&detector, now_ns, 50 * SPOTNIK_MS, 20 * 60);
    assert_int_equal(patience(&detector), FLOOR_NS);
}

/* Claim: however long somebody was away, it is waited for no longer than five floors, and for a
 * minute later not even that. */
TEST(away)
{
    struct spotnik_detector detector;
    uint64_t now_ns = 0;

    spotnik_detector_start(&detector, now_ns);
    now_ns = hear_every(&detector, now_ns, 3600 * SPOTNIK_S, 1);
    now_ns = hear_every(&detector, now_ns, 50 * SPOTNIK_MS, 100);
    assert_true(patience(&detector) <= 5 * FLOOR_NS);
    hear_every(&detector, now_ns, 50 * SPOTNIK_MS, 20 * 65);
    assert_int_equal(patience(&detector), FLOOR_NS);
}

/* Claim: no jitter, however wild, lifts it above the ceiling. */
TEST(ceiling)
{
    struct spotnik_detector detector;
    struct spotnik_prng prng;
    uint64_t now_ns = 0, widest_ns = 0;

    spotnik_prng_seed(&prng, 1);
    spotnik_detector_start(&detector, now_ns);
    for (int i = 0; i < 10000; i++) {
        now_ns += spotnik_prng_below(&prng, 3 * SPOTNIK_S);
        spotnik_detector_hear(&detector, now_ns, FLOOR_NS);
        assert_true(patience(&detector) >= FLOOR_NS && patience(&detector) <= CEILING_NS);
        widest_ns = widest_ns > patience(&detector) ? widest_ns : patience(&detector);
    }
    assert_int_equal(widest_ns, CEILING_NS);
}

/* Claim: a sign of life never moves the last sign of life back, and the instant of loss saturates
 * instead of wrapping. */
TEST(clock)
{
    struct spotnik_detector detector;

    spotnik_detector_start(&detector, 1000);
    spotnik_detector_hear(&detector, 900, FLOOR_NS);
    assert_int_equal(detector.heard_ns, 1000);
    spotnik_detector_hear(&detector, 1000, FLOOR_NS);
    assert_int_equal(detector.heard_ns, 1000);
    spotnik_detector_start(&detector, SPOTNIK_NEVER - 1);
    assert_int_equal(spotnik_detector_limit(&detector, FLOOR_NS, CEILING_NS), SPOTNIK_NEVER);
}
