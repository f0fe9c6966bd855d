/* SPDX-License-Identifier: Apache-2.0 */
/* Random doubles for tests, from the seeded generator: the same on every machine. */
#ifndef SPOTNIK_TESTS_BATCH_RANDOM_H
#define SPOTNIK_TESTS_BATCH_RANDOM_H

#include "base/prng.h"

/* In [0, 1). */
static inline double uniform(struct spotnik_prng *prng)
{
    return (double)(spotnik_prng_next(prng) >> 11) / 9007199254740992.0;
}

/* Mean 0, variance 1: the sum of twelve uniforms is as normal as is needed here. */
static inline double normal(struct spotnik_prng *prng)
{
    double sum = -6;

    for (int i = 0; i < 12; i++)
        sum += uniform(prng);
    return sum;
}

#endif
