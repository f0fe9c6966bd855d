/* SPDX-License-Identifier: Apache-2.0 */
/* CONVERT makes the two casts between F32 and a half type, a vector at a time. Rounding and NaN are
 * those of the folds. */
#ifndef SPOTNIK_REDUCE_CONVERT_H
#define SPOTNIK_REDUCE_CONVERT_H

#include <string.h>

enum { LANES = sizeof(f32_v) / sizeof(float) };

#define CONVERT(name, unpack, pack)                                                                \
    static inline void name##_widen_some(float *out, const void *in, size_t at, size_t count)      \
    {                                                                                              \
        half_v half = { 0 };                                                                       \
                                                                                                   \
        memcpy(&half, (const uint8_t *)in + 2 * at, 2 * count);                                    \
        f32_v wide = unpack(half);                                                                 \
        wide = LAST_F32(wide, 1);                                                                  \
        memcpy((uint8_t *)out + 4 * at, &wide, 4 * count);                                         \
    }                                                                                              \
                                                                                                   \
    static inline void name##_narrow_some(void *out, const float *in, size_t at, size_t count)     \
    {                                                                                              \
        f32_v wide = { 0 };                                                                        \
                                                                                                   \
        memcpy(&wide, (const uint8_t *)in + 4 * at, 4 * count);                                    \
        half_v half = pack(LAST_F32(wide, 1));                                                     \
        memcpy((uint8_t *)out + 2 * at, &half, 2 * count);                                         \
    }                                                                                              \
                                                                                                   \
    static void name##_widen(float *out, const void *in, size_t count)                             \
    {                                                                                              \
        size_t at = 0;                                                                             \
                                                                                                   \
        for (; count - at >= LANES; at += LANES)                                                   \
            name##_widen_some(out, in, at, LANES);                                                 \
        if (at < count)                                                                            \
            name##_widen_some(out, in, at, count - at);                                            \
    }                                                                                              \
                                                                                                   \
    static void name##_narrow(void *out, const float *in, size_t count)                            \
    {                                                                                              \
        size_t at = 0;                                                                             \
                                                                                                   \
        for (; count - at >= 2 * LANES; at += 2 * LANES) {                                         \
            name##_narrow_some(out, in, at, LANES);                                                \
            name##_narrow_some(out, in, at + LANES, LANES);                                        \
        }                                                                                          \
        for (; count - at >= LANES; at += LANES)                                                   \
            name##_narrow_some(out, in, at, LANES);                                                \
        if (at < count)                                                                            \
            name##_narrow_some(out, in, at, count - at);                                           \
    }

#endif
