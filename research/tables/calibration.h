/* SPDX-License-Identifier: Apache-2.0 */
/* Does what is called p per cent come true p times in a hundred? Many starts in traces, each with
 * the chance that was stated before and what then came; by deciles of the chance, with an interval
 * for how often they came true. Windows of one trace overlap, and good days follow good days: the
 * interval comes from drawing whole blocks (some days of one trace) with replacement, not single
 * starts.
 *
 * Each interval is missed by a right forecaster once in twenty, so some decile of ten is missed in
 * four tables of ten. All deciles are judged together, too: draws of all blocks tell how far off
 * the worst decile of a right forecaster is. */
#ifndef SPOTNIK_RESEARCH_CALIBRATION_H
#define SPOTNIK_RESEARCH_CALIBRATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_DECILES 10

struct spotnik_forecast {
    double chance;
    bool came_true;
    unsigned block;
    double start_s, deadline_s; /* told, not judged */
};

struct spotnik_decile {
    size_t starts, blocks;
    /* means; the 95 % interval of came_true; NAN without starts */
    double stated, came_true, low, high;
    /* stated lies in the interval, and within 10 points of came_true */
    bool holds;
    bool wide; /* the interval holds chances that are off by 10 points */
};

struct spotnik_reliability {
    /* deciles with enough blocks for an interval, and those that hold */
    size_t starts, blocks, judged, held;
    double stated, came_true, brier, brier_constant;
    /* the worst decile, in its own standard deviations, and the share of tables of a right
     * forecaster that have a worse one; NAN where no decile is judged */
    double worst_deviations, worse_by_chance;
    size_t wide; /* deciles */
    struct spotnik_decile deciles[SPOTNIK_DECILES];
};

#define SPOTNIK_BLOCKS_LEAST 5 /* fewer in a decile give no interval */

/* Returns -1 when there is no memory. */
int spotnik_calibration_judge(const struct spotnik_forecast *forecasts, size_t count,
                              unsigned draws, uint64_t seed,
                              struct spotnik_reliability *reliability_out);

#endif
