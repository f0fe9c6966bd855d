/* SPDX-License-Identifier: Apache-2.0 */
/* The running step between the caller, the view and the ledger: when it may begin, how its buckets
 * start on a new ring, when it commits. A commit needs no word of others: the result of every
 * bucket is here (docs/design/0001-core.md, Steps and commit). Rules: docs/protocol.md 5, 6, 9 and
 * 13. */
#include <string.h>

#include "base/assert.h"
#include "allreduce/allreduce.h"

/* The result of the running step comes from a member that has committed it, not from a
 * reduction. */
bool step_by_handover(const struct spotnik_core *core)
{
    return core->role == SPOTNIK_ROLE_JOINER || core->step.committed < core->view.settled_step;
}

/* Our donor has no result for one of our buckets: it committed the step without it. True: we have
 * failed. */
bool handover_mismatch(struct spotnik_core *core)
{
    uint64_t handed = core->allreduce->handed_buckets;

    SPOTNIK_ASSERT(!core->step.sealed || core->step.begun);
    if (core->role != SPOTNIK_ROLE_MEMBER || !step_by_handover(core) || !core->step.sealed
        || !handed || handed == core->step.started)
        return false;
    bucket_differs(core, core->step.committed + 1, SPOTNIK_MISMATCH_OF_NUMBER,
                   &(struct spotnik_held){ .member =
                                               core->view.entry[predecessor_rank(core)].member.id,
                                           .count = handed,
                                           .has = 1 });
    return true;
}

static bool may_begin(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->allreduce->phase == STEP_WANTED);
    if (core->role == SPOTNIK_ROLE_JOINER)
        return core->allreduce->replay_due;
    if (core->role != SPOTNIK_ROLE_MEMBER || core->frozen)
        return false; /* a report already given says what we have begun */
    return step_by_handover(core) || core->view.size >= core->members_min;
}

void step_try_begin(struct spotnik_core *core)
{
    if (core->allreduce->phase != STEP_WANTED || !may_begin(core))
        return;
    core->allreduce->replay_due = core->allreduce->weight_set = core->allreduce->declined = false;
    core->allreduce->handed_buckets = 0;
    core->allreduce->flat.begun_epoch[(core->step.committed + 1) & 1] = 0;
    spotnik_transaction_begin(&core->step);
    step_move(core, STEP_BEGUN);
    uint64_t step = core->step.committed + 1;
    bool replay = step_by_handover(core);
    struct spotnik_action *action = queue_action(core, SPOTNIK_ACTION_STEP_BEGUN);
    action->begun.step = step;
    action->begun.replay = replay;
    core->allreduce->begun_share =
        replay ? SPOTNIK_NO_SHARE : spotnik_view_share(&core->view, core->rank, step);
    core->allreduce->begun_shares = replay ? 0 : spotnik_view_shares(&core->view, step);
    flat_latch(core);
}

/* (Re)start one bucket on the present ring. While frozen, or when the result will be handed to us,
 * it only stands ready. */
void bucket_start(struct spotnik_core *core, uint32_t number)
{
    uint64_t step = core->step.committed + 1;
    struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, number);

    SPOTNIK_ASSERT(number < SPOTNIK_BUCKETS_MAX);
    SPOTNIK_ASSERT(core->step.begun);
    if (!step_by_handover(core) && !core->frozen)
        allreduce_start(core, number, bucket);
}

/* A new view: reduce the running step again from the inputs, which are never written (P5). */
void step_restart(struct spotnik_core *core)
{
    uint64_t step = core->step.committed + 1;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(!core->frozen);
    flat_latch(core);
    if (core->step.begun && !step_by_handover(core))
        for (uint32_t i = 0; i < core->step.last[step & 1]; i++)
            if (spotnik_transaction_bucket(&core->step, step, i)->used)
                bucket_start(core, i);
    step_try_commit(core);
}

static void samples_consume(struct spotnik_core *core, uint64_t step, uint32_t shares)
{
    SPOTNIK_ASSERT(shares <= core->limits.members_max);
    memset(core->allreduce->consumed, SPOTNIK_IS_PLANTED(core, FORGET_RETURNED),
           shares * sizeof(*core->allreduce->consumed));
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        uint32_t share = spotnik_view_share(&core->view, rank, step);
        if (share != SPOTNIK_NO_SHARE)
            core->allreduce->consumed[share] = true;
    }
    spotnik_ledger_commit(&core->ledger, shares, core->allreduce->consumed);
}

/* The shares of the steps after this one are the ranks of the view: weights follow their
 * members. */
static void deal_follow(struct spotnik_core *core, uint64_t step, uint32_t shares)
{
    uint32_t from[SPOTNIK_LEDGER_DEAL_MAX];

    SPOTNIK_ASSERT(shares <= core->limits.members_max);
    if (core->ledger.deal_count == 0)
        return;
    for (uint32_t rank = 0; rank < core->view.size && rank < SPOTNIK_LEDGER_DEAL_MAX; rank++)
        from[rank] = spotnik_view_share(&core->view, rank, step);
    spotnik_ledger_deal_map(&core->ledger, shares, core->view.size, from);
}

static void ledger_advance(struct spotnik_core *core, uint64_t step,
                           const struct spotnik_event_deal *deal)
{
    uint32_t shares = spotnik_view_shares(&core->view, step);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->ledger_known);
    if (!core->allreduce->declined)
        samples_consume(core, step, shares);
    if (deal)
        spotnik_ledger_deal_set(&core->ledger, deal->count < shares ? 0 : shares, deal->weight_of);
    deal_follow(core, step, shares);
}

/* How long a step takes when nothing comes in between: how patient to be with a joiner that replays
 * one. */
static void step_time(struct spotnik_core *core)
{
    uint64_t took_ns = core->now_ns - core->allreduce->commit_ns;

    SPOTNIK_ASSERT(core->allreduce->commit_ns <= core->now_ns);
    if (core->allreduce->commit_ns && core->allreduce->commit_epoch == core->view.epoch)
        core->allreduce->step_ns =
            core->allreduce->step_ns ? (3 * core->allreduce->step_ns + took_ns) / 4 : took_ns;
    core->allreduce->commit_ns = core->now_ns;
    core->allreduce->commit_epoch = core->view.epoch;
}

/* `deal`: NULL, or how the next steps are dealt out. */
static void step_commit(struct spotnik_core *core, const struct spotnik_event_deal *deal)
{
    uint64_t step = core->step.committed + 1;
    bool handed = step_by_handover(core);

    SPOTNIK_ASSERT(spotnik_transaction_done(&core->step));
    SPOTNIK_ASSERT(core->allreduce->phase == STEP_SEALED);
    spotnik_transaction_commit(&core->step);
    step_move(core, STEP_IDLE);
    core->news.committed = true;
    step_time(core);
    flat_settle(core, handed);
    if (core->role == SPOTNIK_ROLE_MEMBER && handed) {
        spotnik_ledger_copy(&core->ledger, &core->chosen.ledger);
        core->ledger_known = true;
    } else if (core->role == SPOTNIK_ROLE_MEMBER)
        ledger_advance(core, step, deal);
    if (core->status.restarted_ns && !core->status.committed_ns)
        core->status.committed_ns = core->now_ns;
    queue_action(core, SPOTNIK_ACTION_COMMITTED)->step = step;
}

/* After a promise, a member commits nothing more in this epoch. A member in a pause check does not
 * know whether a promise was asked for. */
static bool may_commit(const struct spotnik_core *core)
{
    return spotnik_transaction_done(&core->step) && !core->paused && !core->allreduce->barred
           && (!core->frozen || SPOTNIK_IS_PLANTED(core, COMMIT_AFTER_PROMISE));
}

/* A member that is handed a step is handed its consequences as well, without asking. */
static bool deal_wanted(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->step.begun);
    return core->limits.deals && core->ledger.samples && core->role == SPOTNIK_ROLE_MEMBER
           && !step_by_handover(core);
}

void step_try_commit(struct spotnik_core *core)
{
    if (handover_mismatch(core) || !may_commit(core) || core->allreduce->phase == STEP_DEALING)
        return;
    if (!deal_wanted(core)) {
        step_commit(core, NULL);
        return;
    }
    step_move(core, STEP_DEALING);
    queue_action(core, SPOTNIK_ACTION_DEAL)->step = core->step.committed + 1;
}

void step_bar(struct spotnik_core *core, bool barred)
{
    bool lifted = core->allreduce->barred && !barred;

    core->allreduce->barred = barred;
    if (lifted && (core->role == SPOTNIK_ROLE_MEMBER || core->role == SPOTNIK_ROLE_JOINER))
        step_try_commit(core);
}

/* What asked may have gone on to promise, or to install a view, before it came to an end: then it
 * is asked again. */
void step_dealt(struct spotnik_core *core, const struct spotnik_event_deal *deal)
{
    SPOTNIK_ASSERT(core->allreduce->phase == STEP_DEALING);
    step_move(core, STEP_SEALED);
    if (may_commit(core))
        step_commit(core, deal_wanted(core) ? deal : NULL);
}

/* Samples of the begun step for us: none for a joiner, nor in a step that was settled without
 * us. */
uint64_t spotnik_core_share(const struct spotnik_core *core, struct spotnik_range *ret_ranges,
                            uint32_t *ret_count)
{
    uint64_t step = core->step.committed + 1;

    *ret_count = 0;
    if (core->role != SPOTNIK_ROLE_MEMBER || step_by_handover(core) || core->allreduce->declined)
        return 0;
    uint32_t share = spotnik_view_share(&core->view, core->rank, step);
    if (share == SPOTNIK_NO_SHARE)
        return 0;
    return spotnik_ledger_share(&core->ledger, share, spotnik_view_shares(&core->view, step),
                                ret_ranges, ret_count);
}

/* No step begins for a caller that has gone on to leave. */
void step_ask_no_more(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->allreduce->phase == STEP_WANTED)
        step_move(core, STEP_IDLE);
}

uint32_t spotnik_core_share_number(const struct spotnik_core *core, uint32_t *ret_shares)
{
    SPOTNIK_ASSERT(core->allreduce->begun_shares <= core->limits.members_max);
    *ret_shares = core->allreduce->begun_shares;
    return core->allreduce->begun_share < core->allreduce->begun_shares
               ? core->allreduce->begun_share
               : core->allreduce->begun_shares;
}
