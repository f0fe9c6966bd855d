/* SPDX-License-Identifier: Apache-2.0 */
/* Sum of squares, in one order on every tier. Element i is added to lane i mod 32 as an F64, and
 * lanes are added in pairs at the end. Plain loops, from which the compiler makes vectors. The sums
 * are too many for one register of any tier, so that sums in flight do not wait for each other. */
#ifndef SPOTNIK_REDUCE_SQUARES_H
#define SPOTNIK_REDUCE_SQUARES_H

#include <stddef.h>
#include <string.h>

#define SQUARES_LANES 32
#define SQUARES_WIDENED 1024 /* halves widened at once; a multiple of the lanes */

/* `lane` goes on from where it stands: `count` is a multiple of the lanes but in the last call. */
#define SQUARES(name, element)                                                                     \
    static void name##_squares(double *restrict lane, const unsigned char *restrict in,            \
                               size_t count)                                                       \
    {                                                                                              \
        for (; count >= SQUARES_LANES;                                                             \
             count -= SQUARES_LANES, in += SQUARES_LANES * sizeof(element)) {                      \
            element x[SQUARES_LANES];                                                              \
            memcpy(x, in, sizeof x);                                                               \
            for (size_t i = 0; i < SQUARES_LANES; i++)                                             \
                lane[i] += (double)x[i] * (double)x[i];                                            \
        }                                                                                          \
        for (size_t i = 0; i < count; i++) {                                                       \
            element x;                                                                             \
            memcpy(&x, in + i * sizeof x, sizeof x);                                               \
            lane[i] += (double)x * (double)x;                                                      \
        }                                                                                          \
    }

SQUARES(f32, float)
SQUARES(f64, double)

static double lanes_sum(double *lane)
{
    for (size_t half = SQUARES_LANES / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

static double f32_norm(const void *in, size_t count)
{
    double lane[SQUARES_LANES] = { 0 };

    f32_squares(lane, in, count);
    return lanes_sum(lane);
}

static double f64_norm(const void *in, size_t count)
{
    double lane[SQUARES_LANES] = { 0 };

    f64_squares(lane, in, count);
    return lanes_sum(lane);
}

#define SQUARES_HALVES(name)                                                                       \
    static double name##_norm(const void *in, size_t count)                                        \
    {                                                                                              \
        double lane[SQUARES_LANES] = { 0 };                                                        \
        float wide[SQUARES_WIDENED];                                                               \
        const unsigned char *at = in;                                                              \
                                                                                                   \
        for (; count > 0; at += 2 * SQUARES_WIDENED) {                                             \
            size_t some = count < SQUARES_WIDENED ? count : SQUARES_WIDENED;                       \
            name##_widen(wide, at, some);                                                          \
            f32_squares(lane, (const unsigned char *)wide, some);                                  \
            count -= some;                                                                         \
        }                                                                                          \
        return lanes_sum(lane);                                                                    \
    }

SQUARES_HALVES(f16)
SQUARES_HALVES(bf16)

#endif
