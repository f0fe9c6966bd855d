/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers of a shape, from seeded bits. */
#ifndef SPOTNIK_PLAN_DRAW_H
#define SPOTNIK_PLAN_DRAW_H

#include "base/prng.h"

#include <math.h>
#include <stddef.h>

/* In (0, 1). */
static inline double spotnik_draw_uniform(struct spotnik_prng *prng)
{
    return ((double)(spotnik_prng_next(prng) >> 11) + 0.5) * 0x1p-53;
}

static inline double spotnik_draw_normal(struct spotnik_prng *prng)
{
    double radius = sqrt(-2 * log(spotnik_draw_uniform(prng)));

    return radius * cos(2 * 3.14159265358979323846 * spotnik_draw_uniform(prng));
}

/* How many trials until the first success, 1 or more; infinite when there is none. */
static inline double spotnik_draw_trials(struct spotnik_prng *prng, double chance)
{
    if (chance >= 1)
        return 1;
    return chance > 0 ? fmax(1, ceil(log(spotnik_draw_uniform(prng)) / log1p(-chance))) : INFINITY;
}

/* An index below `count`, by weights that need not add up to one. */
static inline size_t spotnik_draw_index(struct spotnik_prng *prng, const double *weights,
                                        size_t count)
{
    double total = 0;

    for (size_t i = 0; i < count; i++)
        total += weights[i];
    double pick = spotnik_draw_uniform(prng) * total;
    for (size_t i = 0; i + 1 < count; i++) {
        if (pick < weights[i])
            return i;
        pick -= weights[i];
    }
    return count - 1;
}

#endif
