/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels of one tier. Compiled once per tier, with SPOTNIK_REDUCE_LANES naming its lanes_*.h
 * and SPOTNIK_REDUCE_TABLE the table it defines. What an operation is, bit for bit, stands here and
 * only here. */
#include "reduce/tiers.h"

#include SPOTNIK_REDUCE_LANES

#include "reduce/fold.h"
#include "reduce/integer_mean.h"

#define SAME(x) (x)

#define FIRST(x, w) (x)
#define FIRST_WEIGHTED(x, w) ((x) * (w))
#define ADD(sum, x, w) ((sum) + (x))
#define ADD_WEIGHTED(sum, x, w) ((sum) + (x) * (w))
#define TIMES(sum, x, w) MULTIPLY(sum, x)
#define LEAST(sum, x, w) SELECT((sum) < (x), (sum), (x))
#define MOST(sum, x, w) SELECT((sum) > (x), (sum), (x))
/* Not `sum < x ? sum : x`: that would lose a NaN in sum. */
#define LEAST_FLOAT(sum, x, w) SELECT(((sum) < (x)) | ((sum) != (sum)), (sum), (x))
#define MOST_FLOAT(sum, x, w) SELECT(((sum) > (x)) | ((sum) != (sum)), (sum), (x))
#define LAST(sum, d) (sum)

/* The one NaN of reduce.h, whatever the processor or the compiler's order of operands makes of
 * payloads. */
#define NUMBER(type, sum, d) SELECT((sum) != (sum), (type){ 0 } + (type##_nan), (sum))
#define f32_v_nan __builtin_nanf("")
#define f64_v_nan __builtin_nan("")
#define LAST_F32(sum, d) NUMBER(f32_v, sum, d)
#define LAST_F64(sum, d) NUMBER(f64_v, sum, d)

/* Division costs as much as the memory; 1 is common and would change nothing. */
static inline f32_v mean_f32(f32_v sum, float divisor)
{
    sum = divisor != 1 ? sum / divisor : sum;
    return LAST_F32(sum, divisor);
}

static inline f64_v mean_f64(f64_v sum, double divisor)
{
    sum = divisor != 1 ? sum / divisor : sum;
    return LAST_F64(sum, divisor);
}

#define FLOATS(name, element, held, work, unpack, pack, bits)                                      \
    FOLD(name##_sum, element, held, work, unpack, pack, bits, FIRST, ADD, LAST_F##bits)            \
    FOLD(name##_mean, element, held, work, unpack, pack, bits, FIRST_WEIGHTED, ADD_WEIGHTED,       \
         mean_f##bits)                                                                             \
    FOLD(name##_min, element, held, work, unpack, pack, bits, FIRST, LEAST_FLOAT, LAST_F##bits)    \
    FOLD(name##_max, element, held, work, unpack, pack, bits, FIRST, MOST_FLOAT, LAST_F##bits)     \
    FOLD(name##_product, element, held, work, unpack, pack, bits, FIRST, TIMES, LAST_F##bits)

FLOATS(f32, 4, f32_v, f32_v, SAME, SAME, 32)
FLOATS(f64, 8, f64_v, f64_v, SAME, SAME, 64)
FLOATS(f16, 2, half_v, f32_v, f16_unpack, f16_pack, 32)
#ifdef VECTOR_BYTES
#include "reduce/byte_mean.h"
#include "reduce/pairs.h"
#endif
BRAIN_FLOATS

#include "reduce/convert.h"
#include "reduce/quantise.h"

#include "reduce/blocks.h"

CONVERT(f16, f16_unpack, f16_pack)
CONVERT(bf16, bf16_unpack, bf16_pack)

#include "reduce/squares.h" /* stands on the conversions */

/* Sums and products of signed integers are those of unsigned ones: their overflow is defined in C,
 * and the bits are those of two's complement. */
#define WRAPPING(name, element, vector)                                                            \
    FOLD(name##_sum, element, vector, vector, SAME, SAME, 32, FIRST, ADD, LAST)                    \
    FOLD(name##_product, element, vector, vector, SAME, SAME, 32, FIRST, TIMES, LAST)
#define ORDERED(name, element, vector)                                                             \
    FOLD(name##_min, element, vector, vector, SAME, SAME, 32, FIRST, LEAST, LAST)                  \
    FOLD(name##_max, element, vector, vector, SAME, SAME, 32, FIRST, MOST, LAST)

WRAPPING(u8, 1, u8_v)
WRAPPING(u16, 2, u16_v)
WRAPPING(u32, 4, u32_v)
WRAPPING(u64, 8, u64_v)
ORDERED(i8, 1, i8_v)
ORDERED(i16, 2, i16_v)
ORDERED(i32, 4, i32_v)
ORDERED(i64, 8, i64_v)
ORDERED(u8, 1, u8_v)
ORDERED(u16, 2, u16_v)
ORDERED(u32, 4, u32_v)
ORDERED(u64, 8, u64_v)
BYTE_MEAN(i8, i8_part, i8_few)
SHORT_MEAN(i16, i16_part, i16_few)
WORD_MEAN(i32, i32_few)
BYTE_MEAN(u8, u8_part, u8_few)
SHORT_MEAN(u16, half_v, u16_few)
WORD_MEAN(u32, u32_few)
#include "reduce/wide_mean.h"

#define ROW(name, wrapping)                                                                        \
    { [SPOTNIK_SUM] = wrapping##_sum,                                                              \
      [SPOTNIK_MEAN] = name##_mean,                                                                \
      [SPOTNIK_MIN] = name##_min,                                                                  \
      [SPOTNIK_MAX] = name##_max,                                                                  \
      [SPOTNIK_PRODUCT] = wrapping##_product }

const struct spotnik_reduce_kernels SPOTNIK_REDUCE_TABLE = {
    .fold = {
        [SPOTNIK_F32] = ROW(f32, f32),
        [SPOTNIK_F64] = ROW(f64, f64),
        [SPOTNIK_F16] = ROW(f16, f16),
        [SPOTNIK_BF16] = ROW(bf16, bf16),
        [SPOTNIK_I8] = ROW(i8, u8),
        [SPOTNIK_I16] = ROW(i16, u16),
        [SPOTNIK_I32] = ROW(i32, u32),
        [SPOTNIK_I64] = ROW(i64, u64),
        [SPOTNIK_U8] = ROW(u8, u8),
        [SPOTNIK_U16] = ROW(u16, u16),
        [SPOTNIK_U32] = ROW(u32, u32),
        [SPOTNIK_U64] = ROW(u64, u64),
        [SPOTNIK_Q8] = ROW(q8, q8),
    },
    .widen = { [SPOTNIK_F16] = f16_widen, [SPOTNIK_BF16] = bf16_widen },
    .narrow = { [SPOTNIK_F16] = f16_narrow, [SPOTNIK_BF16] = bf16_narrow },
    .norm2 = { [SPOTNIK_F32] = f32_norm,
               [SPOTNIK_F64] = f64_norm,
               [SPOTNIK_F16] = f16_norm,
               [SPOTNIK_BF16] = bf16_norm },
    .quantise = quantise,
    .dequantise = dequantise,
};
