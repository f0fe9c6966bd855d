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
