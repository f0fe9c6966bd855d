/* SPDX-License-Identifier: Apache-2.0 */
/* Reliability by deciles, with intervals from a block bootstrap; and of all deciles together. */
#include "calibration.h"
#include "base/prng.h"

#include <math.h>
#include <stdlib.h>

#define POINTS 0.1

struct tally {
    double starts, came_true;
};

/* Of one block: per decile its starts, and by how much they came true more often than stated. */
struct misses {
    double starts[SPOTNIK_DECILES], sum[SPOTNIK_DECILES];
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
                    && fabs(decile->stated - decile->came_true) <= POINTS;
    decile->wide = decile->high - decile->low > 2 * POINTS;
    r->judged++;
    r->held += decile->holds;
    r->wide += decile->wide;
    return 0;
}

static void misses_gather(const struct spotnik_forecast *forecasts, size_t count,
                          struct misses *blocks)
{
    for (size_t i = 0; i < count; i++) {
        size_t decile = decile_of(forecasts[i].chance);
        blocks[forecasts[i].block].starts[decile]++;
        blocks[forecasts[i].block].sum[decile] += forecasts[i].came_true - forecasts[i].chance;
    }
}

/* The mean miss of each decile, over as many blocks as there are, drawn where `prng` is given. */
static void misses_mean(const struct misses *blocks, size_t count, struct spotnik_prng *prng,
                        double *mean_out)
{
    struct misses all = { { 0 }, { 0 } };

    for (size_t i = 0; i < count; i++) {
        const struct misses *block = &blocks[prng ? spotnik_prng_below(prng, count) : i];
        for (size_t d = 0; d < SPOTNIK_DECILES; d++) {
            all.starts[d] += block->starts[d];
            all.sum[d] += block->sum[d];
        }
    }
    for (size_t d = 0; d < SPOTNIK_DECILES; d++)
        mean_out[d] = all.starts[d] > 0 ? all.sum[d] / all.starts[d] : 0;
}

/* The greatest of the deciles that are judged, in deviations. */
static double worst_of(const struct spotnik_reliability *r, const double *miss, const double *mean,
                       const double *deviation)
{
    double worst = 0;

    for (size_t d = 0; d < SPOTNIK_DECILES; d++)
        if (r->deciles[d].blocks >= SPOTNIK_BLOCKS_LEAST && deviation[d] > 0)
            worst = fmax(worst, fabs(miss[d] - (mean ? mean[d] : 0)) / deviation[d]);
    return worst;
}

/* A right forecaster misses by chance alone: by what draws differ from the sample. */
static void together_judge(const struct misses *blocks, double (*draws)[SPOTNIK_DECILES],
                           unsigned count, struct spotnik_prng *prng, struct spotnik_reliability *r)
{
    double mean[SPOTNIK_DECILES], deviation[SPOTNIK_DECILES] = { 0 };
    unsigned worse = 0;

    misses_mean(blocks, r->blocks, NULL, mean);
    for (unsigned i = 0; i < count; i++) {
        misses_mean(blocks, r->blocks, prng, draws[i]);
        for (size_t d = 0; d < SPOTNIK_DECILES; d++)
            deviation[d] += pow(draws[i][d] - mean[d], 2) / count;
    }
    for (size_t d = 0; d < SPOTNIK_DECILES; d++)
        deviation[d] = sqrt(deviation[d]);
    r->worst_deviations = worst_of(r, mean, NULL, deviation);
    for (unsigned i = 0; i < count; i++)
        worse += worst_of(r, draws[i], mean, deviation) >= r->worst_deviations;
    r->worse_by_chance = (double)worse / count;
}

static int judge_together(const struct spotnik_forecast *forecasts, size_t count, unsigned draws,
                          struct spotnik_prng *prng, struct spotnik_reliability *r)
{
    struct misses *blocks = calloc(r->blocks + 1, sizeof(*blocks));
    double(*drawn)[SPOTNIK_DECILES] = malloc(draws * sizeof(*drawn));

    r->worst_deviations = r->worse_by_chance = NAN;
    if (blocks && drawn && r->judged) {
        misses_gather(forecasts, count, blocks);
        together_judge(blocks, drawn, draws, prng, r);
    }
    int rc = blocks && drawn ? 0 : -1;
    free(blocks);
    free(drawn);
    return rc;
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
    rc = rc ? rc : judge_together(forecasts, count, draws, &prng, &r);
    *reliability_out = r;
    return rc;
}
