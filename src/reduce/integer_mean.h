/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN of integers: sums in F64, a block at a time, rounded to nearest (ties to even) and kept within the type.
 * Plain loops, from which the compiler makes what vectors it can. */
#ifndef SPOTNIK_REDUCE_INTEGER_MEAN_H
#define SPOTNIK_REDUCE_INTEGER_MEAN_H

#include "reduce/tiers.h"

#include <math.h>
#include <string.h>

enum { MEAN_BLOCK = 256 };

/* Above 2^52 there are no fractions; below, adding 2^52 rounds them away. */
static inline double nearest(double value)
{
    double magnitude = fabs(value), whole = magnitude + 0x1p52 - 0x1p52;

    return copysign(magnitude < 0x1p52 ? whole : magnitude, value);
}

static inline double between(double value, double low, double high)
{
    value = value < low ? low : value;
    return value > high ? high : value;
}

#define TO_NARROW(type, low, high, value) ((type)(int32_t)between((value), (low), (high)))
#define TO_U32(type, low, high, value) ((type)(int64_t)between((value), (low), (high)))
/* `high` is 2^63 or 2^64: a double, but one more than the type holds. */
#define TO_WIDE(type, low, high, value)                                                                      \
    ((value) >= (high) ? (type)(((uint64_t)((high) / 2) - 1) * 2 + 1)                                        \
                       : (type)((value) < (low) ? (low) : (value)))

#define INTEGER_MEAN(name, type, to, low, high)                                                              \
    static void name##_mean_add(double *sum, const uint8_t *from, size_t count, double weight)               \
    {                                                                                                        \
        for (size_t i = 0; i < count; i++) {                                                                 \
            type x;                                                                                          \
            memcpy(&x, from + i * sizeof x, sizeof x);                                                       \
            sum[i] = sum[i] + weight * (double)x;                                                            \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    static void name##_mean_save(uint8_t *out, const double *sum, size_t count, double divisor)              \
    {                                                                                                        \
        for (size_t i = 0; i < count; i++) {                                                                 \
            double mean = nearest(sum[i] / divisor);                                                         \
            type x = to(type, low, high, mean);                                                              \
            memcpy(out + i * sizeof x, &x, sizeof x);                                                        \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    static void name##_mean(void *out, const struct spotnik_reduce_inputs *in)                               \
    {                                                                                                        \
        double sum[MEAN_BLOCK];                                                                              \
                                                                                                             \
        for (size_t at = 0, bytes; at < in->bytes; at += bytes) {                                            \
            bytes = in->bytes - at < MEAN_BLOCK * sizeof(type) ? in->bytes - at : MEAN_BLOCK * sizeof(type); \
            memset(sum, 0, sizeof sum);                                                                      \
            for (size_t i = 0; i < in->inputs; i++)                                                          \
                name##_mean_add(sum, (const uint8_t *)in->input[i].data + at, bytes / sizeof(type),          \
                                in->input[i].weight64);                                                      \
            name##_mean_save((uint8_t *)out + at, sum, bytes / sizeof(type), in->divisor64);                 \
        }                                                                                                    \
    }

#endif
