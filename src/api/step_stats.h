/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers that all members know alike. Each member puts a row of its own measurements into bucket
 * SPOTNIK_BUCKET_AGREED of every step. Each member that commits the step reads all rows, the same
 * bits everywhere (P3, P4). So all members decide strategy and shares from them alike and at the
 * same step, without a message.
 *
 * One bucket serves all deciders. It is in every step or in none: turn it on before the first step,
 * on all members. Gathers and hands out; decides nothing. Everything belongs to the caller's
 * thread. */
#ifndef SPOTNIK_API_STEP_STATS_H
#define SPOTNIK_API_STEP_STATS_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "spotnik/spotnik.h"

/* What one share measured in its step. All zeros: that share gave nothing. When
 * spotnik_step_stats_start() follows step_begin at once, compute_us is of the step before. */
struct spotnik_step_stats_row {
    uint32_t compute_us; /* from the return of step_begin to the call of step_commit; at least 1 */
    uint32_t apply_us;   /* from the return of the last step_commit to the call of step_begin */
    uint32_t wait_us;    /* within the last step_commit and within step_begin */
    uint32_t samples;    /* of the share; UINT32_MAX stands for more */
    /* hash of what this member decided last: all rows have the same, or members differ */
    uint32_t check;
    /* 1 + the share this member had in the last step it committed; 0: it had none */
    uint32_t before;
    double noise; /* what spotnik_step_stats_noise_set() said in this step; else 0 */
    uint32_t unused;
    /* given early: samples of the share that compute_us is of, UINT32_MAX: not known. 0: given at
     * the commit */
    uint32_t timed;
};

struct spotnik_step_stats {
    uint64_t step;  /* of `row`; 0: none has been committed since this member came */
    uint32_t slots; /* rows, by share */
    const struct spotnik_step_stats_row *row;
};

struct spotnik_job;

/* Have the bucket in every step from now on; nothing where it is on already. Errors: STATE (after
 * the first step_begin), MEMORY. */
int spotnik_step_stats_on(struct spotnik_job *job);

/* What the step committed last has said; NULL: not turned on. Valid until the next commit. */
const struct spotnik_step_stats *spotnik_step_stats_get(const struct spotnik_job *job);

/* For our row of the begun step. Nothing where it is not on. */
void spotnik_step_stats_noise_set(struct spotnik_job *job, double noise);

/* What `check` is the hash of from now on: registered memory, without holes, in which decisions are
 * kept. */
void spotnik_step_stats_check_watch(struct spotnik_job *job, const void *decisions, size_t size);

/* Do rows of the step committed last name different decisions? Then our programs differ. */
bool spotnik_step_stats_differs(const struct spotnik_step_stats *agreed);

/* step.c: a step was begun. */
void spotnik_step_stats_begin(struct spotnik_job *job);

/* Put our row into the begun step, once. step_commit calls this; a strategy that wants the step
 * complete early calls it right after step_begin. Errors as spotnik_runtime_allreduce_from(). */
int spotnik_step_stats_start(struct spotnik_job *job);

/* open.c: the runtime's `committed` hook. */
void spotnik_step_stats_deliver(struct spotnik_job *job, uint64_t step, uint32_t bucket_count,
                                const struct spotnik_bucket_result *result);

/* step.c, after a commit: 0, or MISMATCH where members have decided differently. */
int spotnik_step_stats_outcome(const struct spotnik_job *job);

void spotnik_step_stats_free(struct spotnik_job *job);

#endif
