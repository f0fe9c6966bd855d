/* SPDX-License-Identifier: Apache-2.0 */
/* MEAN of bytes in whole numbers of 16 bits, for tiers with vectors: weights that add up to D = 2
 * ... 256. Bytes at even and odd places are summed apart, so that nothing is shuffled; the division
 * is a multiplication. Decides no bit: the result is the exact mean, rounded to nearest (ties to
 * even), as in integer_mean.h. */
#ifndef SPOTNIK_REDUCE_BYTE_MEAN_H
#define SPOTNIK_REDUCE_BYTE_MEAN_H

#include "reduce/power_mean.h"

struct byte_pair {
    u16_v even, odd;
};

static inline struct byte_pair u8_split(u8_v bytes)
{
    u16_v both = (u16_v)bytes;

    return (struct byte_pair){ both & 0xff, both >> 8 };
}

static inline u8_v u8_joined(struct byte_pair mean)
{
    return (u8_v)(mean.even | mean.odd << 8);
}

/* A signed byte plus 128. Its mean is 128 more, too, since the weights add up to D. 128 is even, so
 * ties stay ties to even. */
static inline struct byte_pair i8_split(i8_v bytes)
{
    return u8_split((u8_v)((u16_v)bytes ^ 0x8080));
}

static inline i8_v i8_joined(struct byte_pair mean)
{
    return (i8_v)((u16_v)u8_joined(mean) ^ 0x8080);
}

static inline struct byte_pair byte_first(struct byte_pair x, uint16_t weight)
{
    return (struct byte_pair){ x.even * weight, x.odd * weight };
}

static inline struct byte_pair byte_next(struct byte_pair sum, struct byte_pair x, uint16_t weight)
{
    return (struct byte_pair){ sum.even + x.even * weight, sum.odd + x.odd * weight };
}

/* Half of D more, divided, is rounded to nearest. What had no rest was a tie if D is even, and goes
 * down if it came out odd. */
static inline u16_v byte_quotient(u16_v sum, struct spotnik_reduce_divisor16 by)
{
    u16_v n = sum + by.half, quotient = MULTIPLY_HIGH(n + by.more, by.multiplier) >> by.shift;
    u16_v tie = (u16_v)(quotient * by.divisor == n) & by.ties;

    return quotient - (tie & quotient);
}

static inline struct byte_pair byte_last(struct byte_pair sum, struct spotnik_reduce_divisor16 by)
{
    return (struct byte_pair){ byte_quotient(sum.even, by), byte_quotient(sum.odd, by) };
}

/* With 2^k < D <= 2^(k+1) and p = 16 + k, the multiplier is 2^p / D. It is rounded up or down,
 * whichever is off by e <= 1/2:
 *   up:   n m / 2^p = n / D + n e / 2^p, right if n e D < 2^p;
 *   down: (n + 1) m / 2^p = (n + 1) / D - (n + 1) e / 2^p, right if (n + 1) e D <= 2^p.
 * n is at most 255 D + D / 2. So (n + 1) D / 2 <= (255.5 D + 1) 2^k, which is below 2^16 2^k up to
 * D = 256. */
static bool divisor16_make(struct spotnik_reduce_divisor16 *ret, uint32_t divisor)
{
    uint32_t shift = 0, low, rest;

    if (divisor < 2 || divisor > 256)
        return false;
    while (2u << shift < divisor)
        shift++;
    low = (65536u << shift) / divisor;
    rest = (65536u << shift) % divisor;
    bool is_up = rest > 0 && divisor - rest <= rest;
    *ret = (struct spotnik_reduce_divisor16){ .divisor = (uint16_t)divisor,
                                              .half = (uint16_t)(divisor / 2),
                                              .more = rest > 0 && !is_up,
                                              .multiplier = (uint16_t)(low + is_up),
                                              .shift = (uint16_t)shift,
                                              .ties = divisor % 2 == 0 };
    return true;
}

#define BYTE_MEAN(name, part, few)                                                                 \
    FOLD(name##_bytes, 1, name##_v, struct byte_pair, name##_split, name##_joined, 16, byte_first, \
         byte_next, byte_last)                                                                     \
    SMALL_MEAN(name##_other, 1, part, few, 65536, BYTES_F32, F32_BYTES)                            \
                                                                                                   \
    static void name##_weighted_mean(void *out, const struct spotnik_reduce_inputs *in)            \
    {                                                                                              \
        struct reduced reduced;                                                                    \
                                                                                                   \
        reduced_make(&reduced, in);                                                                \
        if (divisor16_make(&reduced.in.divisor16, reduced.divisor))                                \
            name##_bytes(out, &reduced.in);                                                        \
        else                                                                                       \
            name##_other_mean(out, reduced.divisor ? &reduced.in : in);                            \
    }                                                                                              \
    POWER_MEAN(name, 1, u8_v, name##_BIASED, BYTES_SHIFTED, 16)

#endif
