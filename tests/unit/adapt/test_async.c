/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic batching without common steps: members that adjust one after another, each by itself,
 * still come to the shares of their speeds, and the sum of their batches to the global batch. */
#include "adapt/async.h"

#include "random.h"
#include "tests.h"

#define MEMBERS 3
#define BATCH (39 * 32)

static const double cores[MEMBERS] = { 2, 17, 20 };
static struct spotnik_batch_published published[MEMBERS];
static struct spotnik_batch_config config;

static void start(void)
{
    spotnik_batch_config_init(&config, BATCH);
    for (int i = 0; i < MEMBERS; i++)
        published[i] = (struct spotnik_batch_published){ .samples = BATCH / MEMBERS };
}

static void turn(uint32_t self, double noise)
{
    published[self].time_s = (double)published[self].samples / cores[self] * (1 + noise);
    published[self].samples = spotnik_batch_async(&config, published, MEMBERS, self);
}

/* Claim: whatever the order of turns, shares come within the dead-band of 2:17:20 and the sum
 * within it of the batch; lambdas sum to 1. */
TEST(converges)
{
    struct spotnik_prng prng;

    for (uint64_t seed = 0; seed < 200; seed++) {
        double sum = 0;
        spotnik_prng_seed(&prng, seed);
        start();
        for (int n = 0; n < 300; n++)
            turn((uint32_t)spotnik_prng_below(&prng, MEMBERS), 0.01 * (2 * uniform(&prng) - 1));
        for (uint32_t i = 0; i < MEMBERS; i++) {
            double ratio = (double)published[i].samples / (32 * cores[i]);
            assert_true(ratio > 0.92 && ratio < 1.08);
            sum += (double)published[i].samples;
        }
        assert_true(sum > BATCH * 0.95 && sum < BATCH * 1.05);
    }
}

/* Claim: within the dead-band a member stays; and bounds hold. */
TEST(rests_and_bounds)
{
    start();
    for (uint32_t i = 0; i < MEMBERS; i++)
        published[i] = (struct spotnik_batch_published){ 32 * (uint64_t)cores[i] + i, 32.0 };
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(spotnik_batch_async(&config, published, MEMBERS, i), published[i].samples);
    config.most = 300;
    published[2].samples = 200;
    published[2].time_s = 1;
    assert_int_equal(spotnik_batch_async(&config, published, MEMBERS, 2), 300);
    published[2].time_s = 1e9;
    assert_int_equal(spotnik_batch_async(&config, published, MEMBERS, 2), 1);
}
