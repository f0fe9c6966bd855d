/* SPDX-License-Identifier: Apache-2.0 */
/* Casts and quantisation of every tier against their definition in compress.h, computed here one
 * element at a time: all lengths to 520 and beyond, alignments, awkward values, ties; and the error
 * that is promised. */
#include "reduce/compress.h"

#include "oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "tests.h"

enum { BLOCK = SPOTNIK_QUANT_BLOCK, COUNT_MAX = 1100, ROOM = COUNT_MAX * 4 + 128, GUARD = 0x5a };

/* Halves and ties between halves, moved by one bit of F32 to either side; and any bits. */
static uint32_t tie_bits(struct spotnik_prng *prng, enum spotnik_dtype dtype)
{
    uint16_t half = (uint16_t)spotnik_prng_next(prng);
    float value = (float)oracle_of_half(half, dtype);
    float beyond = (float)oracle_of_half((uint16_t)(half + 1), dtype);
    uint32_t bits;

    if (spotnik_prng_below(prng, 2) == 0)
        return (uint32_t)spotnik_prng_next(prng);
    value = (float)(((double)value + (double)beyond) / 2);
    memcpy(&bits, &value, sizeof bits);
    return bits + (uint32_t)spotnik_prng_below(prng, 3) - 1;
}

static float float_of(const uint8_t *bytes, size_t index)
{
    float value;

    memcpy(&value, bytes + 4 * index, sizeof value);
    return value;
}

static void check_casts(const struct spotnik_reduce_kernels *kernels, enum spotnik_dtype dtype,
                        size_t count, struct spotnik_prng *prng)
{
    uint8_t wide_room[ROOM], half_room[ROOM];
    uint8_t *wide = wide_room + spotnik_prng_below(prng, 64),
            *half = half_room + spotnik_prng_below(prng, 64);
    float want;
    uint16_t got;

    for (size_t i = 0; i < count; i++) {
        uint32_t bits = tie_bits(prng, dtype);
        memcpy(wide + 4 * i, &bits, sizeof bits);
    }
    half[2 * count] = GUARD;
    kernels->narrow[dtype](half, (void *)wide, count);
    for (size_t i = 0; i < count; i++) {
        memcpy(&got, half + 2 * i, sizeof got);
        assert_int_equal(got, oracle_half_of((double)float_of(wide, i), dtype));
    }
    assert_int_equal(half[2 * count], GUARD);
    wide[4 * count] = GUARD;
    kernels->widen[dtype]((void *)wide, half, count);
    for (size_t i = 0; i < count; i++) {
        memcpy(&got, half + 2 * i, sizeof got);
        want = (float)oracle_of_half(got, dtype);
        want = isnan(want) ? NAN : want;
        assert_memory_equal(wide + 4 * i, &want, sizeof want);
    }
    assert_int_equal(wide[4 * count], GUARD);
}

TEST(casts_equal_the_oracle)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 5);
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (size_t count = 0; count <= COUNT_MAX && spotnik_reduce_tiers[t].is_supported();
             count += 1 + count / 258 * 7) {
            check_casts(spotnik_reduce_tiers[t].kernels, SPOTNIK_F16, count, &prng);
            check_casts(spotnik_reduce_tiers[t].kernels, SPOTNIK_BF16, count, &prng);
        }
}

static float block_greatest(const uint8_t *in, size_t begin, size_t end)
{
    float most = 0;

    for (size_t i = begin; i < end; i++) {
        if (!isfinite(float_of(in, i)))
            return NAN;
        most = fmaxf(most, fabsf(float_of(in, i)));
    }
    return most;
}

/* What element `index` quantises to, by the words of compress.h. */
static int unit_of(float x, float most)
{
    volatile float units = 127 / most;
    volatile float scaled = x * units;

    return most >= 0x1p-119f ? (int)nearbyintf(scaled) : 0;
}

/* 17 bits of m / 127, cut off. */
static float scale_of(float most)
{
    float scale = most / 127;
    int exponent;
    double fraction = frexp((double)scale, &exponent);

    return (float)ldexp(floor(ldexp(fraction, 17)), exponent - 17);
}

static void check_block(const uint8_t *in, const uint8_t *form, const uint8_t *decoded,
                        size_t begin, size_t end)
{
    float most = block_greatest(in, begin, end), scale, want;
    const uint8_t *block = form + begin / BLOCK * SPOTNIK_QUANT_BLOCK_BYTES;

    memcpy(&scale, block, sizeof scale);
    want = isnan(most) ? NAN : most >= 0x1p-119f ? scale_of(most) : 0;
    assert_memory_equal(&scale, &want, sizeof want);
    for (size_t i = begin; i < end; i++) {
        int q = (int8_t)block[4 + i - begin];
        assert_int_equal(q, unit_of(float_of(in, i), most));
        want = (float)q * scale;
        want = isnan(want) ? NAN : want;
        assert_memory_equal(decoded + 4 * i, &want, sizeof want);
        if (most >= 0x1p-119f)
            assert_true(fabs((double)want - (double)float_of(in, i)) <= 0.51 * (double)most / 127);
    }
}

static void fill_floats(uint8_t *out, size_t count, struct spotnik_prng *prng)
{
    int kind = (int)spotnik_prng_below(prng, 4);

    if (kind == 0) {
        oracle_fill(out, count, SPOTNIK_F32, prng);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        float value = (float)(int32_t)spotnik_prng_next(prng)
                      * (kind == 1   ? 0x1p-31f
                         : kind == 2 ? 0x1p-149f
                                     : 1);
        memcpy(out + 4 * i, &value, sizeof value);
    }
}

static void check_quantised(const struct spotnik_reduce_kernels *kernels, size_t count,
                            struct spotnik_prng *prng)
{
    uint8_t in_room[ROOM], form_room[ROOM], out_room[ROOM];
    uint8_t *in = in_room + spotnik_prng_below(prng, 64),
            *form = form_room + spotnik_prng_below(prng, 64),
            *out = out_room + spotnik_prng_below(prng, 64);
    size_t bytes = spotnik_quant_bytes(count);

    fill_floats(in, count, prng);
    form[bytes] = GUARD;
    kernels->quantise(form, (void *)in, count);
    assert_int_equal(form[bytes], GUARD);
    out[4 * count] = GUARD;
    kernels->dequantise((void *)out, form, count);
    assert_int_equal(out[4 * count], GUARD);
    for (size_t begin = 0; begin < count; begin += BLOCK)
        check_block(in, form, out, begin, begin + BLOCK < count ? begin + BLOCK : count);
}

TEST(quantised_blocks_equal_their_definition)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 6);
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (size_t count = 0; count <= COUNT_MAX && spotnik_reduce_tiers[t].is_supported();
             count += 1 + count / 520 * 7)
            for (int round = 0; round < 4; round++)
                check_quantised(spotnik_reduce_tiers[t].kernels, count, &prng);
}

/* What the operation makes of element `at`, in F32, one member after the other. */
static float folded(const struct spotnik_reduce_inputs *in, const float *decoded, size_t stride,
                    size_t at, enum spotnik_op op)
{
    volatile float sum = 0;

    for (size_t i = 0; i < in->inputs; i++) {
        volatile float x = decoded[i * stride + at];
        if (op == SPOTNIK_MEAN)
            x = x * in->input[i].weight32;
        if (i == 0)
            sum = x;
        else if (op == SPOTNIK_MIN || op == SPOTNIK_MAX)
            sum = isnan(sum) || (op == SPOTNIK_MIN ? sum < x : sum > x) ? sum : x;
        else
            sum = op == SPOTNIK_PRODUCT ? sum * x : sum + x;
    }
    if (op == SPOTNIK_MEAN)
        sum = sum / in->divisor32;
    return sum;
}

/* Blocks as elements: operation and rounding as written, in every tier, at any alignment, also in
 * place. */
static void check_blocks(const struct spotnik_reduce_kernels *kernels, enum spotnik_op op,
                         struct spotnik_prng *prng)
{
    enum { BLOCKS = 3, MOST = 5, COUNT = BLOCKS * BLOCK, BYTES = BLOCKS * 256 };
    static uint8_t form[MOST][BYTES + 64], result[BYTES + 64];
    static float decoded[MOST * COUNT], want[COUNT], got[COUNT];
    struct spotnik_reduce_input input[MOST];
    struct spotnik_reduce_inputs in = { .input = input,
                                        .inputs = 1 + spotnik_prng_below(prng, MOST),
                                        .bytes = BYTES };
    uint64_t total = 0;

    for (size_t i = 0; i < in.inputs; i++) {
        uint64_t weight = 1 + spotnik_prng_below(prng, 3) * spotnik_prng_below(prng, 1000);
        uint8_t *data = form[i] + spotnik_prng_below(prng, 64);
        fill_floats((uint8_t *)want, COUNT, prng);
        spotnik_quant_encode(data, want, COUNT);
        spotnik_quant_decode(decoded + i * COUNT, data, COUNT);
        input[i] = (struct spotnik_reduce_input){ .data = data,
                                                  .weight64 = (double)weight,
                                                  .weight32 = (float)weight };
        total += weight;
    }
    in.divisor32 = (float)total;
    for (size_t k = 0; k < COUNT; k++)
        want[k] = folded(&in, decoded, COUNT, k, op);
    uint8_t *out = spotnik_prng_below(prng, 2) ? (uint8_t *)(uintptr_t)input[0].data
                                               : result + spotnik_prng_below(prng, 64);
    kernels->fold[SPOTNIK_Q8][op](out, &in);
    kernels->dequantise(got, out, COUNT);
    for (size_t k = 0; k < COUNT; k += BLOCK)
        check_block((uint8_t *)want, out, (uint8_t *)got, k, k + BLOCK);
}

TEST(blocks_are_reduced_by_definition)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 7);
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (enum spotnik_op op = SPOTNIK_SUM;
             op <= SPOTNIK_PRODUCT && spotnik_reduce_tiers[t].is_supported(); op++)
            for (int round = 0; round < 100; round++)
                check_blocks(spotnik_reduce_tiers[t].kernels, op, &prng);
}

/* The greatest float must not come back as infinity; a NaN or an infinity must not come back as a
 * number. */
TEST(quantised_extremes)
{
    float in[600], out[600];
    uint8_t form[700];

    for (int i = 0; i < 600; i++)
        in[i] = i < BLOCK ? FLT_MAX : i < 2 * BLOCK ? 0x1p-118f : 0x1p-120f;
    assert_int_equal(spotnik_quant_bytes(600), 612);
    spotnik_quant_encode(form, in, 600);
    spotnik_quant_decode(out, form, 600);
    assert_true(isfinite(out[0]) && out[0] >= FLT_MAX * 0.999f);
    assert_true(out[BLOCK] > 0x1.fep-119f && out[BLOCK] < 0x1.01p-118f);
    assert_true(out[2 * BLOCK] == 0);
    in[7] = -INFINITY;
    in[300] = NAN;
    spotnik_quant_encode(form, in, 600);
    spotnik_quant_decode(out, form, 600);
    for (int i = 0; i < 2 * BLOCK; i++)
        assert_true(isnan(out[i]));
    assert_true(out[2 * BLOCK] == 0);
}

TEST(public_casts_round_trip)
{
    const float in[5] = { 1, -2.5f, 0, 65504, 0x1p-24f };
    uint16_t half[5];
    float out[5];

    spotnik_compress_narrow(half, in, 5, SPOTNIK_F16);
    spotnik_compress_widen(out, half, 5, SPOTNIK_F16);
    assert_memory_equal(out, in, sizeof in);
    spotnik_compress_narrow(half, in, 3, SPOTNIK_BF16);
    spotnik_compress_widen(out, half, 3, SPOTNIK_BF16);
    assert_memory_equal(out, in, 3 * sizeof *in);
}
