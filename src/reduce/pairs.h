/* SPDX-License-Identifier: Apache-2.0 */
/* Elements at even and odd places are computed apart, for tiers with vectors. A vector of narrow
 * elements is seen as one of elements twice as wide. It is two vectors after a mask and a shift,
 * and one again after another. Nothing is shuffled, and compilers need no instructions for
 * conversions that some tiers lack. Decides no bit: each element is computed as by integer_mean.h
 * and kernels.c. */
#ifndef SPOTNIK_REDUCE_PAIRS_H
#define SPOTNIK_REDUCE_PAIRS_H

#include "reduce/integer_mean.h"
#include "reduce/power_mean.h"

struct f32_pair {
    f32_v even, odd;
};

struct f64_pair {
    f64_v even, odd;
};

/* The operations of kernels.c, twice. */
#define PAIR_FIRST(name, type, weight_type, operation)                                             \
    static inline struct type name(struct type x, weight_type w)                                   \
    {                                                                                              \
        (void)w;                                                                                   \
        return (struct type){ operation(x.even, w), operation(x.odd, w) };                         \
    }
#define PAIR_NEXT(name, type, weight_type, operation)                                              \
    static inline struct type name(struct type sum, struct type x, weight_type w)                  \
    {                                                                                              \
        (void)w;                                                                                   \
        return (struct type){ operation(sum.even, x.even, w), operation(sum.odd, x.odd, w) };      \
    }

PAIR_FIRST(f32_pair_weighted, f32_pair, float, FIRST_WEIGHTED)
PAIR_NEXT(f32_pair_add_weighted, f32_pair, float, ADD_WEIGHTED)
PAIR_FIRST(f64_pair_weighted, f64_pair, double, FIRST_WEIGHTED)
PAIR_NEXT(f64_pair_add_weighted, f64_pair, double, ADD_WEIGHTED)
PAIR_FIRST(f32_pair_snapped, f32_pair, float, SNAPPED_F32)
PAIR_FIRST(f64_pair_snapped, f64_pair, double, SNAPPED_F64)

/* Below 2^52 a whole number is the fraction of 2^52 and as many; below 2^23 in F32. Signed ones
 * with 2^31 more, or 2^15. */
static inline struct f64_pair u32_split_less(u32_v x, double less)
{
    u64_v both = (u64_v)x;

    return (struct f64_pair){ (f64_v)((both & 0xffffffff) | 0x4330000000000000) - less,
                              (f64_v)(both >> 32 | 0x4330000000000000) - less };
}

static inline struct f32_pair u16_split_less(u16_v x, float less)
{
    u32_v both = (u32_v)x;

    return (struct f32_pair){ (f32_v)((both & 0xffff) | 0x4b000000) - less,
                              (f32_v)(both >> 16 | 0x4b000000) - less };
}

#define u32_SPLIT(x) u32_split_less(x, 0x1p52)
#define i32_SPLIT(x) u32_split_less((u32_v)(x) ^ 0x80000000, 0x1p52 + 0x1p31)
#define u16_SPLIT(x) u16_split_less(x, 0x1p23f)
#define i16_SPLIT(x) u16_split_less((u16_v)(x) ^ 0x8000, 0x1p23f + 0x1p15f)

/* The second rounding of integer_mean.h; two's complement is in the lowest bits. */
static inline u32_v words_joined(struct f64_pair mean)
{
    u64_v even = (u64_v)(mean.even + (0x1.8p52 - SNAP64)),
          odd = (u64_v)(mean.odd + (0x1.8p52 - SNAP64));

    return (u32_v)((even & 0xffffffff) | odd << 32);
}

static inline u16_v shorts_joined(struct f32_pair mean)
{
    u32_v even = (u32_v)(mean.even + (0x1.8p23f - SNAP32)),
          odd = (u32_v)(mean.odd + (0x1.8p23f - SNAP32));

    return (u16_v)((even & 0xffff) | odd << 16);
}

#define WORD_MEAN(name, few)                                                                       \
    FOLD(name##_small, 4, u32_v, struct f64_pair, name##_SPLIT, words_joined, 64,                  \
         f64_pair_weighted, f64_pair_add_weighted, f64_pair_snapped)                               \
    NARROW_MEAN(name##_any, 4, few, WIDEN_F64)                                                     \
    EITHER_MEAN(name##_weighted_mean, name##_small, SNAPPED64, name##_any_mean)                    \
    POWER_MEAN(name, 4, name##_v, SAME, SHIFTED, 128)

#define SHORT_MEAN(name, part, few)                                                                \
    FOLD(name##_small, 2, u16_v, struct f32_pair, name##_SPLIT, shorts_joined, 32,                 \
         f32_pair_weighted, f32_pair_add_weighted, f32_pair_snapped)                               \
    SMALL_MEAN(name##_other, 2, part, few, 256, SHORTS_F32, F32_SHORTS)                            \
    EITHER_MEAN(name##_weighted_mean, name##_small, SNAPPED32, name##_other_mean)                  \
    POWER_MEAN(name, 2, name##_v, SAME, SHIFTED, 128)

/* BF16: an F32 is the element and 16 bits of zeros. */
static inline struct f32_pair bf16_split(u16_v x)
{
    u32_v both = (u32_v)x;

    return (struct f32_pair){ (f32_v)(both << 16), (f32_v)(both & 0xffff0000) };
}

/* As bf16_pack in lanes_scalar.h. */
static inline u16_v bf16_joined(struct f32_pair value)
{
    u32_v even = (u32_v)value.even, odd = (u32_v)value.odd;

    even = even + 0x7fff + (even >> 16 & 1);
    odd = odd + 0x7fff + (odd >> 16 & 1);
    return (u16_v)(even >> 16 | (odd & 0xffff0000));
}

PAIR_FIRST(f32_pair_first, f32_pair, float, FIRST)
PAIR_NEXT(f32_pair_add, f32_pair, float, ADD)
PAIR_NEXT(f32_pair_times, f32_pair, float, TIMES)
PAIR_NEXT(f32_pair_least, f32_pair, float, LEAST_FLOAT)
PAIR_NEXT(f32_pair_most, f32_pair, float, MOST_FLOAT)
PAIR_FIRST(f32_pair_last, f32_pair, float, LAST_F32)
PAIR_FIRST(f32_pair_mean, f32_pair, float, mean_f32)

#define BRAIN_FOLD(op, first, next, last)                                                          \
    FOLD(bf16_##op, 2, u16_v, struct f32_pair, bf16_split, bf16_joined, 32, first, next, last)
#define BRAIN_FLOATS                                                                               \
    BRAIN_FOLD(sum, f32_pair_first, f32_pair_add, f32_pair_last)                                   \
    BRAIN_FOLD(mean, f32_pair_weighted, f32_pair_add_weighted, f32_pair_mean)                      \
    BRAIN_FOLD(min, f32_pair_first, f32_pair_least, f32_pair_last)                                 \
    BRAIN_FOLD(max, f32_pair_first, f32_pair_most, f32_pair_last)                                  \
    BRAIN_FOLD(product, f32_pair_first, f32_pair_times, f32_pair_last)

#endif
