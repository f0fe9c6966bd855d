/* SPDX-License-Identifier: Apache-2.0 */
/* See oracle.h. */
#include "oracle.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct half_format {
    int exponent_min, exponent_max, fraction_bits;
    uint16_t nan;
};

static const struct half_format f16 = { -14, 15, 10, 0x7e00 }, bf16 = { -126, 127, 7, 0x7fc0 };

double oracle_of_half(uint16_t half, enum spotnik_dtype dtype)
{
    const struct half_format *format = dtype == SPOTNIK_F16 ? &f16 : &bf16;
    int fraction = half % (1 << format->fraction_bits);
    int exponent = (half % 32768) >> format->fraction_bits;
    double magnitude = ldexp(fraction, format->exponent_min - format->fraction_bits);

    if (exponent > format->exponent_max - format->exponent_min + 1)
        magnitude = fraction ? (double)NAN : (double)INFINITY;
    else if (exponent > 0)
        magnitude = ldexp(fraction + (1 << format->fraction_bits),
                          exponent - 1 + format->exponent_min - format->fraction_bits);
    return half >= 32768 ? -magnitude : magnitude;
}

uint16_t oracle_half_of(double value, enum spotnik_dtype dtype)
{
    const struct half_format *format = dtype == SPOTNIK_F16 ? &f16 : &bf16;
    int one = 1 << format->fraction_bits, exponent, sign = signbit(value) ? 32768 : 0;
    int infinity = (format->exponent_max - format->exponent_min + 2) * one;
    double magnitude = fabs(value), units;

    if (isnan(value))
        return format->nan;
    if (isinf(value))
        return (uint16_t)(sign + infinity);
    exponent = magnitude == 0 ? format->exponent_min : ilogb(magnitude);
    if (exponent < format->exponent_min)
        exponent = format->exponent_min;
    units = nearbyint(ldexp(magnitude, format->fraction_bits - exponent));
    /* From one power of two to the next there are `one` units: the numbers of all halves count
     * through. */
    double number = units + (double)one * (exponent - format->exponent_min);
    return (uint16_t)(sign + (number < infinity ? (int)number : infinity));
}

/* Kept from the compiler's vectors and foldings. */
#define FLOAT_ORACLE(type)                                                                         \
    static                                                                                         \
        __attribute__((noinline)) type next_##type(type sum, type x, type w, enum spotnik_op op)   \
    {                                                                                              \
        if (op == SPOTNIK_SUM)                                                                     \
            return sum + x;                                                                        \
        if (op == SPOTNIK_PRODUCT)                                                                 \
            return sum * x;                                                                        \
        if (op == SPOTNIK_MEAN)                                                                    \
            return sum + w * x;                                                                    \
        if (isnan(sum) || isnan(x))                                                                \
            return (type)NAN;                                                                      \
        if (sum == x)                                                                              \
            return x;                                                                              \
        return (op == SPOTNIK_MIN) == (sum < x) ? sum : x;                                         \
    }                                                                                              \
                                                                                                   \
    static __attribute__((noinline)) type last_##type(type sum, type d, enum spotnik_op op)        \
    {                                                                                              \
        sum = op == SPOTNIK_MEAN ? sum / d : sum;                                                  \
        return isnan(sum) ? (type)NAN : sum;                                                       \
    }

FLOAT_ORACLE(float)
FLOAT_ORACLE(double)

static const uint8_t *element(const struct spotnik_reduce_inputs *in, size_t input, size_t index,
                              size_t size)
{
    return (const uint8_t *)in->input[input].data + index * size;
}

static float float_at(const uint8_t *at, enum spotnik_dtype dtype)
{
    float value;
    uint16_t half;

    if (dtype != SPOTNIK_F32) {
        memcpy(&half, at, sizeof half);
        return (float)oracle_of_half(half, dtype);
    }
    memcpy(&value, at, sizeof value);
    return value;
}

static void fold_float(uint8_t *out, const struct spotnik_reduce_inputs *in, size_t index,
                       enum spotnik_dtype dtype, enum spotnik_op op)
{
    size_t size = spotnik_dtype_bytes(dtype);
    float sum = float_at(element(in, 0, index, size), dtype);

    if (op == SPOTNIK_MEAN)
        sum = in->input[0].weight32 * sum;
    for (size_t i = 1; i < in->inputs; i++)
        sum = next_float(sum, float_at(element(in, i, index, size), dtype), in->input[i].weight32,
                         op);
    sum = last_float(sum, in->divisor32, op);
    uint16_t half = oracle_half_of((double)sum, dtype);

    memcpy(out + index * size, dtype == SPOTNIK_F32 ? (void *)&sum : (void *)&half, size);
}

static void fold_double(uint8_t *out, const struct spotnik_reduce_inputs *in, size_t index,
                        enum spotnik_op op)
{
    double sum, x;

    memcpy(&sum, element(in, 0, index, sizeof sum), sizeof sum);
    if (op == SPOTNIK_MEAN)
        sum = in->input[0].weight64 * sum;
    for (size_t i = 1; i < in->inputs; i++) {
        memcpy(&x, element(in, i, index, sizeof x), sizeof x);
        sum = next_double(sum, x, in->input[i].weight64, op);
    }
    sum = last_double(sum, in->divisor64, op);
    memcpy(out + index * sizeof sum, &sum, sizeof sum);
}

static bool is_signed(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_I8 || dtype == SPOTNIK_I16 || dtype == SPOTNIK_I32
           || dtype == SPOTNIK_I64;
}

/* Every integer type fits. */
static __int128 integer_at(const uint8_t *at, enum spotnik_dtype dtype)
{
    uint64_t bits = 0;
    size_t size = spotnik_dtype_bytes(dtype);
    __int128 value;

    for (size_t i = 0; i < size; i++)
        bits |= (uint64_t)at[i] << 8 * i;
    value = bits;
    return is_signed(dtype) && value >> (8 * size - 1) ? value - ((__int128)1 << 8 * size) : value;
}

static __int128 integer_mean(const struct spotnik_reduce_inputs *in, size_t index,
                             enum spotnik_dtype dtype)
{
    size_t size = spotnik_dtype_bytes(dtype);
    __int128 high = ((__int128)1 << (8 * size - is_signed(dtype))) - 1,
             low = is_signed(dtype) ? -high - 1 : 0;
    volatile double sum = 0;

    for (size_t i = 0; i < in->inputs; i++) {
        volatile double part =
            in->input[i].weight64 * (double)integer_at(element(in, i, index, size), dtype);
        sum += part;
    }
    __int128 mean = (__int128)rint(sum / in->divisor64);

    return mean < low ? low : mean > high ? high : mean;
}

static void fold_integer(uint8_t *out, const struct spotnik_reduce_inputs *in, size_t index,
                         enum spotnik_dtype dtype, enum spotnik_op op)
{
    size_t size = spotnik_dtype_bytes(dtype);
    __int128 result = integer_at(element(in, 0, index, size), dtype);

    for (size_t i = 1; i < in->inputs; i++) {
        __int128 x = integer_at(element(in, i, index, size), dtype);
        if (op == SPOTNIK_SUM)
            result += x;
        else if (op == SPOTNIK_PRODUCT)
            result = (__int128)((unsigned __int128)result * (unsigned __int128)x);
        else if ((op == SPOTNIK_MIN) == (x < result))
            result = x;
    }
    if (op == SPOTNIK_MEAN)
        result = integer_mean(in, index, dtype);
    for (size_t i = 0; i < size; i++)
        out[index * size + i] = (uint8_t)(result >> 8 * i);
}

void oracle_fold(uint8_t *out, const struct spotnik_reduce_inputs *in, size_t index,
                 enum spotnik_dtype dtype, enum spotnik_op op)
{
    switch (dtype) {
    case SPOTNIK_F32:
    case SPOTNIK_F16:
    case SPOTNIK_BF16:
        fold_float(out, in, index, dtype, op);
        return;
    case SPOTNIK_F64:
        fold_double(out, in, index, op);
        return;
    default:
        fold_integer(out, in, index, dtype, op);
    }
}

static uint64_t awkward_bits(enum spotnik_dtype dtype, uint64_t pick)
{
    /* Zero, least and greatest denormal, least normal, 1, its neighbour, greatest, infinity; NaN:
     * the one, another payload, signalling. */
    static const uint64_t wide[] = { 0,
                                     1,
                                     0xfffffffffffff,
                                     0x10000000000000,
                                     0x3ff0000000000000,
                                     0x3ff0000000000001,
                                     0x7fefffffffffffff,
                                     0x7ff0000000000000,
                                     0x7ff8000000000000,
                                     0x7ff8000000123456,
                                     0x7ff0000000000001 };
    static const uint64_t single[] = { 0,          1,          0x7fffff,   0x800000,
                                       0x3f800000, 0x3f800001, 0x7f7fffff, 0x7f800000,
                                       0x7fc00000, 0x7fc12345, 0x7f800001 };
    static const uint64_t half[] = { 0,      1,      0x3ff,  0x400,  0x3c00, 0x3c01,
                                     0x7bff, 0x7c00, 0x7e00, 0x7e55, 0x7c01 };
    static const uint64_t brain[] = { 0,      1,      0x7f,   0x80,   0x3f80, 0x3f81,
                                      0x7f7f, 0x7f80, 0x7fc0, 0x7fd5, 0x7f81 };
    static const uint64_t whole[] = {
        0, 1, INT64_MAX, 127, 128, 255, 256, 0x7fff, 0x7fffffff, 0x80000000, 0x8000000000000000
    };
    const uint64_t *of = dtype == SPOTNIK_F64    ? wide
                         : dtype == SPOTNIK_F32  ? single
                         : dtype == SPOTNIK_F16  ? half
                         : dtype == SPOTNIK_BF16 ? brain
                                                 : whole;
    uint64_t bits = of[pick % 11];

    if (of == whole)
        return pick >= 11 ? -bits : bits;
    return pick >= 11 ? bits | UINT64_C(1) << (8 * spotnik_dtype_bytes(dtype) - 1) : bits;
}

static uint64_t ordinary_bits(enum spotnik_dtype dtype, uint64_t random)
{
    double value = (double)(int64_t)random * 0x1p-56;
    float single = (float)value;
    uint64_t bits = 0;

    if (dtype == SPOTNIK_F64)
        memcpy(&bits, &value, 8);
    else if (dtype == SPOTNIK_F32)
        memcpy(&bits, &single, 4);
    else if (dtype == SPOTNIK_F16 || dtype == SPOTNIK_BF16)
        bits = oracle_half_of(value, dtype);
    else
        bits = (random & 255) - (is_signed(dtype) ? 128 : 0);
    return bits;
}

void oracle_fill(void *out, size_t count, enum spotnik_dtype dtype, struct spotnik_prng *prng)
{
    size_t size = spotnik_dtype_bytes(dtype);

    for (size_t i = 0; i < count; i++) {
        uint64_t random = spotnik_prng_next(prng), kind = spotnik_prng_below(prng, 4);
        uint64_t bits = kind == 0   ? awkward_bits(dtype, random % 22)
                        : kind == 1 ? random
                                    : ordinary_bits(dtype, random);

        memcpy((uint8_t *)out + i * size, &bits, size);
    }
}
