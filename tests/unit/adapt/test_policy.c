/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: the published thresholds, hysteresis under noise, what is unknown. */
#include "adapt/policy.h"

#include "base/prng.h"
#include "tests.h"

static struct spotnik_sync_policy policy;

static enum spotnik_sync_mode throughput(double ratio)
{
    struct spotnik_sync_hysteresis usual = spotnik_sync_throughput_usual();
    struct spotnik_sync_metrics metrics = { .speed = ratio * 200, .alone_speed = 200 };

    return spotnik_sync_policy_throughput(&policy, &usual, &metrics);
}

/* Claim: asynchronous after three windows below 40 %, not at it; synchronous again after three
 * above 50 %, not between. */
TEST(throughput)
{
    policy = (struct spotnik_sync_policy){ 0 };
    for (int n = 0; n < 10; n++)
        assert_int_equal(throughput(0.401), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(throughput(0.39), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(throughput(0.39), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(throughput(0.41), SPOTNIK_SYNC_SYNCHRONOUS); /* breaks the row */
    assert_int_equal(throughput(0.39), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(throughput(0.39), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(throughput(0.39), SPOTNIK_SYNC_ASYNCHRONOUS);
    assert_int_equal(policy.reason, SPOTNIK_SYNC_REASON_SLOW);
    assert_true(policy.limit == 0.40 && policy.value > 0.38 && policy.value < 0.40);
    for (int n = 0; n < 10; n++)
        assert_int_equal(throughput(0.49), SPOTNIK_SYNC_ASYNCHRONOUS);
    throughput(0.6);
    throughput(0.6);
    assert_int_equal(throughput(0.6), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(policy.reason, SPOTNIK_SYNC_REASON_FAST);
}

/* Workers are added one by one, as in the paper's figure 6: S-SGD per worker falls as 1 / (1 + 0.13
 * (n - 1)), which passes 40 % between 12 and 13 workers; measurements are 4 % noisy. Returns the
 * size at the switch. */
static uint32_t grow(struct spotnik_prng *prng, uint32_t *ret_switches)
{
    enum spotnik_sync_mode before = SPOTNIK_SYNC_SYNCHRONOUS;
    uint32_t at = 0;

    policy = (struct spotnik_sync_policy){ 0 };
    *ret_switches = 0;
    for (uint32_t n = 1; n <= 20; n++)
        for (int window = 0; window < 50; window++) {
            double noise = 1 + 0.04 * ((double)spotnik_prng_below(prng, 2001) / 1000 - 1);
            enum spotnik_sync_mode mode = throughput(noise / (1 + 0.13 * (n - 1)));
            *ret_switches += mode != before;
            at = mode != before ? n : at;
            before = mode;
        }
    return at;
}

/* Claim: one switch, at 12 to 13 workers, never back, over 500 seeds. */
TEST(growing_job)
{
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < 500; seed++) {
        uint32_t switches;
        spotnik_prng_seed(&prng, seed);
        assert_in_range(grow(&prng, &switches), 12, 13);
        assert_int_equal(switches, 1);
    }
}

static enum spotnik_sync_mode waiting(double mean_s, double max_s)
{
    struct spotnik_sync_hysteresis usual = spotnik_sync_waiting_usual();
    struct spotnik_sync_metrics metrics = { .mean_time_s = mean_s, .max_time_s = max_s };

    return spotnik_sync_policy_waiting(&policy, &usual, &metrics);
}

/* Claim: a straggler that makes all wait for more than 30 % of a step ends synchrony after three
 * windows; less than 15 % brings it back. */
TEST(waiting)
{
    policy = (struct spotnik_sync_policy){ 0 };
    for (int n = 0; n < 10; n++)
        assert_int_equal(waiting(0.75, 1), SPOTNIK_SYNC_SYNCHRONOUS);
    waiting(0.5, 1);
    waiting(0.5, 1);
    assert_int_equal(waiting(0.5, 1), SPOTNIK_SYNC_ASYNCHRONOUS);
    assert_int_equal(policy.reason, SPOTNIK_SYNC_REASON_WAITING);
    for (int n = 0; n < 10; n++)
        assert_int_equal(waiting(0.8, 1), SPOTNIK_SYNC_ASYNCHRONOUS);
    waiting(0.9, 1);
    waiting(0.9, 1);
    assert_int_equal(waiting(0.9, 1), SPOTNIK_SYNC_SYNCHRONOUS);
    assert_int_equal(policy.reason, SPOTNIK_SYNC_REASON_EVEN);
}

/* Claim: Sync-Switch's published parts (5 %, 12.5 %, 50 % of the work) switch at just that sample,
 * once. */
TEST(schedule)
{
    static const double part[3] = { 0.05, 0.125, 0.5 };
    struct spotnik_sync_metrics metrics = { .samples_total = 64000 };

    for (int i = 0; i < 3; i++) {
        policy = (struct spotnik_sync_policy){ 0 };
        for (uint64_t done = 0; done <= 64000; done += 100) {
            metrics.samples_done = done;
            bool after = (double)done >= part[i] * 64000;
            assert_int_equal(spotnik_sync_policy_schedule(&policy, part[i], &metrics),
                             after ? SPOTNIK_SYNC_ASYNCHRONOUS : SPOTNIK_SYNC_SYNCHRONOUS);
        }
        assert_int_equal(policy.reason, SPOTNIK_SYNC_REASON_WORK_DONE);
    }
}

/* Claim: what is unknown changes nothing, and every reason has words. */
TEST(unknown)
{
    struct spotnik_sync_hysteresis usual = spotnik_sync_throughput_usual();
    struct spotnik_sync_metrics nothing = { 0 };

    policy = (struct spotnik_sync_policy){ .mode = SPOTNIK_SYNC_ASYNCHRONOUS };
    for (int n = 0; n < 10; n++) {
        assert_int_equal(spotnik_sync_policy_throughput(&policy, &usual, &nothing),
                         SPOTNIK_SYNC_ASYNCHRONOUS);
        assert_int_equal(spotnik_sync_policy_waiting(&policy, &usual, &nothing),
                         SPOTNIK_SYNC_ASYNCHRONOUS);
        assert_int_equal(spotnik_sync_policy_schedule(&policy, 0.5, &nothing),
                         SPOTNIK_SYNC_ASYNCHRONOUS);
    }
    for (int reason = SPOTNIK_SYNC_REASON_NONE; reason <= SPOTNIK_SYNC_REASON_WORK_DONE; reason++)
        assert_string_not_equal(spotnik_sync_reason_text((enum spotnik_sync_reason)reason),
                                "unknown");
}
