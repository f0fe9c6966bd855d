/* SPDX-License-Identifier: Apache-2.0 */
/* The caller's side of a step: STEP_BEGIN, WEIGHT, DECLINE, BUCKET_START, STEP_SEAL, DEAL. Wrong
 * calls are the API's to refuse; here they are broken invariants. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

void on_step_begin(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(!core->step.begun);
    step_move(core, STEP_WANTED);
    step_try_begin(core);
}

void on_weight(struct spotnik_core *core, uint64_t weight)
{
    SPOTNIK_ASSERT(core->step.begun);
    SPOTNIK_ASSERT(core->step.started == 0); /* one weight for all buckets of a step */
    core->allreduce->weight = weight;
    core->allreduce->weight_set = true;
}

/* What each member's caller says of the same step must agree, as their buckets must: the ledger is
 * replicated. */
void on_decline(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->step.begun);
    SPOTNIK_ASSERT(core->step.started == 0);
    core->allreduce->declined = true;
}

/* A member without a share in the step (a joiner, or one whose step was begun without it)
 * contributes nothing to any operation. MEAN is weighted by samples, or as the caller said; the
 * rest is not weighted. */
static uint64_t weight_of(const struct spotnik_core *core, uint8_t op)
{
    uint64_t step = core->step.committed + 1;
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    if (step_by_handover(core)
        || spotnik_view_share(&core->view, core->rank, step) == SPOTNIK_NO_SHARE)
        return 0;
    if (op != SPOTNIK_MEAN)
        return 1;
    if (core->allreduce->weight_set)
        return core->allreduce->weight;
    return core->ledger.samples && !core->allreduce->declined
               ? spotnik_core_share(core, ranges, &count)
               : 1;
}

void on_bucket_start(struct spotnik_core *core, const struct spotnik_event_start *start)
{
    SPOTNIK_ASSERT(start->element_bytes > 0);
    spotnik_transaction_add(&core->step, start->bucket, start->count, start->dtype, start->op,
                            start->element_bytes, weight_of(core, start->op));
    bucket_start(core, start->bucket);
}

/* A step without buckets still synchronises: an empty one makes it wait for all members. Else
 * members would run ahead of each other by more than the one step that hand-over can mend. */
static void add_barrier(struct spotnik_core *core)
{
    spotnik_transaction_add(&core->step, SPOTNIK_BUCKET_BARRIER, 0, SPOTNIK_U8, SPOTNIK_MAX, 1,
                            weight_of(core, SPOTNIK_MAX));
    bucket_start(core, SPOTNIK_BUCKET_BARRIER);
}

void on_step_seal(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->step.begun);
    SPOTNIK_ASSERT(!core->step.sealed);
    if (core->step.started == 0)
        add_barrier(core);
    core->step.sealed = true;
    step_move(core, STEP_SEALED);
    step_try_commit(core);
}

void on_deal(struct spotnik_core *core, const struct spotnik_event_deal *deal)
{
    SPOTNIK_ASSERT(core->allreduce->phase == STEP_DEALING);
    step_dealt(core, deal);
}
