/* SPDX-License-Identifier: Apache-2.0 */
/* The numbers of numbers.h. Exact ones are small enough that no sum of all members needs more bits
 * than its type has. */
#include "numbers.h"

#include <math.h>
#include <string.h>

#include "reduce/compress.h"

uint64_t numbers_mix(uint64_t x)
{
    x ^= x >> 30;
    x *= UINT64_C(0xbf58476d1ce4e5b9);
    x ^= x >> 27;
    x *= UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t hash_at(const struct numbers *numbers, uint32_t who, uint64_t at)
{
    uint64_t member = numbers->kind == NUMBERS_EQUAL ? 0 : who + 1;
    uint64_t x =
        numbers->key + member * UINT64_C(0x9e3779b97f4a7c15) + at * UINT64_C(0xd1342543de82ef95);
    return numbers_mix(x);
}

/* ---- halves ---- */

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

float numbers_from_bf16(uint16_t half)
{
    return float_of((uint32_t)half << 16);
}

uint16_t numbers_to_bf16(float value)
{
    uint32_t bits = bits_of(value);
    return isnan(value) ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float numbers_from_f16(uint16_t half)
{
    uint32_t exponent = half >> 10 & 31, fraction = half & 1023;
    float magnitude = exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                      : exponent > 0 ? ldexpf((float)(1024 + fraction), (int)exponent - 25)
                                     : ldexpf((float)fraction, -24);
    return half >> 15 ? -magnitude : magnitude;
}

/* The step between neighbours is 2^(e - 10) for values from 2^e on, and 2^-24 at least; rint()
 * rounds to even. */
uint16_t numbers_to_f16(float value)
{
    uint16_t sign = (uint16_t)(bits_of(value) >> 16 & 0x8000);
    double magnitude = fabs((double)value);
    int exponent;
    if (isnan(value))
        return 0x7e00;
    if (magnitude >= 65520)
        return sign | 0x7c00;
    if (magnitude < 0x1p-14)
        return sign | (uint16_t)rint(magnitude * 0x1p24);
    (void)frexp(magnitude, &exponent);
    uint32_t steps = (uint32_t)rint(ldexp(magnitude, 11 - exponent)); /* 1024 to 2048 */
    return sign | (uint16_t)(((uint32_t)(exponent + 14) << 10) + steps - 1024);
}

/* ---- floats ---- */

/* -most to most, of the upper half of the hash: a division would be half of the oracle's time. */
static int64_t span(uint64_t hash, int64_t most)
{
    return (int64_t)((hash >> 32) * (uint64_t)(2 * most + 1) >> 32) - most;
}

static int fraction_bits(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_F64 ? 52 : dtype == SPOTNIK_F16 ? 10 : dtype == SPOTNIK_BF16 ? 7 : 23;
}

/* The greatest magnitude of which `members` together, weighted up to 4 times, leave an integer of
 * `bits` bits. */
static int64_t most_of(const struct numbers *numbers)
{
    uint32_t shares = numbers->members * (numbers->op == SPOTNIK_MEAN ? 4 : 1);
    int64_t most = (INT64_C(1) << fraction_bits(numbers->dtype)) / shares;
    return most > 1000000 ? 1000000 : most > 0 ? most : 1;
}

/* A power of two, seldom another than 1: products of many members stay within F16, whatever the
 * order. */
static double factor(uint64_t hash)
{
    double magnitude = hash % 64 == 0 ? 2 : hash % 64 == 1 ? 0.5 : 1;
    return hash & 64 ? -magnitude : magnitude;
}

static double rounding(const struct numbers *numbers, uint64_t hash)
{
    double unit = (double)(hash >> 11) * 0x1p-53; /* 0 to 1 */
    if (numbers->op == SPOTNIK_PRODUCT)
        return 0.75 + unit / 2;
    double magnitude = ldexp(unit, (int)(hash & 7) - 4);
    return hash & 8 ? -magnitude : magnitude;
}

/* Seldom, so that most results of many members are none of them. Without a fraction of its own that
 * a NaN could lose on its way. */
static double special(const struct numbers *numbers, uint64_t hash)
{
    static const double least[] = { [SPOTNIK_F32] = 0x1p-149,
                                    [SPOTNIK_F64] = 0x1p-1074,
                                    [SPOTNIK_F16] = 0x1p-24,
                                    [SPOTNIK_BF16] = 0x1p-133 };
    static const double greatest[] = { [SPOTNIK_F32] = 0x1.fffffep127,
                                       [SPOTNIK_F64] = 0x1.fffffffffffffp1023,
                                       [SPOTNIK_F16] = 65504,
                                       [SPOTNIK_BF16] = 0x1.fep127 };
    double sign = hash & 1024 ? -1 : 1;
    switch (hash % 512 / 4) {
    case 0:
        return sign * NAN;
    case 1:
        return sign * INFINITY;
    case 2:
    case 3:
        return sign * 0.0;
    case 4:
        return sign * least[numbers->dtype] * (double)(1 + hash / 2048 % 64);
    case 5:
        return sign * greatest[numbers->dtype];
    default:
        return rounding(numbers, hash);
    }
}

static double number_of(const struct numbers *numbers, int64_t most, uint64_t hash)
{
    if (numbers->kind == NUMBERS_SPECIAL)
        return special(numbers, hash);
    if (numbers->kind == NUMBERS_ROUNDING)
        return rounding(numbers, hash);
    if (numbers->op == SPOTNIK_PRODUCT)
        return numbers->kind == NUMBERS_EQUAL ? 1 : factor(hash);
    return (double)span(hash, most);
}

void numbers_make_wide(const struct numbers *numbers, uint32_t who, uint64_t from, size_t count,
                       float *out)
{
    int64_t most = most_of(numbers);
    for (size_t i = 0; i < count; i++)
        out[i] = (float)number_of(numbers, most, hash_at(numbers, who, from + i));
}

#define MAKE(type, expression)                                                                     \
    for (size_t i = 0; i < count; i++) {                                                           \
        uint64_t hash = hash_at(numbers, who, from + i);                                           \
        type made = (type)(expression);                                                            \
        memcpy((uint8_t *)out + i * sizeof made, &made, sizeof made);                              \
    }

/* ---- Q8: blocks of one pattern, each member's times a factor of its own: sums are that pattern
 * again, and nothing is lost ---- */

static int pattern_at(const struct numbers *numbers, uint64_t at)
{
    uint64_t hash = numbers_mix(numbers->key + at);
    bool ordered = numbers->op == SPOTNIK_MIN || numbers->op == SPOTNIK_MAX;
    if (numbers->op == SPOTNIK_PRODUCT)
        return hash & 1 ? 127 : -127;
    if (at % SPOTNIK_QUANT_BLOCK == 0)
        return 127;
    return ordered ? (int)(hash % 128) : (int)(hash % 255) - 127;
}

static int block_factor(const struct numbers *numbers, uint32_t who, uint64_t at)
{
    uint64_t block = at / SPOTNIK_QUANT_BLOCK;
    uint32_t whose = numbers->op == SPOTNIK_MEAN ? 0 : who + 1;
    return 1
           + (int)(numbers_mix(numbers->key ^ (block * 4096 + whose + UINT64_C(0x5bd1e995) * block))
                   % 8);
}

static void make_q8(const struct numbers *numbers, uint32_t who, uint64_t from, size_t count,
                    float *out)
{
    for (size_t i = 0; i < count; i++) {
        int times = numbers->op == SPOTNIK_PRODUCT ? 1 : block_factor(numbers, who, from + i);
        out[i] = (float)(pattern_at(numbers, from + i) * times);
    }
}

static int joined(const struct numbers *numbers, const uint32_t *who, uint32_t members, uint64_t at)
{
    int factor = block_factor(numbers, who[0], at);
    for (uint32_t i = 1; i < members && numbers->op != SPOTNIK_MEAN; i++) {
        int next = block_factor(numbers, who[i], at);
        bool takes = numbers->op == SPOTNIK_MIN ? next < factor : next > factor;
        factor = numbers->op == SPOTNIK_SUM ? factor + next : takes ? next : factor;
    }
    return factor;
}

void numbers_q8_expect(const struct numbers *numbers, const uint32_t *who, uint32_t members,
                       uint64_t from, size_t count, float *out)
{
    for (size_t i = 0; i < count; i++) {
        int pattern = pattern_at(numbers, from + i);
        if (numbers->op == SPOTNIK_PRODUCT)
            out[i] = powf((float)pattern, (float)members);
        else
            out[i] = (float)(pattern * joined(numbers, who, members, from + i));
    }
}

/* ---- all types ---- */

/* Means of 64 bits are computed in F64: what goes in must be exact there. */
static uint64_t whole(const struct numbers *numbers, uint64_t hash, bool is_signed)
{
    if (numbers->op != SPOTNIK_MEAN)
        return hash;
    int64_t small = (int64_t)(hash >> 24);
    return (uint64_t)(is_signed && (hash & 1) ? -small : small);
}

void numbers_make(const struct numbers *numbers, uint32_t who, uint64_t from, size_t count,
                  void *out)
{
    int64_t most = most_of(numbers);
    switch (numbers->dtype) {
    case SPOTNIK_F32:
        MAKE(float, number_of(numbers, most, hash))
        break;
    case SPOTNIK_F64:
        MAKE(double, number_of(numbers, most, hash))
        break;
    case SPOTNIK_F16:
        MAKE(uint16_t, numbers_to_f16((float)number_of(numbers, most, hash)))
        break;
    case SPOTNIK_BF16:
        MAKE(uint16_t, numbers_to_bf16((float)number_of(numbers, most, hash)))
        break;
    case SPOTNIK_I64:
        MAKE(uint64_t, whole(numbers, hash, true))
        break;
    case SPOTNIK_U64:
        MAKE(uint64_t, whole(numbers, hash, false))
        break;
    case SPOTNIK_I32:
    case SPOTNIK_U32:
        MAKE(uint32_t, hash >> 7)
        break;
    case SPOTNIK_I16:
    case SPOTNIK_U16:
        MAKE(uint16_t, hash >> 7)
        break;
    case SPOTNIK_I8:
    case SPOTNIK_U8:
        MAKE(uint8_t, hash >> 7)
        break;
    case SPOTNIK_Q8:
        make_q8(numbers, who, from, count, out);
        break;
    }
}
