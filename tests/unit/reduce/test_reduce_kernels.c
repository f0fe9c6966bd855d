/* SPDX-License-Identifier: Apache-2.0 */
/* Every kernel of every tier against the oracle, by bits: all types and operations, 1 to 9 inputs,
 * lengths 0 to 257 and some large ones, all alignments of each array, in place, streamed; nothing
 * may be written beyond the end. Tiers that this processor lacks are named and left out. */
#include "oracle.h"

#include <stdlib.h>
#include <string.h>

#include "tests.h"

enum { LENGTH_MAX = 257, LARGE_MAX = 10007, INPUTS_MAX = 9, EDGE = 64, GUARD = 0xa5 };

struct shape {
    size_t count, inputs, shift; /* shift: where `out` stands from a multiple of 64 */
    int in_place;                /* which input is `out`; -1: none */
    bool is_streamed;
};

static uint8_t *memory[INPUTS_MAX], *result, *want;

static int memory_make(void **state)
{
    (void)state;
    size_t room = LARGE_MAX * 8 + 2 * EDGE;

    for (int i = 0; i < INPUTS_MAX; i++)
        memory[i] = aligned_alloc(EDGE, (room + EDGE - 1) / EDGE * EDGE);
    result = aligned_alloc(EDGE, (room + EDGE - 1) / EDGE * EDGE);
    want = malloc(room);
    return 0;
}

static int memory_free(void **state)
{
    (void)state;
    for (int i = 0; i < INPUTS_MAX; i++)
        free(memory[i]);
    free(result);
    free(want);
    return 0;
}

static uint64_t draw_weight(struct spotnik_prng *prng)
{
    switch (spotnik_prng_below(prng, 4)) {
    case 0:
        return 1;
    case 1:
        return 1 + (spotnik_prng_next(prng) >> 8);
    default:
        return 1 + spotnik_prng_below(prng, 1000);
    }
}

static void check(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype,
                  enum spotnik_op op, const struct shape *shape, struct spotnik_prng *prng)
{
    struct spotnik_reduce_input input[INPUTS_MAX];
    struct spotnik_reduce_inputs in = { .input = input,
                                        .inputs = shape->inputs,
                                        .bytes = shape->count * spotnik_dtype_bytes(dtype),
                                        .is_streamed = shape->is_streamed };
    uint64_t total = 0;
    uint8_t *out = result + shape->shift;

    for (size_t i = 0; i < shape->inputs; i++) {
        uint64_t weight = draw_weight(prng);
        uint8_t *data = memory[i] + spotnik_prng_below(prng, EDGE);
        if (shape->in_place == (int)i)
            data = out = memory[i] + shape->shift;
        oracle_fill(data, shape->count, dtype, prng);
        input[i] = (struct spotnik_reduce_input){ .data = data,
                                                  .weight64 = (double)weight,
                                                  .weight32 = (float)weight };
        total += weight;
    }
    /* F32 and F64 also leave the division out; the mean of other types would be none. */
    if ((dtype == SPOTNIK_F32 || dtype == SPOTNIK_F64) && spotnik_prng_below(prng, 4) == 0)
        total = 1;
    in.divisor32 = (float)total;
    in.divisor64 = (double)total;
    for (size_t i = 0; i < shape->count; i++)
        oracle_fold(want, &in, i, dtype, op);
    out[in.bytes] = GUARD;
    tier->kernels->fold[dtype][op](out, &in);
    for (size_t i = 0; i < in.bytes; i++)
        if (out[i] != want[i])
            fail_msg("%s: type %d, operation %d, %zu elements, %zu inputs, shift %zu, in place %d, "
                     "streamed %d: "
                     "byte %zu is %02x, not %02x",
                     tier->name, dtype, op, shape->count, shape->inputs, shape->shift,
                     shape->in_place, shape->is_streamed, i, out[i], want[i]);
    assert_int_equal(out[in.bytes], GUARD);
}

static void check_shapes(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype,
                         enum spotnik_op op, struct spotnik_prng *prng)
{
    static const size_t large[] = { 1023, 4099, LARGE_MAX };

    for (size_t count = 0; count <= LENGTH_MAX; count++) {
        struct shape shape = { .count = count,
                               .inputs = 1 + spotnik_prng_below(prng, INPUTS_MAX),
                               .shift = count % EDGE,
                               .is_streamed = spotnik_prng_below(prng, 2) };
        shape.in_place = (int)spotnik_prng_below(prng, shape.inputs + 1) - 1;
        check(tier, dtype, op, &shape, prng);
    }
    for (size_t shift = 0; shift < EDGE; shift++) {
        struct shape shape = { 131 + shift % 3, 2 + shift % 2, shift, -1, true };
        check(tier, dtype, op, &shape, prng);
    }
    for (size_t i = 0; i < 3; i++) {
        struct shape shape = { large[i], 2 + i, 8 * i, -1, i == 1 };
        check(tier, dtype, op, &shape, prng);
    }
}

TEST(every_kernel_equals_the_oracle)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 1);
    for (size_t i = 0; i < spotnik_reduce_tier_count; i++) {
        const struct spotnik_reduce_tier *tier = &spotnik_reduce_tiers[i];
        if (!tier->is_supported()) {
            print_message("%s: not on this processor, not tested\n", tier->name);
            continue;
        }
        for (enum spotnik_dtype dtype = SPOTNIK_F32; dtype <= SPOTNIK_DTYPE_LAST; dtype++)
            for (enum spotnik_op op = SPOTNIK_SUM; op <= SPOTNIK_OP_LAST; op++)
                check_shapes(tier, dtype, op, &prng);
    }
}

/* Every pair of awkward halves, and every half alone: conversions of both kinds, exhaustively. */
TEST(every_half_survives)
{
    static const enum spotnik_dtype dtypes[] = { SPOTNIK_F16, SPOTNIK_BF16 };
    static uint16_t all[65536], out[65536];
    const struct spotnik_reduce_input one = { .data = all, .weight64 = 1, .weight32 = 1 };
    const struct spotnik_reduce_inputs in = {
        .input = &one, .inputs = 1, .bytes = sizeof all, .divisor64 = 1, .divisor32 = 1
    };

    for (uint32_t i = 0; i < 65536; i++)
        all[i] = (uint16_t)i;
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (size_t d = 0; d < 2 && spotnik_reduce_tiers[t].is_supported(); d++) {
            spotnik_reduce_tiers[t].kernels->fold[dtypes[d]][SPOTNIK_MEAN](out, &in);
            for (uint32_t i = 0; i < 65536; i++)
                assert_int_equal(out[i],
                                 oracle_half_of(oracle_of_half(all[i], dtypes[d]), dtypes[d]));
        }
}

/* To nearest, ties to even, in whole numbers alone. */
static int64_t mean_of(int64_t sum, int64_t divisor)
{
    int64_t floor = sum / divisor - (sum % divisor < 0), twice = 2 * (sum - floor * divisor);

    return floor + (twice > divisor || (twice == divisor && (floor & 1)));
}

static int64_t integer_at(const void *array, uint32_t i, enum spotnik_dtype dtype)
{
    switch ((int)dtype) {
    case SPOTNIK_I8:
        return ((const int8_t *)array)[i];
    case SPOTNIK_U8:
        return ((const uint8_t *)array)[i];
    case SPOTNIK_I16:
        return ((const int16_t *)array)[i];
    default:
        return ((const uint16_t *)array)[i];
    }
}

static void check_means(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype,
                        const void *a, const void *b, uint32_t weight_a, uint32_t weight_b)
{
    static uint16_t out[65536];
    const struct spotnik_reduce_input two[2] = { { a, weight_a, (float)weight_a, 0 },
                                                 { b, weight_b, (float)weight_b, 0 } };
    const int64_t divisor = weight_a + weight_b;
    const struct spotnik_reduce_inputs in = { .input = two,
                                              .inputs = 2,
                                              .bytes = 65536 * spotnik_dtype_bytes((uint64_t)dtype),
                                              .divisor64 = (double)divisor,
                                              .divisor32 = (float)divisor };

    tier->kernels->fold[dtype][SPOTNIK_MEAN](out, &in);
    for (uint32_t i = 0; i < 65536; i++) {
        int64_t sum = weight_a * integer_at(a, i, dtype) + weight_b * integer_at(b, i, dtype);
        if (integer_at(out, i, dtype) != mean_of(sum, divisor))
            fail_msg("%s, type %d, element %u: (%u * %d + %u * %d) / %u", tier->name, (int)dtype, i,
                     weight_a, (int)integer_at(a, i, dtype), weight_b, (int)integer_at(b, i, dtype),
                     (unsigned)divisor);
    }
}

/* All pairs of bytes; of 16 bits every number with one that makes a tie now and then. The weights
 * are small, at both sides of where F32 is exact, and large. */
TEST(means_of_small_integers_are_exact)
{
    static const uint32_t weights[][2] = { { 1, 1 },     { 1, 2 },         { 3, 5 },
                                           { 127, 128 }, { 254, 1 },       { 255, 1 },
                                           { 1000, 24 }, { 32767, 32768 }, { 65534, 1 },
                                           { 65535, 1 } };
    static uint8_t a8[65536], b8[65536];
    static uint16_t a16[65536], b16[65536];

    for (uint32_t i = 0; i < 65536; i++) {
        a8[i] = (uint8_t)i;
        b8[i] = (uint8_t)(i >> 8);
        a16[i] = (uint16_t)i;
        b16[i] = (uint16_t)(i * 40503u + (i >> 3));
    }
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (size_t w = 0;
             w < sizeof weights / sizeof weights[0] && spotnik_reduce_tiers[t].is_supported();
             w++) {
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_I8, a8, b8, weights[w][0], weights[w][1]);
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_U8, a8, b8, weights[w][0], weights[w][1]);
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_I16, a16, b16, weights[w][0],
                        weights[w][1]);
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_U16, a16, b16, weights[w][0],
                        weights[w][1]);
        }
}

/* Weights 1 and D - 1 make every sum from 0 to 255 D: all that is ever divided by D = 2 ... 257,
 * and what comes after. */
TEST(every_sum_of_bytes_is_divided_exactly)
{
    static uint8_t a[65536], b[65536];

    for (uint32_t i = 0; i < 65536; i++) {
        a[i] = (uint8_t)i;
        b[i] = (uint8_t)(i >> 8);
    }
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (uint32_t divisor = 2; divisor <= 260 && spotnik_reduce_tiers[t].is_supported();
             divisor++) {
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_I8, a, b, 1, divisor - 1);
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_U8, a, b, 1, divisor - 1);
        }
}

/* Numbers whose mean is a half, or as near to one as the divisor allows; with small divisors and at
 * both sides of where kernels change. 32 bits: each number beside the one that brings the sum next
 * to a tie. */
static void check_word_means(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype,
                             uint32_t weight)
{
    static uint32_t a[4096], b[4096], out[4096];
    const int64_t divisor = (int64_t)weight + 1, low = dtype == SPOTNIK_I32 ? INT32_MIN : 0;
    const struct spotnik_reduce_input two[2] = {
        { .data = a, .weight64 = 1, .weight32 = 1 },
        { .data = b, .weight64 = weight, .weight32 = (float)weight }
    };
    const struct spotnik_reduce_inputs in = { .input = two,
                                              .inputs = 2,
                                              .bytes = sizeof a,
                                              .divisor64 = (double)divisor,
                                              .divisor32 = (float)divisor };
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, weight);
    for (uint32_t i = 0; i < 4096; i++) {
        uint32_t top = i % 2 ? UINT32_MAX - (uint32_t)divisor
                             : (uint32_t)spotnik_prng_below(&prng, UINT32_MAX - (uint64_t)divisor);
        b[i] = (uint32_t)(top + low);
        a[i] = (uint32_t)((int64_t)top + divisor / 2 + (int64_t)(i / 2 % 3) - 1 + low);
    }
    tier->kernels->fold[dtype][SPOTNIK_MEAN](out, &in);
    for (uint32_t i = 0; i < 4096; i++) {
        int64_t x = dtype == SPOTNIK_I32 ? (int32_t)a[i] : (int64_t)a[i],
                y = dtype == SPOTNIK_I32 ? (int32_t)b[i] : (int64_t)b[i];
        if (out[i] != (uint32_t)mean_of(x + weight * y, divisor))
            fail_msg("%s, type %d: (%lld + %u * %lld) / %lld is not %u", tier->name, (int)dtype,
                     (long long)x, weight, (long long)y, (long long)divisor, out[i]);
    }
}

TEST(ties_of_words_are_found)
{
    static const uint32_t weights[] = { 131070,  131071,  131072,  524287, 524288,
                                        1048574, 1048575, 1048576, 2000003 };

    for (size_t t = 0; t < spotnik_reduce_tier_count; t++) {
        if (!spotnik_reduce_tiers[t].is_supported())
            continue;
        for (uint32_t weight = 1; weight < 1000; weight++) {
            check_word_means(&spotnik_reduce_tiers[t], SPOTNIK_I32, weight);
            check_word_means(&spotnik_reduce_tiers[t], SPOTNIK_U32, weight);
        }
        for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++) {
            check_word_means(&spotnik_reduce_tiers[t], SPOTNIK_I32, weights[w]);
            check_word_means(&spotnik_reduce_tiers[t], SPOTNIK_U32, weights[w]);
        }
    }
}

/* All numbers of 16 bits beside the one that makes a tie, or nearly; divisors to beyond where a
 * kernel without division ends. */
TEST(ties_of_shorts_are_found)
{
    static uint16_t a[65536], b[65536];

    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (uint32_t divisor = 2; divisor <= 40 && spotnik_reduce_tiers[t].is_supported();
             divisor++) {
            for (uint32_t i = 0; i < 65536; i++) {
                b[i] = (uint16_t)i;
                a[i] = (uint16_t)(i + divisor / 2 + i % 3 - 1);
            }
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_I16, a, b, 1, divisor - 1);
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_U16, a, b, 1, divisor - 1);
            check_means(&spotnik_reduce_tiers[t], SPOTNIK_U16, a, b, 6, 6 * (divisor - 1));
        }
}

static const enum spotnik_dtype integers[] = { SPOTNIK_I8,  SPOTNIK_U8,  SPOTNIK_I16, SPOTNIK_U16,
                                               SPOTNIK_I32, SPOTNIK_U32, SPOTNIK_I64, SPOTNIK_U64 };
enum { MANY = 256, MANY_COUNT = 331 };

static void check_equal_weights(const struct spotnik_reduce_tier *tier, enum spotnik_dtype dtype,
                                size_t inputs, uint64_t weight, struct spotnik_prng *prng)
{
    static uint8_t many[MANY][MANY_COUNT * 8], out[MANY_COUNT * 8], expected[MANY_COUNT * 8];
    struct spotnik_reduce_input input[MANY];
    const size_t size = spotnik_dtype_bytes((uint64_t)dtype);
    const double divisor = (double)(weight * inputs);
    const struct spotnik_reduce_inputs in = { .input = input,
                                              .inputs = inputs,
                                              .bytes = MANY_COUNT * size,
                                              .divisor64 = divisor,
                                              .divisor32 = (float)divisor };

    for (size_t i = 0; i < inputs; i++) {
        oracle_fill(many[i], MANY_COUNT, dtype, prng);
        /* all inputs: the greatest without sign, the greatest and the least with one */
        memset(many[i], 0xff, size);
        memset(many[i] + size, 0xff, size);
        many[i][2 * size - 1] = 0x7f;
        memset(many[i] + 2 * size, 0, size);
        many[i][3 * size - 1] = 0x80;
        input[i] = (struct spotnik_reduce_input){ .data = many[i],
                                                  .weight64 = (double)weight,
                                                  .weight32 = (float)weight };
    }
    tier->kernels->fold[dtype][SPOTNIK_MEAN](out, &in);
    for (size_t i = 0; i < MANY_COUNT; i++) {
        oracle_fold(expected, &in, i, dtype, SPOTNIK_MEAN);
        if (memcmp(out + i * size, expected + i * size, size) != 0)
            fail_msg("%s, type %d, %zu inputs of weight %u: element %zu", tier->name, (int)dtype,
                     inputs, (unsigned)weight, i);
    }
}

/* Powers of two have a kernel of their own, up to a number of inputs that differs between types;
 * their neighbours do not. */
TEST(means_of_equal_weights_are_exact)
{
    static const size_t inputs[] = { 2, 3, 4, 5, 8, 9, 16, 17, 32, 64, 128, 129, 256 };
    static const uint64_t weights[] = { 1, 3, 4096, UINT64_C(1) << 40 };
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 3);
    for (size_t t = 0; t < spotnik_reduce_tier_count; t++)
        for (size_t d = 0;
             d < sizeof integers / sizeof integers[0] && spotnik_reduce_tiers[t].is_supported();
             d++)
            for (size_t i = 0; i < sizeof inputs / sizeof inputs[0]; i++)
                for (size_t w = 0; w < sizeof weights / sizeof weights[0]; w++)
                    check_equal_weights(&spotnik_reduce_tiers[t], integers[d], inputs[i],
                                        weights[w], &prng);
}

int main(void)
{
    return tests_run(memory_make, memory_free);
}
