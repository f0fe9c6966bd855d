/* SPDX-License-Identifier: Apache-2.0 */
/* Sums of squares: the same bits on every tier, those of the order in squares.h written out by
 * hand, at any length and alignment. */
#include "reduce/reduce.h"
#include "reduce/tiers.h"

#include <string.h>

#include "base/prng.h"
#include "tests.h"

#define COUNT_MAX 5000

static unsigned char bytes[8 * COUNT_MAX + 8];
static float wide[COUNT_MAX];

static double by_hand(const double *x, size_t count)
{
    double lane[32] = { 0 };

    for (size_t i = 0; i < count; i++)
        lane[i % 32] += x[i] * x[i];
    for (size_t half = 16; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Numbers far apart in size, so that another order gives other bits. */
static void fill(struct spotnik_prng *prng, enum spotnik_dtype dtype, unsigned char *at,
                 size_t count, double *ret)
{
    for (size_t i = 0; i < count; i++) {
        double x = (double)(int64_t)spotnik_prng_next(prng) / 0x1p63;
        float f = (float)(spotnik_prng_chance(prng, 1, 3) ? 1000 * x : x);
        uint32_t upper;
        memcpy(&upper, &f, sizeof upper);
        upper &= 0xffff0000;
        if (dtype == SPOTNIK_F64) {
            memcpy(at + 8 * i, &x, 8);
            ret[i] = x;
        } else if (dtype == SPOTNIK_F32) {
            memcpy(at + 4 * i, &f, 4);
            ret[i] = (double)f;
        } else {
            memcpy(&f, &upper, sizeof f);
            memcpy(at + 2 * i, (unsigned char *)&upper + 2, 2);
            ret[i] = (double)f;
        }
    }
}

TEST(every_tier_keeps_the_order)
{
    static const enum spotnik_dtype types[] = { SPOTNIK_F32, SPOTNIK_F64, SPOTNIK_BF16 };
    static double x[COUNT_MAX];
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 12);
    for (int n = 0; n < 600; n++) {
        size_t count = n < 100 ? (size_t)n : (size_t)spotnik_prng_below(&prng, COUNT_MAX);
        size_t offset = (size_t)spotnik_prng_below(&prng, 8);
        enum spotnik_dtype dtype = types[n % 3];
        fill(&prng, dtype, bytes + offset, count, x);
        double expected = by_hand(x, count);
        assert_true(spotnik_reduce_norm2(bytes + offset, count, dtype) == expected);
        for (size_t tier = 0; tier < spotnik_reduce_tier_count; tier++)
            if (spotnik_reduce_tiers[tier].is_supported())
                assert_true(spotnik_reduce_tiers[tier].kernels->norm2[dtype](bytes + offset, count)
                            == expected);
    }
}

/* F16 against its own conversion; integers have none. */
TEST(halves_and_integers)
{
    static double x[COUNT_MAX];
    struct spotnik_prng prng;
    const struct spotnik_reduce_kernels *kernels = spotnik_reduce_tiers[0].kernels;

    spotnik_prng_seed(&prng, 13);
    for (size_t i = 0; i < COUNT_MAX; i++)
        wide[i] = (float)spotnik_prng_below(&prng, 60000) / 7;
    kernels->narrow[SPOTNIK_F16](bytes, wide, COUNT_MAX);
    kernels->widen[SPOTNIK_F16](wide, bytes, COUNT_MAX);
    for (size_t i = 0; i < COUNT_MAX; i++)
        x[i] = (double)wide[i];
    assert_true(spotnik_reduce_norm2(bytes, COUNT_MAX, SPOTNIK_F16) == by_hand(x, COUNT_MAX));
    assert_true(spotnik_reduce_norm2(bytes, COUNT_MAX, SPOTNIK_I32) == 0);
    assert_true(spotnik_reduce_norm2(bytes, 0, SPOTNIK_F32) == 0);
}
