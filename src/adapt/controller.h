/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic batching: each member's samples of the global batch in a heterogeneous job, so that all
 * finish a step together. Tyagi and Sharma, "Taming Resource Heterogeneity in Distributed ML
 * Training with Dynamic Batching", ACSOS'20 (arXiv 2305.12213). Their rules, by equation:
 *
 *   (3) g = sum_k lambda_k g_k, lambda_k = b_k / sum b: MEAN weighted by samples is that; no code
 *       here. As printed it has a factor 1/K, which contradicts sum lambda = 1; we follow the text.
 *   (4,5) proportional controller: Delta b_k = -X_k (t_k - tbar), X_k = b_k / t_k, so
 *       b_k' = b_k tbar / t_k. t_k: smoothed iteration times since the last change; tbar: their
 *       mean
 *   dead-band: act only where max_k |Delta b_k| / b_k > 0.05; if one moves, all move. Measured from
 *       a member to the mean, it lets members rest 10 % apart. Here it is from the member that is
 *       to grow most to the one that is to grow least: times rest within 5 % of each other
 *   bounds: [b_min, b_max]; if throughput has fallen after an increase, b_max is the batch before
 *       it
 *
 * Where the paper is silent: the global batch is conserved exactly (largest remainder; their rule
 * as printed lets it drift). The fall that teaches a bound must exceed `fall_band` (measured times
 * are noisy; 0 is the paper's rule). An adjustment needs `window` steps behind it.
 *
 * Where we differ: t_k is no plain EWMA, but robust (timing.h). A change must also exceed the noise
 * of t_k (`caution`; 0 is the paper's rule). With 5 % noise a mean of five steps leaves a dead-band
 * of 5 % every few windows, though nothing has changed. Every step adds data, so real differences
 * show in the end.
 *
 * Pure; times come from a committed all-reduce, so all members decide alike (adapt/same_bits.h).
 * The controller is plain data: it is part of the registered state, so joiners get it too. */
#ifndef SPOTNIK_ADAPT_CONTROLLER_H
#define SPOTNIK_ADAPT_CONTROLLER_H

#include <stdbool.h>
#include <stdint.h>

#include "adapt/apportion.h"
#include "adapt/timing.h"

#define SPOTNIK_BATCH_DEAD_BAND 0.05
#define SPOTNIK_BATCH_NEWCOMER UINT32_MAX

struct spotnik_batch_config {
    uint64_t batch;   /* global: samples of a step over all members; conserved */
    uint64_t least;   /* samples a member takes at least, >= 1 */
    uint64_t most;    /* and at most: what fits into its memory. 0: no bound */
    uint32_t window;  /* steps between two adjustments, at least; >= 1 */
    double smoothing; /* weight of the newest block of steps in the EWMA, at least; in (0, 1] */
    double dead_band; /* relative change below which nothing moves; 0: none, and no caution */
    /* and below this number of standard deviations of the measurements; 0: the dead-band alone */
    double caution;
    double fall_band; /* relative fall of throughput that teaches an upper bound */
};

struct spotnik_batch_member {
    uint64_t samples;                   /* b_k: its share of the global batch */
    uint64_t most;                      /* learnt bound, at most config.most */
    uint64_t samples_before;            /* before the last adjustment */
    double speed_before;                /* samples/s before the last adjustment; 0: unknown */
    struct spotnik_batch_timing timing; /* its compute time since the last adjustment */
};

struct spotnik_batch_controller {
    struct spotnik_batch_config config;
    uint32_t size;        /* members */
    uint32_t observed;    /* steps since the last adjustment */
    uint64_t adjustments; /* so far */
    struct spotnik_batch_member member[SPOTNIK_BATCH_MEMBERS_MAX];
};

/* window 5, smoothing 0.2, dead-band and fall-band 5 %, caution 4, least 1, no upper bound. */
void spotnik_batch_config_init(struct spotnik_batch_config *config, uint64_t batch);

/* Divide the batch evenly over `size` members, or by `speed` (the paper's static "variable
 * batching": core counts, FLOPS) where that is not NULL. 0; SPOTNIK_ERR_ARGUMENT for a config that
 * cannot be meant; SPOTNIK_ERR_LIMIT when the bounds do not admit the batch at this size: change
 * the batch or the bounds. The controller is usable after 0 only. */
int spotnik_batch_controller_init(struct spotnik_batch_controller *controller,
                                  const struct spotnik_batch_config *config, uint32_t size,
                                  const double *speed);

/* One step's compute time of every member, in seconds, as agreed. A time that is not above 0 and
 * finite (a member that had no samples, a clock that stood still) is left out. Returns whether
 * member[].samples have changed: they are for the next step. */
bool spotnik_batch_controller_observe(struct spotnik_batch_controller *controller,
                                      const double *time_s);

/* The same of members that run apart (the ASP case of the paper; async.h). Each changes its own
 * batch, by its own dead-band, whatever the others do. So the sum of batches is the global batch in
 * the mean only. samples[i] is what time_s[i] was measured over; 0: nothing is known of member i in
 * this step. */
bool spotnik_batch_controller_observe_apart(struct spotnik_batch_controller *controller,
                                            const uint64_t *samples, const double *time_s);

/* Do batches sum to the global one? After members have run apart they do not;
 * spotnik_batch_controller_view() makes them. */
bool spotnik_batch_controller_is_whole(const struct spotnik_batch_controller *controller);

/* A new view: its member i was number from[i] of the old one, or SPOTNIK_BATCH_NEWCOMER. Survivors
 * keep their proportion and what they have learnt, newcomers start at the survivors' mean; the
 * global batch is conserved. Errors as init; on SPOTNIK_ERR_LIMIT nothing has changed. */
int spotnik_batch_controller_view(struct spotnik_batch_controller *controller, uint32_t size,
                                  const uint32_t *from);

#endif
