/* SPDX-License-Identifier: Apache-2.0 */
/* 16 bytes at a time, on 64-bit ARM. Streaming stores are plain ones: compilers offer no portable way to the
 * paired non-temporal store, and it does not skip the read of a line in general. */
#ifndef SPOTNIK_REDUCE_LANES_NEON_H
#define SPOTNIK_REDUCE_LANES_NEON_H

#include <arm_neon.h>
#include <stdint.h>
#include <string.h>

#define VECTOR_BYTES 16
#include "reduce/lanes_vector.h"

#define UNROLL(held) 4
#define STREAM(to, value) memcpy((to), &(value), sizeof(value))
#define STREAM_END() ((void)0)

/* The upper 16 bits of products of 16 bits. */
static inline u16_v multiply_high(u16_v a, uint16_t b)
{
    uint32x4_t low = vmull_n_u16(vget_low_u16((uint16x8_t)a), b), high = vmull_high_n_u16((uint16x8_t)a, b);

    return (u16_v)vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}
#define MULTIPLY_HIGH(a, b) multiply_high(a, b)

static inline f32_v f16_unpack(half_v half)
{
    return (f32_v)vcvt_f32_f16((float16x4_t)half);
}

static inline half_v f16_pack(f32_v value)
{
    return (half_v)vcvt_f16_f32((float32x4_t)value);
}

static inline f32_v bf16_unpack(half_v half)
{
    return (f32_v)vshll_n_u16((uint16x4_t)half, 16);
}

/* As in lanes_scalar.h. */
static inline half_v bf16_pack(f32_v value)
{
    u32_v bits = (u32_v)value;

    return (half_v)vshrn_n_u32((uint32x4_t)(bits + 0x7fff + (bits >> 16 & 1)), 16);
}

#endif
