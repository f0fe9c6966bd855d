/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one tier: plain loops that the compiler turns into the vector instructions it is allowed to
 * use. Compiled once per tier with SPOTNIK_REDUCE_TABLE naming the table it defines. Types of alignment 1
 * make unaligned pointers legal; INDEPENDENT tells the compiler what reduce.h asks of the caller, that arrays
 * are the same or do not overlap, without which it would fall back to one element at a time for out ==
 * received. */
#include "reduce/tiers.h"

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* may_alias: the arrays are raw bytes to everyone but us. */
#define UNALIGNED(name, type) typedef type name __attribute__((aligned(1), may_alias))
UNALIGNED(f32, float);
UNALIGNED(f64, double);
UNALIGNED(i32, int32_t);
UNALIGNED(i64, int64_t);
UNALIGNED(u8, uint8_t);
UNALIGNED(u32, uint32_t);
UNALIGNED(u64, uint64_t);

#define COMBINE(name, type, element)                                                                         \
    static void name(void *out_bytes, const void *received_bytes, const void *input_bytes, size_t count,     \
                     uint64_t weight)                                                                        \
    {                                                                                                        \
        type *out = out_bytes;                                                                               \
        const type *received = received_bytes;                                                               \
        const type *input = input_bytes;                                                                     \
                                                                                                             \
        (void)weight;                                                                                        \
        INDEPENDENT                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                                 \
            type r = received[i], x = input[i];                                                              \
            out[i] = (element);                                                                              \
        }                                                                                                    \
    }

/* Not `r < x ? r : x`: that would lose a NaN in r. Without short cut, so that it stays free of branches. */
#define FLOATS(type)                                                                                         \
    COMBINE(type##_sum, type, r + x)                                                                         \
    COMBINE(type##_min, type, ((r < x) | (r != r)) ? r : x)                                                  \
    COMBINE(type##_max, type, ((r > x) | (r != r)) ? r : x)                                                  \
                                                                                                             \
    static void type##_mean(void *out_bytes, const void *received_bytes, const void *input_bytes,            \
                            size_t count, uint64_t weight)                                                   \
    {                                                                                                        \
        type *out = out_bytes;                                                                               \
        const type *received = received_bytes;                                                               \
        const type *input = input_bytes;                                                                     \
        type w = (type)weight;                                                                               \
                                                                                                             \
        INDEPENDENT                                                                                          \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = received[i] + w * input[i];                                                             \
    }                                                                                                        \
                                                                                                             \
    static void type##_scale(void *out_bytes, const void *input_bytes, size_t count, uint64_t weight)        \
    {                                                                                                        \
        type *out = out_bytes;                                                                               \
        const type *input = input_bytes;                                                                     \
        type w = (type)weight;                                                                               \
                                                                                                             \
        INDEPENDENT                                                                                          \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = w * input[i];                                                                           \
    }                                                                                                        \
                                                                                                             \
    static void type##_divide(void *out_bytes, size_t count, uint64_t total)                                 \
    {                                                                                                        \
        type *out = out_bytes;                                                                               \
        type t = (type)total;                                                                                \
                                                                                                             \
        for (size_t i = 0; i < count; i++)                                                                   \
            out[i] = out[i] / t;                                                                             \
    }

FLOATS(f32)
FLOATS(f64)

/* Unsigned, because signed overflow is undefined in C; the bits are those of two's complement. */
COMBINE(i32_sum, u32, r + x)
COMBINE(i64_sum, u64, r + x)
COMBINE(i32_min, i32, r < x ? r : x)
COMBINE(i32_max, i32, r > x ? r : x)
COMBINE(i64_min, i64, r < x ? r : x)
COMBINE(i64_max, i64, r > x ? r : x)
COMBINE(u8_min, u8, r < x ? r : x)
COMBINE(u8_max, u8, r > x ? r : x)

const struct spotnik_reduce_kernels SPOTNIK_REDUCE_TABLE = {
    .combine = {
        [SPOTNIK_F32] = { [SPOTNIK_SUM] = f32_sum, [SPOTNIK_MEAN] = f32_mean, [SPOTNIK_MIN] = f32_min,
                          [SPOTNIK_MAX] = f32_max },
        [SPOTNIK_F64] = { [SPOTNIK_SUM] = f64_sum, [SPOTNIK_MEAN] = f64_mean, [SPOTNIK_MIN] = f64_min,
                          [SPOTNIK_MAX] = f64_max },
        [SPOTNIK_I32] = { [SPOTNIK_SUM] = i32_sum, [SPOTNIK_MIN] = i32_min, [SPOTNIK_MAX] = i32_max },
        [SPOTNIK_I64] = { [SPOTNIK_SUM] = i64_sum, [SPOTNIK_MIN] = i64_min, [SPOTNIK_MAX] = i64_max },
        [SPOTNIK_U8] = { [SPOTNIK_MIN] = u8_min, [SPOTNIK_MAX] = u8_max },
    },
    .scale = { [SPOTNIK_F32] = f32_scale, [SPOTNIK_F64] = f64_scale },
    .divide = { [SPOTNIK_F32] = f32_divide, [SPOTNIK_F64] = f64_divide },
};
