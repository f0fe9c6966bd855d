/* SPDX-License-Identifier: Apache-2.0 */
/* Seeded randomness, passed in wherever it is wanted: xoshiro256** (Blackman and Vigna, public
 * domain). The same seed gives the same numbers on every machine and compiler; no floating point
 * takes part. Not for keys, challenges or member ids: those come from the kernel, in drivers. */
#ifndef SPOTNIK_BASE_PRNG_H
#define SPOTNIK_BASE_PRNG_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_prng {
    uint64_t state[4];
};

/* Any seed is good, 0 too; neighbouring seeds give unrelated streams. */
void spotnik_prng_seed(struct spotnik_prng *prng, uint64_t seed);

uint64_t spotnik_prng_next(struct spotnik_prng *prng);

/* Uniform in [0, n), without bias. n > 0. */
uint64_t spotnik_prng_below(struct spotnik_prng *prng, uint64_t n);

/* Uniform in [first, last], both included. first <= last. */
uint64_t spotnik_prng_between(struct spotnik_prng *prng, uint64_t first, uint64_t last);

/* True in `numerator` of `denominator` cases. denominator > 0. Draws exactly as `below` does,
 * whatever the odds. */
bool spotnik_prng_chance(struct spotnik_prng *prng, uint64_t numerator, uint64_t denominator);

#endif
