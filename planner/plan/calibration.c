/* SPDX-License-Identifier: Apache-2.0 */
/* Reliability by deciles, with intervals from a block bootstrap. */
#include "plan/calibration.h"
#include "base/prng.h"

#include <math.h>
#include <stdlib.h>

struct tally {
    double starts, came_true;
};

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

static size_t decile_of(double chance)
{
    return (size_t)fmin(SPOTNIK_DECILES - 1, floor(chance * SPOTNIK_DECILES + 1e-9));
}

/* The 2.5 % and 97.5 % quantiles over draws of as many blocks as there are. */
static int interval(const struct tally *blocks, size_t count, unsigned draws,
                    struct spotnik_prng *prng, struct spotnik_decile *decile)
{
    double *shares = malloc(draws * sizeof(*shares));

    if (!shares)
        return -1;
    for (unsigned i = 0; i < draws; i++) {
        struct tally sum = { 0, 0 };
        for (size_t j = 0; j < count; j++) {
            const struct tally *block = &blocks[spotnik_prng_below(prng, count)];
            sum.starts += block->starts;
            sum.came_true += block->came_true;
        }
        shares[i] = sum.came_true / sum.starts;
    }
    qsort(shares, draws, sizeof(*shares), by_value);
    decile->low = shares[draws / 40];
    decile->high = shares[draws - 1 - draws / 40];
    free(shares);
    return 0;
}

/* The tallies of the blocks that have a start in the decile, gathered at the front of `blocks`. */
static size_t gather(const struct spotnik_forecast *forecasts, size_t count, size_t which,
                     struct tally *blocks, size_t block_count, struct spotnik_decile *decile)
{
    size_t used = 0;

    for (size_t i = 0; i < block_count; i++)
        blocks[i] = (struct tally){ 0, 0 };
    for (size_t i = 0; i < count; i++) {
        if (decile_of(forecasts[i].chance) != which)
            continue;
        blocks[forecasts[i].block].starts++;
        blocks[forecasts[i].block].came_true += forecasts[i].came_true;
        decile->starts++;
        decile->stated += forecasts[i].chance;
        decile->came_true += forecasts[i].came_true;
    }
    for (size_t i = 0; i < block_count; i++)
        if (blocks[i].starts > 0)
            blocks[used++] = blocks[i];
    return used;
}

static int decile_judge(struct spotnik_decile *decile, const struct tally *blocks, unsigned draws,
                        struct spotnik_prng *prng, struct spotnik_reliability *r)
{
    decile->low = decile->high = NAN;
    if (!decile->starts) {
        decile->stated = decile->came_true = NAN;
        return 0;
    }
    decile->stated /= (double)decile->starts;
    decile->came_true /= (double)decile->starts;
    if (decile->blocks < SPOTNIK_BLOCKS_LEAST)
        return 0;
    if (interval(blocks, decile->blocks, draws, prng, decile))
        return -1;
    decile->holds = decile->stated >= decile->low && decile->stated <= decile->high
                    && fabs(decile->stated - decile->came_true) <= 0.1;
    r->judged++;
    r->held += decile->holds;
    return 0;
}

int spotnik_calibration_judge(const struct spotnik_forecast *forecasts, size_t count,
                              unsigned draws, uint64_t seed,
                              struct spotnik_reliability *reliability_out)
{
    struct spotnik_reliability r = { .starts = count };
    struct spotnik_prng prng;
    int rc = 0;

    for (size_t i = 0; i < count; i++) {
        r.blocks = forecasts[i].block + 1 > r.blocks ? forecasts[i].block + 1 : r.blocks;
        r.stated += forecasts[i].chance / (double)count;
        r.came_true += (double)forecasts[i].came_true / (double)count;
        r.brier += pow(forecasts[i].chance - forecasts[i].came_true, 2) / (double)count;
    }
    r.brier_constant = r.came_true * (1 - r.came_true);
    struct tally *blocks = calloc(r.blocks + 1, sizeof(*blocks));
    spotnik_prng_seed(&prng, seed);
    for (size_t d = 0; blocks && !rc && d < SPOTNIK_DECILES; d++) {
        r.deciles[d].blocks = gather(forecasts, count, d, blocks, r.blocks, &r.deciles[d]);
        rc = decile_judge(&r.deciles[d], blocks, draws, &prng, &r);
    }
    rc = blocks ? rc : -1;
    free(blocks);
    *reliability_out = r;
    return rc;
}
