/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic batching in a running job. The controller of src/adapt, fed with agreed rows
 * (step_stats.h), answers the runtime's question how the next steps are dealt out. Decides nothing
 * by itself.
 *
 * Members are followed from step to step by what their rows say of themselves (`before`), so
 * neither views nor ids are asked. What it has learnt is a blob of the replica. Joiners get it with
 * the state, and observe every step from there on as the others do. */
#ifndef SPOTNIK_API_BATCHING_H
#define SPOTNIK_API_BATCHING_H

#include <stdbool.h>
#include <stdint.h>

#include "api/step_stats.h"
#include "adapt/controller.h"

#define SPOTNIK_BATCHING_BLOB "spotnik.batching"

/* After a step. Plain data, alike on every member. */
struct spotnik_batching_state {
    uint64_t step;
    struct spotnik_batch_controller controller; /* size 0: nothing known yet */
    uint32_t share[SPOTNIK_BATCH_MEMBERS_MAX];  /* in that step, of the controller's members */
};

struct spotnik_batching {
    struct spotnik_batch_config config; /* `batch` is each member's where per_member */
    bool per_member;
    /* `before`: that step, for when it is reduced again */
    struct spotnik_batching_state now, before;
    uint64_t seen;  /* hash of the rows that `now` has observed */
    uint64_t loads; /* of the job, when the state was taken over last */
    uint32_t weight[SPOTNIK_BATCH_MEMBERS_MAX];
};

/* Observe the rows of `step`; again with the same ones does nothing, again with others takes the
 * first time back. */
void spotnik_batching_observe(struct spotnik_batching *batching, uint64_t step, uint32_t slots,
                              const struct spotnik_step_stats_row *row);

/* Weights by share of the step observed last, `slots` of them. Returns how many there are; 0:
 * even. */
uint32_t spotnik_batching_weights(struct spotnik_batching *batching, uint32_t slots);

/* To and from the blob. False: it makes no sense, or is not of this build; nothing is known
 * then. */
size_t spotnik_batching_pack(const struct spotnik_batching *batching, void *bytes, size_t size);
bool spotnik_batching_unpack(struct spotnik_batching *batching, const void *bytes, size_t size);

struct spotnik_job;

/* With the config's `batching`; before the runtime is opened. Errors: MEMORY. */
int spotnik_batching_open(struct spotnik_job *job);

/* step.c: a step was begun; the state may have been replaced. */
void spotnik_batching_begin(struct spotnik_job *job);

/* For strategies whose members run apart: the scale of this member's gradient in the begun step. It
 * is lambda_k times the number of members, so 1 where shares are even, by the shares of the last
 * committed step. 1 without dynamic batching. Caller's thread. */
double spotnik_batching_lambda(const struct spotnik_job *job);

/* open.c: the runtime's hooks. */
uint32_t spotnik_batching_deal(void *job, uint64_t step, uint32_t bucket_count,
                               const struct spotnik_bucket_result *result,
                               const uint32_t **ret_weight);
void spotnik_batching_committed(struct spotnik_job *job, uint64_t step, uint32_t bucket_count,
                                const struct spotnik_bucket_result *result);

/* state.c: before state is copied. */
void spotnik_batching_refresh(struct spotnik_job *job);

#endif
