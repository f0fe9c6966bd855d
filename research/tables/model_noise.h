/* SPDX-License-Identifier: Apache-2.0 */
/* Scavenger (Tyagi and Sharma, CCGrid'23): how noise, epochs, time and cost depend on the global
 * batch B and on the number of workers K in synchronous data-parallel training.
 *
 *   gamma(B) = g0 + g1 B^-1/2      relative gradient noise (the paper: proportional to B^-1/2; the
 *   published
 *                                   rows have a large constant part, so the line is fitted with
 *                                   one)
 *   epochs   = e* + theta gamma    linear in mean noise
 *   time     = epochs x iterations per epoch x iteration time;   cost = time K price
 *
 * Partial search: from the extremes of (B, K), time is K^-1 (a(B)^p + (c(B) K)^p)^(1/p): work that
 * K machines share, until a cost that grows with K takes over. ln a and ln c are linear in
 * B^-1/2. */
#ifndef SPOTNIK_RESEARCH_MODEL_NOISE_H
#define SPOTNIK_RESEARCH_MODEL_NOISE_H

#include <stddef.h>

#define SPOTNIK_NOISE_SHARPNESS 4.0
/* Both ends of an interval give way by this logarithm, and by more outside of the fitted batches.
 * Chosen with whole batches left out (research/figures/plan_intervals.py). */
#define SPOTNIK_NOISE_SCATTER 0.08
#define SPOTNIK_SCAVENGER_E2_STANDARD_4_USD_PER_H 0.13402

struct spotnik_batch_time {
    double shared_log[2], growing_log[2]; /* ln at the two ends of B^-1/2 */
    double root_low, root_high;           /* B^-1/2 at those ends */
    double sharpness;
};

struct spotnik_batch_row {
    double batch, workers, time_h;
};

/* At least two batches and two worker counts must be among the rows; -1 otherwise. */
int spotnik_batch_time_fit(const struct spotnik_batch_row *rows, size_t count, double sharpness,
                           struct spotnik_batch_time *model_out);
double spotnik_batch_time_h(const struct spotnik_batch_time *model, double batch, double workers);
/* Where nine of ten runs lie: however sharply the growing cost sets in. Batches and workers beyond
 * those of the rows widen the interval. The rows are those that were fitted; -1 as there. */
int spotnik_batch_time_interval(const struct spotnik_batch_row *rows, size_t count, double batch,
                                double workers, double *low_h_out, double *high_h_out);
double spotnik_cluster_cost_usd(double time_h, double workers, double usd_per_h);

#endif
