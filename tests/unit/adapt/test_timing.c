/* SPDX-License-Identifier: Apache-2.0 */
/* Times of steps on noisy machines: the estimate, how sure it is, and what does not move it. */
#include "adapt/timing.h"

#include "random.h"
#include "tests.h"

static const struct spotnik_batch_pace pace = { .block = 5, .smoothing = 0.2, .band = 0.05 };
static struct spotnik_batch_timing timing;

static void add(int steps, double time_s)
{
    for (int i = 0; i < steps; i++)
        spotnik_batch_timing_add(&timing, &pace, time_s);
}

static void forget(void)
{
    timing = (struct spotnik_batch_timing){ .time_s = 0 };
}

static bool is_near(double a, double b)
{
    return a > b - 1e-12 && a < b + 1e-12;
}

/* Claim: known after a block, as its median; a step or two that take ages are nothing. */
TEST(a_block)
{
    forget();
    add(2, 100);
    add(2, 1);
    assert_true(timing.time_s == 0);
    add(1, 1.5);
    assert_true(timing.time_s == 1.5 && timing.doubt2 == 1);
    spotnik_batch_timing_restart(&timing);
    assert_true(timing.time_s == 0 && timing.noise > 0);
}

/* Claim: blocks of the same kind are averaged, and doubt falls to that of the smoothing. */
TEST(blocks_are_averaged)
{
    forget();
    add(5, 1.00);
    add(5, 1.02);
    assert_true(is_near(timing.time_s, 1.01) && is_near(timing.doubt2, 0.5));
    add(5, 1.01);
    assert_true(is_near(timing.time_s, 1.01) && is_near(timing.doubt2, 1. / 3));
    add(500, 1.01);
    assert_true(timing.doubt2 > 0.11 && timing.doubt2 < 0.112); /* 0.2 / 1.8 */
}

/* Claim: a single block that is far off does not count; the second one in a row is how it is
 * now. */
TEST(a_lonely_block)
{
    forget();
    add(50, 1);
    add(5, 4);
    assert_true(is_near(timing.time_s, 1));
    add(5, 1);
    add(5, 4);
    assert_true(is_near(timing.time_s, 1));
    add(5, 4);
    assert_true(is_near(timing.time_s, 4) && timing.doubt2 == 1);
    add(5, 1);
    add(5, 9); /* astray to the other side: the first of its kind */
    assert_true(is_near(timing.time_s, 4));
}

/* Claim: the noise of a median is learnt, within a half of what it is, from 1 to 20 %, and outlives
 * a restart. */
TEST(noise)
{
    struct spotnik_prng prng;

    for (double deviation = 0.01; deviation < 0.21; deviation *= 2) {
        double mean = 0;
        for (uint64_t seed = 0; seed < 50; seed++) {
            spotnik_prng_seed(&prng, seed);
            forget();
            for (int i = 0; i < 200; i++)
                spotnik_batch_timing_add(&timing, &pace, 1 + deviation * normal(&prng));
            spotnik_batch_timing_restart(&timing);
            mean += timing.noise / 50;
        }
        /* of a median of five: 0.536 */
        assert_true(mean > 0.536 * deviation && mean < 1.5 * 0.536 * deviation);
    }
}
