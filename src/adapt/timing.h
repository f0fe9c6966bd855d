/* SPDX-License-Identifier: Apache-2.0 */
/* How long a member's steps take while its batch stays as it is, and how sure that is. Machines
 * that others use too are noisy: a step now and then takes twice as long, and all take a few
 * percent more or less. So times are looked at in blocks, of which the median counts, and medians
 * are averaged. What one block says against all before it waits for a second one. How far medians
 * differ says what their mean is worth. Decides nothing about batches.
 *
 * Pure, on agreed numbers (adapt/same_bits.h); plain data. */
#ifndef SPOTNIK_ADAPT_TIMING_H
#define SPOTNIK_ADAPT_TIMING_H

#include <stdint.h>

#define SPOTNIK_BATCH_BLOCK 5 /* steps at most */

struct spotnik_batch_timing {
    double time_s; /* of a step, since the last restart; 0: not known yet */
    /* variance of time_s where that of a block's median is 1: 1 after the first block, less and
     * less with more */
    double doubt2;
    double noise;   /* relative deviation of a block's median; kept over restarts */
    double last_s;  /* the last block's median; 0: none since the restart */
    uint32_t heard; /* values that `noise` is the mean of, up to a limit */
    uint32_t filled;
    int32_t astray; /* the last block was far above (1), or below (-1), time_s, and did not count */
    uint32_t spare;
    double block[SPOTNIK_BATCH_BLOCK];
};

struct spotnik_batch_pace {
    uint32_t block;   /* steps in one, 1 to SPOTNIK_BATCH_BLOCK */
    double smoothing; /* weight of the newest block, at least; in (0, 1] */
    double band;      /* a block that differs by less than this part is never astray */
};

/* A step took so long, above 0. */
void spotnik_batch_timing_add(struct spotnik_batch_timing *timing,
                              const struct spotnik_batch_pace *pace, double time_s);

/* Steps are others from now on. */
void spotnik_batch_timing_restart(struct spotnik_batch_timing *timing);

#endif
