/* SPDX-License-Identifier: Apache-2.0 */
/* 16 bytes at a time, on 64-bit ARM. Streaming stores are plain ones. Compilers offer no portable
 * way to the paired non-temporal store, and it does not skip the read of a line in general. */
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
    uint32x4_t low = vmull_n_u16(vget_low_u16((uint16x8_t)a), b),
               high = vmull_high_n_u16((uint16x8_t)a, b);

    return (u16_v)vuzp2q_u16(vreinterpretq_u16_u32(low), vreinterpretq_u16_u32(high));
}
#define MULTIPLY_HIGH(a, b) multiply_high(a, b)

/* The lower 32 bits of lanes of 64, below these upper ones. */
#define UNDER(upper, lower) (((lower) & 0xffffffff) | (uint64_t)(upper) << 32)

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

static inline i32_v greater(i32_v a, i32_v b)
{
    return (i32_v)vmaxq_s32((int32x4_t)a, (int32x4_t)b);
}

static inline int32_t greatest_lane(i32_v a)
{
    return vmaxvq_s32((int32x4_t)a);
}

/* Bytes with sign in memory as F32, and back: whole numbers from -127 to 127 when rounded to
 * nearest, ties to even. */
static inline f32_v f32_of_bytes(const void *from)
{
    uint32_t bytes;

    memcpy(&bytes, from, sizeof bytes);
    int16x8_t words = vmovl_s8(vcreate_s8(bytes));
    return (f32_v)vcvtq_f32_s32(vmovl_s16(vget_low_s16(words)));
}

static inline void bytes_of_f32(void *to, f32_v a, f32_v b, f32_v c, f32_v d)
{
    int16x8_t low = vcombine_s16(vmovn_s32(vcvtnq_s32_f32((float32x4_t)a)),
                                 vmovn_s32(vcvtnq_s32_f32((float32x4_t)b)));
    int16x8_t high = vcombine_s16(vmovn_s32(vcvtnq_s32_f32((float32x4_t)c)),
                                  vmovn_s32(vcvtnq_s32_f32((float32x4_t)d)));

    vst1q_s8(to, vcombine_s8(vmovn_s16(low), vmovn_s16(high)));
}

#endif
