/* SPDX-License-Identifier: Apache-2.0 */
/* What the tiers with vectors share: types of VECTOR_BYTES, which the tier's own header has set,
 * and choosing between lanes. Arithmetic on them is the compilers' vector extension: `a + b` adds
 * lane by lane. */
#ifndef SPOTNIK_REDUCE_LANES_VECTOR_H
#define SPOTNIK_REDUCE_LANES_VECTOR_H

#define VECTOR(name, type, size) typedef type name __attribute__((vector_size(size)))
VECTOR(f32_v, float, VECTOR_BYTES);
VECTOR(f64_v, double, VECTOR_BYTES);
VECTOR(i8_v, int8_t, VECTOR_BYTES);
VECTOR(i16_v, int16_t, VECTOR_BYTES);
VECTOR(i32_v, int32_t, VECTOR_BYTES);
VECTOR(i64_v, int64_t, VECTOR_BYTES);
VECTOR(u8_v, uint8_t, VECTOR_BYTES);
VECTOR(u16_v, uint16_t, VECTOR_BYTES);
VECTOR(u32_v, uint32_t, VECTOR_BYTES);
VECTOR(u64_v, uint64_t, VECTOR_BYTES);
VECTOR(half_v, uint16_t, VECTOR_BYTES / 2); /* F16 or BF16 in memory, as many as f32_v has lanes */
/* As many integers as f32_v has lanes; half_v stands for those of 16 bits without sign. */
VECTOR(i8_part, int8_t, VECTOR_BYTES / 4);
VECTOR(u8_part, uint8_t, VECTOR_BYTES / 4);
VECTOR(i16_part, int16_t, VECTOR_BYTES / 2);
/* As many integers as f64_v has lanes. */
VECTOR(i8_few, int8_t, VECTOR_BYTES / 8);
VECTOR(i16_few, int16_t, VECTOR_BYTES / 4);
VECTOR(i32_few, int32_t, VECTOR_BYTES / 2);
VECTOR(u8_few, uint8_t, VECTOR_BYTES / 8);
VECTOR(u16_few, uint16_t, VECTOR_BYTES / 4);
VECTOR(u32_few, uint32_t, VECTOR_BYTES / 2);

/* A comparison gives all ones or all zeros in every lane. */
#define SELECT(condition, yes, no)                                                                 \
    __extension__({                                                                                \
        __typeof__(condition) lanes_ = (condition);                                                \
        (__typeof__(yes))((lanes_ & (__typeof__(lanes_))(yes))                                     \
                          | (~lanes_ & (__typeof__(lanes_))(no)));                                 \
    })
#define MULTIPLY(a, b) ((a) * (b))
#define CONVERTED(value, type) __builtin_convertvector(value, type)
#define BITS_OF_F64(value) ((i64_v)(value))
#define BITS_OF_F32(value) ((i32_v)(value))

#endif
