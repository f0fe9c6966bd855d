/* SPDX-License-Identifier: Apache-2.0 */
/* Programs that differ: which is the odd one? Two members whose buckets differ cannot say which of
 * them is right. So every member of the view tells its claim about the bucket in dispute, again
 * with every heartbeat, and each decides by the same claims:
 *
 *   - more than half of those that can know agree: a member that disagrees fails. The others go on
 *     when it is gone
 *   - no claim has a majority, as between two members, or all say the same, and yet a frame was
 *     another: all fail
 *
 * Nothing can be committed meanwhile that the odd one has not contributed to. A view change ends
 * the dispute: the frames of the next view begin it anew. Of several buckets in dispute the first
 * one counts, of the lowest step. */
#include <string.h>

#include "base/assert.h"
#include "vote/vote.h"

_Static_assert(SPOTNIK_CLAIM_OF_NUMBER == SPOTNIK_BUCKETS_MAX, "no bucket has this number");

static bool is_same(const struct spotnik_claim *a, const struct spotnik_claim *b)
{
    return a->kind == b->kind && a->count == b->count && a->dtype == b->dtype && a->op == b->op;
}

static bool is_about(const struct spotnik_core *core, const struct spotnik_claim *claim)
{
    return claim->step != 0 && claim->step == core->vote->dispute.step
           && claim->bucket == core->vote->dispute.bucket;
}

static uint64_t buckets_of(struct spotnik_core *core, uint64_t step)
{
    uint64_t count = 0;

    SPOTNIK_ASSERT(step == core->step.committed || step == core->step.committed + 1);
    for (uint32_t i = 0; i < core->step.last[step & 1]; i++)
        count += spotnik_transaction_bucket(&core->step, step, i)->used;
    return count;
}

static void claim_fill(struct spotnik_core *core, struct spotnik_claim *claim)
{
    SPOTNIK_ASSERT(claim->bucket <= SPOTNIK_CLAIM_OF_NUMBER);
    if (claim->bucket == SPOTNIK_CLAIM_OF_NUMBER) {
        claim->kind = SPOTNIK_CLAIM_BUCKET;
        claim->count = buckets_of(core, claim->step);
        return;
    }
    const struct spotnik_bucket *bucket =
        spotnik_transaction_bucket(&core->step, claim->step, claim->bucket);
    if (!bucket->used)
        return;
    claim->kind = SPOTNIK_CLAIM_BUCKET;
    claim->count = bucket->count;
    claim->dtype = bucket->dtype;
    claim->op = bucket->op;
}

/* What we have of the bucket in dispute. False: we cannot say yet, or not any more. */
static bool own_claim(struct spotnik_core *core, struct spotnik_claim *ret)
{
    uint64_t step = core->vote->dispute.step, running = core->step.committed + 1;
    struct spotnik_claim claim = { .step = step, .bucket = core->vote->dispute.bucket };

    SPOTNIK_ASSERT(core->vote->dispute.step != 0);
    if ((step != running && step + 1 != running) || (step == running && !core->step.begun))
        return false;
    if (step + 1 == running && step == core->vote->copied_step)
        claim.kind = SPOTNIK_CLAIM_SILENT;
    else
        claim_fill(core, &claim);
    if (step == running && !core->step.sealed
        && (claim.kind == SPOTNIK_CLAIM_NONE || claim.bucket == SPOTNIK_CLAIM_OF_NUMBER))
        return false; /* it may start more */
    *ret = claim;
    return true;
}

static const struct spotnik_claim *claim_of(struct spotnik_core *core, uint32_t rank)
{
    const struct peer *peer =
        rank == core->rank ? NULL : peer_find(core, core->view.entry[rank].member.id);
    const struct spotnik_claim *claim = rank == core->rank ? &core->vote->dispute.own
                                        : peer             ? &peer->claim
                                                           : NULL;

    SPOTNIK_ASSERT(rank < core->view.size);
    return claim && is_about(core, claim) ? claim : NULL;
}

/* How many say the same; those that cannot know agree with nobody. */
static uint32_t agreeing_with(struct spotnik_core *core, const struct spotnik_claim *claim)
{
    uint32_t count = 0;

    SPOTNIK_ASSERT(is_about(core, claim));
    for (uint32_t rank = 0; rank < core->view.size && claim->kind != SPOTNIK_CLAIM_SILENT; rank++)
        count += is_same(claim_of(core, rank), claim);
    return count;
}

static void decide(struct spotnik_core *core, const struct spotnik_claim *best, uint32_t agreeing,
                   uint32_t speaking)
{
    bool majority = 2 * agreeing > speaking, unanimous = agreeing == speaking;

    SPOTNIK_ASSERT(agreeing <= speaking);
    SPOTNIK_ASSERT(speaking <= core->view.size);
    core->vote->dispute.found = *best;
    core->vote->dispute.agreeing = majority ? agreeing : 0;
    if (core->vote->dispute.own.kind != SPOTNIK_CLAIM_SILENT
        && (!majority || unanimous || !is_same(best, &core->vote->dispute.own)))
        fail(core, SPOTNIK_ERR_MISMATCH);
}

/* Once all claims are here; of those without a majority, one that is not ours is shown. */
static void judge(struct spotnik_core *core)
{
    const struct spotnik_claim *best = NULL, *other = NULL;
    uint32_t most = 0, speaking = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (!claim_of(core, rank))
            return;
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        const struct spotnik_claim *claim = claim_of(core, rank);
        uint32_t count = agreeing_with(core, claim);
        speaking += claim->kind != SPOTNIK_CLAIM_SILENT;
        if (count > most) {
            most = count;
            best = claim;
        }
        if (count > 0 && !is_same(claim, &core->vote->dispute.own))
            other = claim;
    }
    if (2 * most <= speaking && other)
        best = other;
    if (best)
        decide(core, best, most, speaking);
}

static void say(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->vote->dispute.step != 0);
    if (!own_claim(core, &core->vote->dispute.own))
        return;
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (rank == core->rank)
            continue;
        struct peer *peer = peer_want(core, &core->view.entry[rank].member);
        if (!peer->linked) {
            peer_dial(core, peer);
            continue;
        }
        send_message(core, peer, SPOTNIK_MESSAGE_CLAIM);
        core->status.messages_sent--; /* of no recovery */
    }
}

static bool comes_first(const struct spotnik_core *core, uint64_t step, uint32_t bucket)
{
    if (core->vote->dispute.step != step)
        return core->vote->dispute.step == 0 || step < core->vote->dispute.step;
    return bucket < core->vote->dispute.bucket;
}

void dispute_open(struct spotnik_core *core, uint64_t step, uint32_t bucket,
                  struct spotnik_id other)
{
    if (!comes_first(core, step, bucket))
        return;
    dispute_end(core);
    core->vote->dispute.step = step;
    core->vote->dispute.bucket = bucket;
    core->vote->dispute.other = other;
    say(core);
}

void dispute_end(struct spotnik_core *core)
{
    memset(&core->vote->dispute, 0, sizeof(core->vote->dispute));
}

void dispute_tick(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->vote->dispute.step == 0)
        return;
    say(core);
    if (core->role == SPOTNIK_ROLE_MEMBER)
        judge(core);
}

void on_claim(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    const struct spotnik_claim *claim = &message->claim;

    if (core->role != SPOTNIK_ROLE_MEMBER || message->epoch != core->view.epoch
        || spotnik_view_rank(&core->view, from->member.id) == SPOTNIK_NO_RANK
        || claim->step > core->step.committed + 1)
        return; /* it says so again */
    from->claim = *claim;
    dispute_open(core, claim->step, claim->bucket, from->member.id);
    if (core->role == SPOTNIK_ROLE_MEMBER)
        judge(core);
}

bool spotnik_core_dispute(const struct spotnik_core *core, struct spotnik_claim *ret_own,
                          struct spotnik_claim *ret_found, uint32_t *ret_agreeing)
{
    SPOTNIK_ASSERT(core->vote->dispute.agreeing <= core->view.size);
    if (core->vote->dispute.step == 0 || core->vote->dispute.found.step == 0)
        return false;
    *ret_own = core->vote->dispute.own;
    *ret_found = core->vote->dispute.found;
    *ret_agreeing = core->vote->dispute.agreeing;
    return true;
}

/* The other side is told, which may have no way to notice: it has committed the step, and perhaps
 * it was the last one. */
void mismatch(struct spotnik_core *core, struct spotnik_id other)
{
    struct peer *peer = peer_find(core, other);

    if (peer && peer->linked)
        send_message(core, peer, SPOTNIK_MESSAGE_MISMATCH);
    fail(core, SPOTNIK_ERR_MISMATCH);
}
