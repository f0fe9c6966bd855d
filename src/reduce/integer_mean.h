/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN of integers up to 32 bits: computed in F64, rounded to nearest (ties to even); 64 bits stand
 * in wide_mean.h. With usual weights there are faster ways to the same numbers. 8 and 16 bits in
 * F32; small sums of weights without a division; bytes in whole numbers (byte_mean.h); 2^k equal
 * weights without products (power_mean.h). */
#ifndef SPOTNIK_REDUCE_INTEGER_MEAN_H
#define SPOTNIK_REDUCE_INTEGER_MEAN_H

#include "reduce/reduced.h"

#include <string.h>

#define WIDEN_F64(x) CONVERTED(x, f64_v)
#define WIDEN_TWICE(x) CONVERTED(CONVERTED(x, i32_few), f64_v)

/* Adding 1.5 * 2^52 leaves the whole number, rounded, in the lowest bits. It is within the type.
 * The mean of up to 1024 numbers of 32 bits is less than 2^-9 away from what exact arithmetic
 * gives, which is between them. */
#define WHOLE(mean, type) CONVERTED(BITS_OF_F64((mean) + 0x1.8p52), type)

/* Without a division: the sum times 1/D, rounded to a multiple of 2^-j by adding 1.5 * 2^(52-j),
 * then to a whole number. With b bits the product is off by e = 2^(b-52) at most (F32: 2^(b-23)). A
 * half is a multiple of 2^-j, and other values are 1/(2D) away from it. So the first rounding makes
 * a half of what should be one if e < 2^-(j+1). It makes one of nothing else if also e + 2^-(j+1) <
 * 1/(2D). 32 bits: j = 18, D <= 2^17. 16 bits in F32: j = 5, D <= 16. The second sum takes away
 * what the first had added, and adds what leaves the whole number in the lowest bits. Its constant
 * has few bits, so it is exact. */
#define SNAP64 0x1.8p34
#define SNAP32 0x1.8p18f
enum { SNAPPED64 = 1 << 17, SNAPPED32 = 16 };
#define SNAPPED_F64(sum, d) ((sum) * (d) + SNAP64)
#define SNAPPED_F32(sum, d) ((sum) * (d) + SNAP32)
#define WHOLE_SNAPPED(mean, type) CONVERTED(BITS_OF_F64((mean) + (0x1.8p52 - SNAP64)), type)

static bool reduced_invert(struct reduced *reduced, uint32_t divisor_max)
{
    reduced->in.divisor64 = 1 / (double)reduced->divisor;
    reduced->in.divisor32 = 1 / (float)reduced->divisor;
    return reduced->divisor > 0 && reduced->divisor <= divisor_max;
}

/* By the name of a fold for small sums of weights, and one for any. */
#define EITHER_MEAN(name, small, most, any)                                                        \
    static void name(void *out, const struct spotnik_reduce_inputs *in)                            \
    {                                                                                              \
        struct reduced reduced;                                                                    \
                                                                                                   \
        reduced_make(&reduced, in);                                                                \
        if (reduced_invert(&reduced, most))                                                        \
            small(out, &reduced.in);                                                               \
        else                                                                                       \
            any(out, in);                                                                          \
    }

#define NARROW_MEAN(name, element, held, widen)                                                    \
    static inline held name##_whole(f64_v mean)                                                    \
    {                                                                                              \
        return WHOLE(mean, held);                                                                  \
    }                                                                                              \
                                                                                                   \
    FOLD(name##_mean, element, held, f64_v, widen, name##_whole, 64, FIRST_WEIGHTED, ADD_WEIGHTED, \
         DIVIDED)
#define DIVIDED(sum, d) ((sum) / (d))

/* The same numbers from F32. With b bits and weights that add up to D < 2^(24 - b), products and
 * sums are whole numbers below 2^24, hence exact. A quotient that is no half is at least 1/(2D)
 * away from the next half. The rounding of a division of that size moves it by at most 2^(b - 25) <
 * 1/(2D); halves are exact. So rounding to a whole number finds what it finds in F64, where the
 * same holds: the mean of exact arithmetic, rounded once. */
#define SHORTS_F32(x) CONVERTED(CONVERTED(x, i32_v), f32_v)
#define F32_SHORTS(mean, type) CONVERTED(BITS_OF_F32((mean) + 0x1.8p23f), type)
/* Bytes by way of shorts: compilers take them one by one otherwise. */
#define BYTES_F32(x) SHORTS_F32(CONVERTED(x, i16_part))
#define F32_BYTES(mean, type) CONVERTED(F32_SHORTS(mean, i16_part), type)

static inline bool is_exact_in_f32(const struct spotnik_reduce_inputs *in, double below)
{
    double weights = 0;

    for (size_t i = 0; i < in->inputs; i++)
        weights += in->input[i].weight64;
    return weights <= in->divisor64 && in->divisor64 < below;
}

#define SMALL_MEAN(name, element, held, few, below, widen, whole)                                  \
    static inline held name##_whole32(f32_v mean)                                                  \
    {                                                                                              \
        return whole(mean, held);                                                                  \
    }                                                                                              \
                                                                                                   \
    FOLD(name##_mean32, element, held, f32_v, widen, name##_whole32, 32, FIRST_WEIGHTED,           \
         ADD_WEIGHTED, DIVIDED)                                                                    \
    NARROW_MEAN(name##_any, element, few, WIDEN_TWICE)                                             \
                                                                                                   \
    static void name##_mean(void *out, const struct spotnik_reduce_inputs *in)                     \
    {                                                                                              \
        if (is_exact_in_f32(in, below))                                                            \
            name##_mean32(out, in);                                                                \
        else                                                                                       \
            name##_any_mean(out, in);                                                              \
    }

#endif
