/* SPDX-License-Identifier: Apache-2.0 */
/* CONVERT makes the two casts between F32 and a half type, a vector at a time. Rounding and NaN are those of the
 * folds. */
#ifndef SPOTNIK_REDUCE_CONVERT_H
#define SPOTNIK_REDUCE_CONVERT_H

#include <string.h>

enum { LANES = sizeof(f32_v) / sizeof(float) };

/* A whole vector, whose size is known when this is compiled, or the rest of an array. */
static inline __attribute__((always_inline)) void move(void *to, const void *from, size_t count,
                                                       size_t element)
{
    if (count == LANES)
        memcpy(to, from, LANES * element);
    else
        memcpy(to, from, count * element);
}

#define CONVERT(name, unpack, pack)                                                                          \
    static void name##_widen(float *out, const void *in, size_t count)                                       \
    {                                                                                                        \
        half_v half = { 0 };                                                                                 \
                                                                                                             \
        for (size_t i = 0; i < count; i += LANES) {                                                          \
            size_t n = count - i < LANES ? count - i : LANES;                                                \
            move(&half, (const uint8_t *)in + 2 * i, n, 2);                                                  \
            f32_v wide = unpack(half);                                                                       \
            wide = LAST_F32(wide, 1);                                                                        \
            move((uint8_t *)out + 4 * i, &wide, n, 4);                                                       \
        }                                                                                                    \
    }                                                                                                        \
                                                                                                             \
    static void name##_narrow(void *out, const float *in, size_t count)                                      \
    {                                                                                                        \
        f32_v wide = { 0 };                                                                                  \
                                                                                                             \
        for (size_t i = 0; i < count; i += LANES) {                                                          \
            size_t n = count - i < LANES ? count - i : LANES;                                                \
            move(&wide, (const uint8_t *)in + 4 * i, n, 4);                                                  \
            half_v half = pack(LAST_F32(wide, 1));                                                           \
            move((uint8_t *)out + 2 * i, &half, n, 2);                                                       \
        }                                                                                                    \
    }

#endif
