/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of reduce.h as the data path calls them: special weights, the running mean of
 * narrow types, a flat reduction beside a ring's, and what is supported. Bits of kernels are the
 * business of test_reduce_kernels.c. */
#include "reduce/reduce.h"

#include "oracle.h"

#include <math.h>
#include <string.h>

#include "tests.h"

enum { COUNT = 67, SOURCES = 5 };

TEST(scale_and_divide_by_value)
{
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

TEST(weight_zero_contributes_nothing)
{
    const float received[3] = { 1.0f, -0.0f, 2.5f };
    const float input[3] = { NAN, INFINITY, 7.0f };
    const float zeros[3] = { 0 };
    float out[3];

    spotnik_reduce_combine(out, received, input, 3, SPOTNIK_F32, SPOTNIK_MEAN, 0, 4);
    assert_memory_equal(out, received, sizeof out);
    spotnik_reduce_scale(out, input, 3, SPOTNIK_F32, 0);
    assert_memory_equal(out, zeros, sizeof out);
    memcpy(out, input, sizeof out);
    spotnik_reduce_divide(out, 3, SPOTNIK_F32, 0);
    assert_memory_equal(out, zeros, sizeof out);
}

TEST(weight_one_is_the_plain_sum)
{
    const double received[2] = { 1.0, 0.1 };
    const double input[2] = { 2.0, 0.2 };
    const double sum[2] = { 3.0, 0.1 + 0.2 };
    double out[2];

    spotnik_reduce_combine(out, received, input, 2, SPOTNIK_F64, SPOTNIK_MEAN, 1, 1);
    assert_memory_equal(out, sum, sizeof out);
    spotnik_reduce_scale(out, input, 2, SPOTNIK_F64, 1);
    assert_memory_equal(out, input, sizeof out);
    spotnik_reduce_divide(out, 2, SPOTNIK_F64, 1);
    assert_memory_equal(out, input, sizeof out);
}

/* 60 000 in F16 with weight 32 is far beyond its 65 504, the mean is not; and -100 beside 100 in an
 * I8. */
TEST(narrow_means_stay_in_range)
{
    const uint16_t large = oracle_half_of(60000, SPOTNIK_F16),
                   less = oracle_half_of(50016, SPOTNIK_F16);
    const int8_t low[2] = { -128, 100 }, high[2] = { 127, 101 };
    uint16_t out;
    int8_t whole[2];

    spotnik_reduce_scale(&out, &large, 1, SPOTNIK_F16, 32);
    assert_int_equal(out, large);
    spotnik_reduce_combine(&out, &out, &less, 1, SPOTNIK_F16, SPOTNIK_MEAN, 32, 32);
    spotnik_reduce_divide(&out, 1, SPOTNIK_F16, 64);
    assert_int_equal(out, oracle_half_of(55008, SPOTNIK_F16));
    spotnik_reduce_combine(whole, low, high, 2, SPOTNIK_I8, SPOTNIK_MEAN, 3, 1);
    assert_int_equal(whole[0], 63);  /* 63.25 */
    assert_int_equal(whole[1], 101); /* 100.75 */
    spotnik_reduce_combine(whole, low, high, 2, SPOTNIK_I8, SPOTNIK_MEAN, 1, 1);
    assert_int_equal(whole[0], 0);   /* -0.5 */
    assert_int_equal(whole[1], 100); /* 100.5: to even */
}

/* The same sources brought round a ring, as src/transport does it. */
static void ring(void *out, const struct spotnik_reduce_source *source, enum spotnik_dtype dtype,
                 enum spotnik_op op)
{
    size_t bytes = COUNT * spotnik_dtype_size(dtype);
    uint64_t total = 0;

    memcpy(out, source[0].data, bytes);
    for (size_t i = 0; i < SOURCES; i++) {
        if (source[i].weight > 0 && total > 0)
            spotnik_reduce_combine(out, out, source[i].data, COUNT, dtype, op, source[i].weight,
                                   total);
        else if (source[i].weight > 0 && op == SPOTNIK_MEAN)
            spotnik_reduce_scale(out, source[i].data, COUNT, dtype, source[i].weight);
        else if (source[i].weight > 0)
            memcpy(out, source[i].data, bytes);
        total += source[i].weight;
    }
    if (op == SPOTNIK_MEAN)
        spotnik_reduce_divide(out, COUNT, dtype, total);
}

static bool rounds_at_every_hop(enum spotnik_dtype dtype, enum spotnik_op op)
{
    if (dtype == SPOTNIK_F16 || dtype == SPOTNIK_BF16)
        return op == SPOTNIK_SUM || op == SPOTNIK_MEAN || op == SPOTNIK_PRODUCT;
    return op == SPOTNIK_MEAN && dtype != SPOTNIK_F32 && dtype != SPOTNIK_F64;
}

static void check_flat(enum spotnik_dtype dtype, enum spotnik_op op, struct spotnik_prng *prng)
{
    uint8_t data[SOURCES][COUNT * 8], want[COUNT * 8], out[COUNT * 8];
    struct spotnik_reduce_source source[SOURCES];
    size_t present = 0;

    for (size_t i = 0; i < SOURCES; i++) {
        oracle_fill(data[i], COUNT, dtype, prng);
        source[i] = (struct spotnik_reduce_source){ data[i], spotnik_prng_below(prng, 4) };
        present += source[i].weight > 0;
    }
    if (rounds_at_every_hop(dtype, op) && present > 2)
        return;
    ring(want, source, dtype, op);
    spotnik_reduce_flat(out, source, SOURCES, COUNT, dtype, op, SPOTNIK_REDUCE_STREAM);
    assert_memory_equal(out, want, COUNT * spotnik_dtype_size(dtype));
    spotnik_reduce_flat(data[2], source, SOURCES, COUNT, dtype, op, 0);
    assert_memory_equal(data[2], want, COUNT * spotnik_dtype_size(dtype));
}

TEST(flat_equals_the_ring)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 3);
    for (enum spotnik_dtype dtype = SPOTNIK_F32; dtype <= SPOTNIK_DTYPE_LAST; dtype++)
        for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_OP_LAST; op++)
            for (int round = 0; round < 60; round++)
                check_flat(dtype, op, &prng);
}

/* 1 + 2^-11, five times over: hop by hop a half would lose every small part. */
TEST(flat_rounds_halves_once)
{
    const uint16_t one = oracle_half_of(1, SPOTNIK_F16),
                   little = oracle_half_of(0x1p-12, SPOTNIK_F16);
    struct spotnik_reduce_source source[9] = { { &one, 1 } };
    uint16_t out;

    for (int i = 1; i < 9; i++)
        source[i] = (struct spotnik_reduce_source){ &little, 1 };
    spotnik_reduce_flat(&out, source, 9, 1, SPOTNIK_F16, SPOTNIK_SUM, 0);
    assert_int_equal(out, oracle_half_of(1 + 0x1p-9, SPOTNIK_F16));
}

TEST(partial_leaves_the_division_out)
{
    const float a = 3, b = 5;
    const struct spotnik_reduce_source source[2] = { { &a, 2 }, { &b, 4 } };
    float out;

    spotnik_reduce_flat(&out, source, 2, 1, SPOTNIK_F32, SPOTNIK_MEAN, SPOTNIK_REDUCE_PARTIAL);
    assert_true(out == 26);
    spotnik_reduce_divide(&out, 1, SPOTNIK_F32, 6);
    assert_true(out == 26.0f / 6);
}

static void put(void *at, enum spotnik_dtype dtype, double value)
{
    const float f32 = (float)value;
    const int32_t i32 = isnan(value) ? 99 : (int32_t)value;
    const uint16_t half = oracle_half_of(value, SPOTNIK_F16);

    memcpy(at,
           dtype == SPOTNIK_F32   ? (const void *)&f32
           : dtype == SPOTNIK_I32 ? (const void *)&i32
                                  : &half,
           spotnik_dtype_size(dtype));
}

static double get(const void *at, enum spotnik_dtype dtype)
{
    float f32;
    int32_t i32;
    uint16_t half;

    memcpy(&f32, at, sizeof f32);
    memcpy(&i32, at, sizeof i32);
    memcpy(&half, at, sizeof half);
    return dtype == SPOTNIK_F32   ? (double)f32
           : dtype == SPOTNIK_I32 ? i32
                                  : oracle_of_half(half, SPOTNIK_F16);
}

/* Weights 2 and 0 in one place of a tree, 2 in another, and all of it at the root with 4: whatever
 * the type carries on its way, the mean is that of all, (2*4 + 2*2 + 4*5) / 8; and what has no
 * weight is not even read. The same with a host's sum in place of an input. */
static void check_partials(enum spotnik_dtype dtype)
{
    uint64_t in[4] = { 0 }, below = 0, leaf = 0, out = 0, host = 0;
    const double values[4] = { 4, NAN, 2, 5 };

    for (int i = 0; i < 4; i++)
        put(&in[i], dtype, values[i]);
    const struct spotnik_reduce_source two[2] = { { &in[0], 2 }, { &in[1], 0 } },
                                       one = { &in[2], 2 };
    spotnik_reduce_partials(&below, two, 2, false, false, 1, dtype, SPOTNIK_MEAN);
    spotnik_reduce_partials(&leaf, &one, 1, false, false, 1, dtype, SPOTNIK_MEAN);
    const struct spotnik_reduce_source root[3] = { { &in[3], 4 }, { &below, 2 }, { &leaf, 2 } };
    spotnik_reduce_partials(&out, root, 3, false, true, 1, dtype, SPOTNIK_MEAN);
    assert_true(get(&out, dtype) == 4);
    spotnik_reduce_partials(&host, root, 2, false, false, 1, dtype, SPOTNIK_MEAN);
    const struct spotnik_reduce_source hosts[2] = { { &host, 6 }, { &leaf, 2 } };
    spotnik_reduce_partials(&host, hosts, 2, true, true, 1, dtype, SPOTNIK_MEAN);
    assert_int_equal(get(&host, dtype), 4);
}

TEST(partials_add_up)
{
    const float one = 1, two = 2;
    float total;
    struct spotnik_reduce_source plain[3] = { { &one, 1 }, { &two, 3 }, { &two, 0 } };

    check_partials(SPOTNIK_F32);
    check_partials(SPOTNIK_F16);
    check_partials(SPOTNIK_I32);
    spotnik_reduce_partials(&total, plain, 3, false, true, 1, SPOTNIK_F32, SPOTNIK_SUM);
    assert_true(total == 3);
    plain[0].weight = plain[1].weight = 0;
    spotnik_reduce_partials(&total, plain, 3, false, true, 1, SPOTNIK_F32, SPOTNIK_MEAN);
    assert_true(total == 0);
}

TEST(what_is_supported)
{
    static const size_t sizes[14] = { 0, 4, 8, 4, 8, 1, 2, 2, 1, 2, 2, 4, 8, 256 };

    for (int dtype = -1; dtype <= 300; dtype++) {
        bool known = dtype >= 1 && dtype <= 13;
        assert_int_equal(spotnik_dtype_size((enum spotnik_dtype)dtype), known ? sizes[dtype] : 0);
        for (int op = -1; op <= 300; op++)
            assert_int_equal(spotnik_reduce_supported((enum spotnik_dtype)dtype,
                                                      (enum spotnik_op)op),
                             known && op >= 1 && op <= 5);
    }
    /* Numbers that travel between members and stand in checkpoints: they stay. */
    assert_int_equal(SPOTNIK_U8, 5);
    assert_int_equal(SPOTNIK_U64, 12);
    assert_int_equal(SPOTNIK_Q8, 13);
    assert_int_equal(SPOTNIK_PRODUCT, 5);
}
