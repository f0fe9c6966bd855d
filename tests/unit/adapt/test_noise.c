/* SPDX-License-Identifier: Apache-2.0 */
/* Noise estimators on a quadratic whose noise is known: f(x) = |x - c|^2 / 2, the gradient of one
 * sample is x - c + sigma z, z normal in D dimensions. So |G|^2 = |x - c|^2 and S = D sigma^2,
 * exactly. */
#include "adapt/noise.h"

#include <math.h>

#include "random.h"
#include "tests.h"

#define D 100
#define SIGMA 0.5
#define SIGNAL 2.0 /* |G|^2 */
#define SCALE (D * SIGMA * SIGMA / SIGNAL)
#define MEMBERS_MAX 16
#define KEEP 0.99
#define STEPS 3000

static struct spotnik_prng prng;

/* One step of members with these mini-batches: what each would measure and what the all-reduce
 * yields. */
static struct spotnik_noise_step step(uint32_t members, const double *samples)
{
    struct spotnik_noise_step ret = { .members = members };
    double average[D] = { 0 }, inverse = 0;

    for (uint32_t k = 0; k < members; k++) {
        ret.batch += samples[k];
        inverse += 1 / samples[k];
    }
    for (uint32_t k = 0; k < members; k++) {
        for (int i = 0; i < D; i++) {
            double g = sqrt(SIGNAL / D) + SIGMA / sqrt(samples[k]) * normal(&prng);
            ret.members_norm2 += g * g / members;
            average[i] += samples[k] / ret.batch * g;
        }
    }
    for (int i = 0; i < D; i++)
        ret.average_norm2 += average[i] * average[i];
    ret.small_batch = members / inverse;
    return ret;
}

static struct spotnik_noise estimate(uint32_t members, const double *samples)
{
    struct spotnik_noise noise;

    spotnik_noise_init(&noise, KEEP);
    for (int i = 0; i < STEPS; i++) {
        struct spotnik_noise_step s = step(members, samples);
        assert_true(spotnik_noise_observe(&noise, &s));
    }
    return noise;
}

static void assert_near(double value, double expected, double tolerance)
{
    if (fabs(value - expected) > tolerance * fabs(expected))
        print_error("%g, expected %g\n", value, expected);
    assert_true(fabs(value - expected) <= tolerance * fabs(expected));
}

/* Claim: |G|^2, S and the noise scale within 10 % of what they are, for equal mini-batches of
 * several sizes. */
TEST(noise_scale)
{
    spotnik_prng_seed(&prng, 1);
    for (double b = 4; b <= 64; b *= 4) {
        double samples[4] = { b, b, b, b };
        struct spotnik_noise noise = estimate(4, samples);
        assert_near(noise.signal.value, SIGNAL, 0.1);
        assert_near(noise.variance.value, D * SIGMA * SIGMA, 0.1);
        assert_near(spotnik_noise_scale(&noise), SCALE, 0.1);
    }
}

/* Claim: with a batch of a hundredth of the noise scale, where |G|^2 of one step is lost in noise
 * (its deviation is 14 |G|^2 here), as many steps as may be are averaged, and the error that the
 * estimate tells of itself is right within a factor of 2 (root mean square over 20 runs of 3000
 * steps). */
TEST(far_below_the_noise_scale)
{
    double samples[4], mean2 = 0, told2 = 0;

    spotnik_prng_seed(&prng, 6);
    for (int k = 0; k < 4; k++)
        samples[k] = SCALE / 100 / 4;
    for (int n = 0; n < 20; n++) {
        struct spotnik_noise noise;
        spotnik_noise_init(&noise, 0.9);
        for (int i = 0; i < STEPS; i++) {
            struct spotnik_noise_step s = step(4, samples);
            assert_true(spotnik_noise_observe(&noise, &s));
        }
        double off = noise.signal.value / SIGNAL - 1;
        mean2 += off * off / 20;
        told2 += spotnik_noise_error2(&noise) * (noise.signal.value / SIGNAL)
                 * (noise.signal.value / SIGNAL) / 20;
    }
    assert_true(told2 < 4 * mean2 && mean2 < 4 * told2);
    assert_true(mean2 < 1);
}

/* Claim: with a batch near the noise scale as few steps as asked for are averaged, so that change
 * is followed. */
TEST(near_the_noise_scale)
{
    double samples[4] = { 8 * SCALE, 8 * SCALE, 8 * SCALE, 8 * SCALE };
    struct spotnik_noise noise;

    spotnik_prng_seed(&prng, 7);
    spotnik_noise_init(&noise, 0.9);
    for (int i = 0; i < 100; i++) {
        struct spotnik_noise_step s = step(4, samples);
        assert_true(spotnik_noise_observe(&noise, &s));
    }
    assert_true(noise.weight2 > 0.05 && noise.weight2 < 0.06); /* 0.1 / 1.9 */
    assert_true(spotnik_noise_error2(&noise) < 0.01);
}

/* Claim: the same with uneven mini-batches, as dynamic batching makes them: 9:12:18 and 2:17:20. */
TEST(uneven)
{
    static const double samples[2][3] = { { 9, 12, 18 }, { 2, 17, 20 } };

    spotnik_prng_seed(&prng, 2);
    for (int i = 0; i < 2; i++) {
        struct spotnik_noise noise = estimate(3, samples[i]);
        assert_near(spotnik_noise_scale(&noise), SCALE, 0.1);
    }
}

/* Claim: the relative deviation of the averaged gradient is proportional to B^-1/2: over a range of
 * 64 in B, the slope of its logarithm is -1/2 within 0.03. */
TEST(deviation_slope)
{
    double first = 0, last = 0;

    spotnik_prng_seed(&prng, 4);
    for (double b = 1; b <= 64; b *= 64) {
        double samples[4] = { b, b, b, b };
        struct spotnik_noise noise = estimate(4, samples);
        *(b == 1 ? &first : &last) = sqrt(spotnik_noise_scale(&noise) / (4 * b));
    }
    double slope = log(last / first) / log(64);
    assert_true(slope > -0.53 && slope < -0.47);
}

/* Claim: the mean is KungFu's: the first value initialises, then a x_ema + (1 - a) x. */
TEST(ewma)
{
    struct spotnik_ewma ewma = { .keep = 0.9 };

    spotnik_ewma_add(&ewma, 10);
    assert_true(ewma.value == 10);
    spotnik_ewma_add(&ewma, 20);
    assert_near(ewma.value, 11, 1e-12);
}

/* Claim: steps that say nothing teach nothing. */
TEST(silence)
{
    struct spotnik_noise noise;
    struct spotnik_noise_step alone = { 1, 8, 8, 1, 1 }, still = { 2, 8, 4, 1, 0 };
    struct spotnik_noise_step infinite = { 2, 8, 4, 1e308 * 10, 1 };

    spotnik_noise_init(&noise, KEEP);
    assert_false(spotnik_noise_observe(&noise, &alone));
    assert_false(spotnik_noise_observe(&noise, &still));
    assert_false(spotnik_noise_observe(&noise, &infinite));
    assert_true(spotnik_noise_scale(&noise) == 0);
}
