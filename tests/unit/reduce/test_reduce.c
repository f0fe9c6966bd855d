/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels against a model computed one element at a time, for every type, operation, tier, length 0..67
 * and alignment, over values chosen to be awkward: NaN, infinities, denormals, signed zeros, extremes.
 * Compared by bits. The model is kept from the vectoriser, so it does not share the code it checks. */
#include "reduce/reduce.h"
#include "reduce/tiers.h"

#include "base/prng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LENGTH_MAX 67
#define ROOM ((LENGTH_MAX + 2) * 8 + 16)

/* What is called: the tables of one tier, or (tier NULL) the public functions with their special weights. */
static const struct spotnik_reduce_tier *tier;

static float awkward_f32(struct spotnik_prng *prng)
{
    /* One NaN only: which of two payloads survives is left open by reduce.h. */
    static const float values[] = { 0.0f,      -0.0f,       1.0f,   -1.0f,          INFINITY,
                                    -INFINITY, NAN,         1e-45f, -1e-40f,        3.4e38f,
                                    -3.4e38f,  16777217.0f, 0.1f,   1.17549435e-38f };
    uint64_t pick = spotnik_prng_below(prng, 28);

    return pick < 14 ? values[pick] : (float)(int32_t)spotnik_prng_next(prng) * 1e-5f;
}

static double awkward_f64(struct spotnik_prng *prng)
{
    static const double values[] = {
        0.0,    -0.0,    1.0,     -1.0,     INFINITY,           -INFINITY, NAN,
        5e-324, -1e-310, 1.7e308, -1.7e308, 9007199254740993.0, 0.1,       2.2250738585072014e-308
    };
    uint64_t pick = spotnik_prng_below(prng, 28);

    return pick < 14 ? values[pick] : (double)(int64_t)spotnik_prng_next(prng) * 1e-12;
}

static uint64_t awkward_int(struct spotnik_prng *prng)
{
    static const uint64_t values[] = {
        0, 1, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN, INT32_MAX, (uint64_t)INT32_MIN, 127, 128, 255
    };
    uint64_t pick = spotnik_prng_below(prng, 20);

    return pick < 10 ? values[pick] : spotnik_prng_next(prng);
}

static void fill(uint8_t *out, size_t count, enum spotnik_dtype dtype, struct spotnik_prng *prng)
{
    size_t size = spotnik_dtype_size(dtype);

    for (size_t i = 0; i < count; i++) {
        float f = awkward_f32(prng);
        double d = awkward_f64(prng);
        uint64_t n = awkward_int(prng);
        const void *value = dtype == SPOTNIK_F32   ? (void *)&f
                            : dtype == SPOTNIK_F64 ? (void *)&d
                                                   : (void *)&n;

        memcpy(out + i * size, value, size);
    }
}

#define FLOAT_MODEL(type)                                                                                    \
    static __attribute__((noinline)) type model_##type(type r, type x, enum spotnik_op op, type w)           \
    {                                                                                                        \
        if (op == SPOTNIK_SUM)                                                                               \
            return r + x;                                                                                    \
        if (op == SPOTNIK_MEAN)                                                                              \
            return r + w * x;                                                                                \
        if (isnan(r) || isnan(x))                                                                            \
            return isnan(r) ? r : x;                                                                         \
        if (r == x)                                                                                          \
            return x;                                                                                        \
        return (op == SPOTNIK_MIN) == (r < x) ? r : x;                                                       \
    }

FLOAT_MODEL(float)
FLOAT_MODEL(double)

static __attribute__((noinline)) uint64_t model_int(int64_t r, int64_t x, enum spotnik_op op)
{
    if (op == SPOTNIK_SUM)
        return (uint64_t)r + (uint64_t)x;
    return (uint64_t)((op == SPOTNIK_MIN) == (r < x) ? r : x);
}

static int64_t load_int(const uint8_t *from, enum spotnik_dtype dtype)
{
    int32_t narrow;
    int64_t wide;

    if (dtype == SPOTNIK_U8)
        return *from;
    memcpy(&narrow, from, sizeof narrow);
    if (dtype == SPOTNIK_I32)
        return narrow;
    memcpy(&wide, from, sizeof wide);
    return wide;
}

/* One element: out = r (op) x. */
static void model(uint8_t *out, const uint8_t *r, const uint8_t *x, enum spotnik_dtype dtype,
                  enum spotnik_op op, uint64_t weight)
{
    float f[2];
    double d[2];
    uint64_t n;

    switch (dtype) {
    case SPOTNIK_F32:
        memcpy(&f[0], r, 4);
        memcpy(&f[1], x, 4);
        f[0] = model_float(f[0], f[1], op, (float)weight);
        memcpy(out, f, 4);
        return;
    case SPOTNIK_F64:
        memcpy(&d[0], r, 8);
        memcpy(&d[1], x, 8);
        d[0] = model_double(d[0], d[1], op, (double)weight);
        memcpy(out, d, 8);
        return;
    default:
        n = model_int(load_int(r, dtype), load_int(x, dtype), op);
        memcpy(out, &n, spotnik_dtype_size(dtype));
    }
}

static void combine(void *out, const void *received, const void *input, size_t count,
                    enum spotnik_dtype dtype, enum spotnik_op op, uint64_t weight)
{
    if (tier)
        tier->kernels->combine[dtype][op](out, received, input, count, weight);
    else
        spotnik_reduce_combine(out, received, input, count, dtype, op, weight);
}

/* One length and one alignment, apart and in place; the byte after the end must survive. */
static void check_combine(enum spotnik_dtype dtype, enum spotnik_op op, size_t count, size_t shift,
                          uint64_t weight, struct spotnik_prng *prng)
{
    uint8_t received[ROOM], input[ROOM], want[ROOM], out[ROOM];
    uint8_t *r = received + shift, *x = input + 3 * shift % 8, *o = out + 5 * shift % 8;
    size_t size = spotnik_dtype_size(dtype);

    fill(r, count, dtype, prng);
    fill(x, count, dtype, prng);
    for (size_t i = 0; i < count; i++)
        model(want + i * size, r + i * size, x + i * size, dtype, op, weight);
    o[count * size] = 0xa5;
    combine(o, r, x, count, dtype, op, weight);
    assert_memory_equal(o, want, count * size);
    assert_int_equal(o[count * size], 0xa5);
    combine(r, r, x, count, dtype, op, weight);
    assert_memory_equal(r, want, count * size);
}

static void combine_equals_the_model(void)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 1);
    for (enum spotnik_dtype dtype = SPOTNIK_F32; dtype <= SPOTNIK_U8; dtype++)
        for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_MAX; op++)
            for (size_t count = 0; spotnik_reduce_supported(dtype, op) && count <= LENGTH_MAX; count++)
                for (size_t shift = 0; shift < 8; shift++)
                    check_combine(dtype, op, count, shift, 2 + spotnik_prng_below(&prng, 1000), &prng);
}

static void every_tier_equals_the_model(void **state)
{
    (void)state;
    for (size_t i = 0; i < spotnik_reduce_tier_count; i++) {
        tier = &spotnik_reduce_tiers[i];
        if (!tier->is_supported())
            print_message("%s: not on this processor, not tested\n", tier->name);
        else
            combine_equals_the_model();
    }
    tier = NULL;
    combine_equals_the_model();
}

/* scale and divide of one tier against the scalar one, which scale_and_divide_by_value() below checks by
   value. */
static void check_tier(const struct spotnik_reduce_tier *one, enum spotnik_dtype dtype,
                       struct spotnik_prng *prng)
{
    const struct spotnik_reduce_kernels *base = spotnik_reduce_tiers[0].kernels;
    uint8_t input[ROOM], want[ROOM], out[ROOM];

    for (size_t count = 0; count <= LENGTH_MAX; count++) {
        size_t shift = spotnik_prng_below(prng, 8), size = count * spotnik_dtype_size(dtype);
        uint64_t weight = 2 + spotnik_prng_below(prng, UINT64_C(1) << 40);

        fill(input + shift, count, dtype, prng);
        base->scale[dtype](want, input + shift, count, weight);
        one->kernels->scale[dtype](out + shift, input + shift, count, weight);
        assert_memory_equal(out + shift, want, size);
        base->divide[dtype](want, count, weight);
        one->kernels->divide[dtype](out + shift, count, weight);
        assert_memory_equal(out + shift, want, size);
    }
}

static void tiers_scale_and_divide_alike(void **state)
{
    (void)state;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 2);
    for (size_t i = 1; i < spotnik_reduce_tier_count; i++) {
        if (!spotnik_reduce_tiers[i].is_supported())
            continue;
        check_tier(&spotnik_reduce_tiers[i], SPOTNIK_F32, &prng);
        check_tier(&spotnik_reduce_tiers[i], SPOTNIK_F64, &prng);
    }
}

static void scale_and_divide_by_value(void **state)
{
    (void)state;
    const float input[5] = { 1.5f, -2.0f, 0.0f, 1e-45f, INFINITY };
    const float scaled[5] = { 4.5f, -6.0f, 0.0f, 4.2e-45f, INFINITY };
    const float divided[5] = { 4.5f / 7, -6.0f / 7, 0.0f, 4.2e-45f / 7, INFINITY };
    const double wide[2] = { 0.5, -1e300 };
    float out[5];
    double out_wide[2];

    spotnik_reduce_scale(out, input, 5, SPOTNIK_F32, 3);
    assert_memory_equal(out, scaled, sizeof out);
    spotnik_reduce_divide(out, 5, SPOTNIK_F32, 7);
    assert_memory_equal(out, divided, sizeof out);
    spotnik_reduce_scale(out_wide, wide, 2, SPOTNIK_F64, 4);
    assert_true(out_wide[0] == 2.0 && out_wide[1] == -4e300);
    spotnik_reduce_divide(out_wide, 2, SPOTNIK_F64, 8);
    assert_true(out_wide[0] == 0.25 && out_wide[1] == -4e300 / 8);
}

static void weight_zero_contributes_nothing(void **state)
{
    (void)state;
    const float received[3] = { 1.0f, -0.0f, 2.5f };
    const float input[3] = { NAN, INFINITY, 7.0f };
    const float zeros[3] = { 0 };
    float out[3];

    spotnik_reduce_combine(out, received, input, 3, SPOTNIK_F32, SPOTNIK_MEAN, 0);
    assert_memory_equal(out, received, sizeof out);
    spotnik_reduce_scale(out, input, 3, SPOTNIK_F32, 0);
    assert_memory_equal(out, zeros, sizeof out);
    memcpy(out, input, sizeof out);
    spotnik_reduce_divide(out, 3, SPOTNIK_F32, 0);
    assert_memory_equal(out, zeros, sizeof out);
}

static void weight_one_is_the_plain_sum(void **state)
{
    (void)state;
    const double received[2] = { 1.0, 0.1 };
    const double input[2] = { 2.0, 0.2 };
    const double sum[2] = { 3.0, 0.1 + 0.2 };
    double out[2];

    spotnik_reduce_combine(out, received, input, 2, SPOTNIK_F64, SPOTNIK_MEAN, 1);
    assert_memory_equal(out, sum, sizeof out);
    spotnik_reduce_scale(out, input, 2, SPOTNIK_F64, 1);
    assert_memory_equal(out, input, sizeof out);
    spotnik_reduce_divide(out, 2, SPOTNIK_F64, 1);
    assert_memory_equal(out, input, sizeof out);
}

static void what_is_supported(void **state)
{
    (void)state;
    /* Rows F32 F64 I32 I64 U8, columns SUM MEAN MIN MAX, as the public header says. */
    static const bool want[5][4] = {
        { 1, 1, 1, 1 }, { 1, 1, 1, 1 }, { 1, 0, 1, 1 }, { 1, 0, 1, 1 }, { 0, 0, 1, 1 }
    };
    static const size_t sizes[5] = { 4, 8, 4, 8, 1 };

    for (int dtype = -1; dtype <= 300; dtype++) {
        bool known = dtype >= SPOTNIK_F32 && dtype <= SPOTNIK_U8;
        assert_int_equal(spotnik_dtype_size((enum spotnik_dtype)dtype), known ? sizes[dtype - 1] : 0);
        for (int op = -1; op <= 300; op++) {
            bool is = known && op >= SPOTNIK_SUM && op <= SPOTNIK_MAX && want[dtype - 1][op - 1];
            assert_int_equal(spotnik_reduce_supported((enum spotnik_dtype)dtype, (enum spotnik_op)op), is);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_equals_the_model), cmocka_unit_test(tiers_scale_and_divide_alike),
        cmocka_unit_test(scale_and_divide_by_value),   cmocka_unit_test(weight_zero_contributes_nothing),
        cmocka_unit_test(weight_one_is_the_plain_sum), cmocka_unit_test(what_is_supported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
