/* SPDX-License-Identifier: Apache-2.0 */
/* See prng.h. The state is filled by splitmix64, as its authors advise, so that it is never all
 * zeros. */
#include "base/prng.h"

#include "base/assert.h"

static uint64_t rotate_left(uint64_t value, int bits)
{
    return value << bits | value >> (64 - bits);
}

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

void spotnik_prng_seed(struct spotnik_prng *prng, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        prng->state[i] = splitmix(&seed);
}

uint64_t spotnik_prng_next(struct spotnik_prng *prng)
{
    uint64_t *s = prng->state;
    uint64_t result = rotate_left(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate_left(s[3], 45);
    return result;
}

uint64_t spotnik_prng_below(struct spotnik_prng *prng, uint64_t n)
{
    SPOTNIK_ASSERT(n > 0);
    /* Numbers under 2^64 mod n would make the small remainders likelier: draw again. */
    uint64_t unfair = -n % n;
    uint64_t value;

    do
        value = spotnik_prng_next(prng);
    while (value < unfair);
    return value % n;
}

uint64_t spotnik_prng_between(struct spotnik_prng *prng, uint64_t first, uint64_t last)
{
    SPOTNIK_ASSERT(first <= last);
    uint64_t span = last - first;

    return span == UINT64_MAX ? spotnik_prng_next(prng)
                              : first + spotnik_prng_below(prng, span + 1);
}

bool spotnik_prng_chance(struct spotnik_prng *prng, uint64_t numerator, uint64_t denominator)
{
    return spotnik_prng_below(prng, denominator) < numerator;
}
