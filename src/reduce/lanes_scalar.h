/* SPDX-License-Identifier: Apache-2.0 */
/* The tier that runs everywhere: one element at a time, in C alone; half precision by its
 * definition. */
#ifndef SPOTNIK_REDUCE_LANES_SCALAR_H
#define SPOTNIK_REDUCE_LANES_SCALAR_H

#include <stdint.h>
#include <string.h>

typedef float f32_v;
typedef double f64_v;
typedef int8_t i8_v;
typedef int16_t i16_v;
typedef int32_t i32_v;
typedef int64_t i64_v;
typedef uint8_t u8_v;
typedef uint16_t u16_v;
typedef uint32_t u32_v;
typedef uint64_t u64_v;
typedef uint16_t half_v;
typedef int8_t i8_part;
typedef uint8_t u8_part;
typedef int16_t i16_part;
typedef int8_t i8_few;
typedef int16_t i16_few;
typedef int32_t i32_few;
typedef uint8_t u8_few;
typedef uint16_t u16_few;
typedef uint32_t u32_few;

#define UNROLL(held) 8
#define SELECT(condition, yes, no) ((condition) ? (yes) : (no))
/* Unsigned before it is multiplied: U16 would become int, and overflow. */
#define MULTIPLY(a, b) ((a) * (__typeof__((a) + 1u))(b))
#define CONVERTED(value, type) ((type)(value))
#define BITS_OF_F64(value) bits_of_f64(value)
#define BITS_OF_F32(value) bits_of(value)
#define BYTE_MEAN(name, part, few) SMALL_MEAN(name, 1, part, few, 65536, BYTES_F32, F32_BYTES)
/* One element has no even and odd places. */
#define WORD_MEAN(name, few)                                                                       \
    static inline few name##_snapped(double mean)                                                  \
    {                                                                                              \
        return WHOLE_SNAPPED(mean, few);                                                           \
    }                                                                                              \
                                                                                                   \
    FOLD(name##_small, 4, few, double, WIDEN_F64, name##_snapped, 64, FIRST_WEIGHTED,              \
         ADD_WEIGHTED, SNAPPED_F64)                                                                \
    NARROW_MEAN(name##_any, 4, few, WIDEN_F64)                                                     \
    EITHER_MEAN(name##_mean, name##_small, SNAPPED64, name##_any_mean)
#define SHORT_MEAN(name, part, few) SMALL_MEAN(name, 2, part, few, 256, SHORTS_F32, F32_SHORTS)
#define BRAIN_FLOATS FLOATS(bf16, 2, half_v, f32_v, bf16_unpack, bf16_pack, 32)
#define STREAM(to, value) memcpy((to), &(value), sizeof(value))
#define STREAM_END() ((void)0)

static inline uint32_t bits_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float float_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline int64_t bits_of_f64(double value)
{
    int64_t bits;

    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* 5 bits of exponent with bias 15, 10 of fraction. The fraction of denormals counts units of
 * 2^-24. */
static inline float f16_unpack(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31,
             fraction = half & 1023;

    if (exponent == 0) {
        float tiny = (float)fraction * 0x1p-24f;
        return sign ? -tiny : tiny;
    }
    if (exponent == 31)
        return float_of(sign | 0x7f800000u | fraction << 13);
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

/* To nearest, ties to even. Adding 2^-14 * 2^13 to a denormal's magnitude leaves its fraction,
 * rounded, in the low bits. For the others the carry of rounding goes up into the exponent, to
 * infinity if need be. */
static inline uint16_t f16_pack(float value)
{
    uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return (uint16_t)(sign | 0x7e00 | (magnitude >> 13 & 0x3ff));
    if (magnitude >= 0x477ff000) /* 65520 and above */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* below 2^-14 */
        return (uint16_t)(sign | (bits_of(float_of(magnitude) + 0.5f) - bits_of(0.5f)));
    return (uint16_t)(sign | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

static inline float bf16_unpack(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

/* The upper half of an F32, to nearest, ties to even. Not for NaN, whose payload might carry into
 * the sign. */
static inline uint16_t bf16_pack(float value)
{
    uint32_t bits = bits_of(value);

    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline float f32_of_bytes(const void *from)
{
    return (float)*(const int8_t *)from;
}

#endif
