/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN of 2^k integers that weigh the same, as of 2, 4 or 8 members, for tiers with vectors. It
 * needs no products, divisions or wider lanes. Decides no bit: the result is the exact mean,
 * rounded to nearest (ties to even), as in integer_mean.h. With x = 2^k h + l, l = 0 ... 2^k - 1,
 * the sum is 2^k H + L. So its mean is H + (L + 2^(k-1) - 1 + odd) / 2^k, rounded down. There `odd`
 * is 1 if H + L / 2^k, rounded down, is odd: then a tie goes up. H is within the type; L and what
 * is added to it are less than 2^2k: 2^k may be up to 16 in lanes of 8 bits without sign, 128 in
 * others. */
#ifndef SPOTNIK_REDUCE_POWER_MEAN_H
#define SPOTNIK_REDUCE_POWER_MEAN_H

#include "reduce/reduced.h"

static bool power_make(struct spotnik_reduce_divisor16 *ret, const struct spotnik_reduce_inputs *in,
                       size_t inputs_max)
{
    double weight = in->input[0].weight64;
    uint16_t shift = 0;

    if (in->inputs < 2 || in->inputs > inputs_max || (in->inputs & (in->inputs - 1)) != 0
        || !(weight >= 1) || !(in->divisor64 < REDUCED_DIVISOR)
        || in->divisor64 != weight * (double)in->inputs)
        return false;
    for (size_t i = 1; i < in->inputs; i++)
        if (in->input[i].weight64 != weight)
            return false;
    while (2u << shift <= in->inputs)
        shift++;
    *ret = (struct spotnik_reduce_divisor16){ .divisor = (uint16_t)in->inputs, .shift = shift };
    return true;
}

/* Lanes of 8 bits cannot be shifted: pairs of them are, and what came from the neighbour is
 * cleared. */
#define SHIFTED(x, shift) ((x) >> (__typeof__((x)[0]))(shift))
#define BYTES_SHIFTED(x, shift) ((u8_v)((u16_v)(x) >> (shift)) & (uint8_t)(0xff >> (shift)))
/* A signed byte and 128 more, and back, as in byte_mean.h. */
#define i8_BIASED(x) ((x) ^ 0x80)
#define u8_BIASED(x) (x)

/* Not the weight of an input, but what holds for all: `in` is the argument of the fold. */
#define i8_POWER_FIRST(x, w) i8_power_first(x, in->divisor16)
#define i8_POWER_NEXT(sum, x, w) i8_power_next(sum, x, in->divisor16)
#define u8_POWER_FIRST(x, w) u8_power_first(x, in->divisor16)
#define u8_POWER_NEXT(sum, x, w) u8_power_next(sum, x, in->divisor16)
#define i16_POWER_FIRST(x, w) i16_power_first(x, in->divisor16)
#define i16_POWER_NEXT(sum, x, w) i16_power_next(sum, x, in->divisor16)
#define u16_POWER_FIRST(x, w) u16_power_first(x, in->divisor16)
#define u16_POWER_NEXT(sum, x, w) u16_power_next(sum, x, in->divisor16)
#define i32_POWER_FIRST(x, w) i32_power_first(x, in->divisor16)
#define i32_POWER_NEXT(sum, x, w) i32_power_next(sum, x, in->divisor16)
#define u32_POWER_FIRST(x, w) u32_power_first(x, in->divisor16)
#define u32_POWER_NEXT(sum, x, w) u32_power_next(sum, x, in->divisor16)

#define POWER_MEAN(name, element, held, biased, shifted, inputs_max)                               \
    struct name##_parts {                                                                          \
        held high, low;                                                                            \
    };                                                                                             \
                                                                                                   \
    static inline struct name##_parts name##_power_first(held x,                                   \
                                                         struct spotnik_reduce_divisor16 by)       \
    {                                                                                              \
        return (struct name##_parts){ shifted(x, by.shift),                                        \
                                      x & (__typeof__(x[0]))(by.divisor - 1) };                    \
    }                                                                                              \
                                                                                                   \
    static inline struct name##_parts name##_power_next(struct name##_parts sum, held x,           \
                                                        struct spotnik_reduce_divisor16 by)        \
    {                                                                                              \
        struct name##_parts more = name##_power_first(x, by);                                      \
        return (struct name##_parts){ sum.high + more.high, sum.low + more.low };                  \
    }                                                                                              \
                                                                                                   \
    static inline held name##_power_last(struct name##_parts sum,                                  \
                                         struct spotnik_reduce_divisor16 by)                       \
    {                                                                                              \
        held odd = (sum.high + shifted(sum.low, by.shift)) & 1;                                    \
        return sum.high                                                                            \
               + shifted(sum.low + odd + (__typeof__(odd[0]))(by.divisor / 2 - 1), by.shift);      \
    }                                                                                              \
                                                                                                   \
    FOLD(name##_power, element, held, struct name##_parts, biased, biased, 16, name##_POWER_FIRST, \
         name##_POWER_NEXT, name##_power_last)                                                     \
                                                                                                   \
    static void name##_mean(void *out, const struct spotnik_reduce_inputs *in)                     \
    {                                                                                              \
        struct spotnik_reduce_inputs power = *in;                                                  \
                                                                                                   \
        if (power_make(&power.divisor16, in, inputs_max))                                          \
            name##_power(out, &power);                                                             \
        else                                                                                       \
            name##_weighted_mean(out, in);                                                         \
    }

#endif
