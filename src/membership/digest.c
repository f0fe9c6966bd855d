/* SPDX-License-Identifier: Apache-2.0 */
/* Do all members hold the same results (docs/design/0014-ties.md)? The driver tells the digest
 * of every result that its caller got. A member chains them from the first step of the view on, and
 * its heartbeats carry the chain. Ring neighbours compare: one step that differs makes all later
 * links of the chain differ. Decides which of two neighbours that differ is the odd one, and ends
 * it: wrong weights are worse than a crash. */
#include "base/assert.h"
#include "membership/membership.h"

static uint64_t link_of(uint64_t before, uint64_t digest)
{
    uint64_t value =
        (before + UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9) ^ digest;
    value = (value ^ value >> 31) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 29;
}

/* A view restarts the chain at the step that it goes on from, which all its members hold. The chain
 * of the view before is kept: what differed there may not have been compared yet. */
void digest_view(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->view.epoch == core->chosen.epoch);
    struct digests *digests = &core->membership->digests;
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        core->membership->peer[i].compared[1] = core->membership->peer[i].compared[0];
        core->membership->peer[i].compared[0] = (struct compared){ 0 };
    }
    digests->chain[1] = digests->chain[0];
    digests->chain[0] = (struct chain){ .epoch = core->view.epoch,
                                        .base = core->chosen.settled_step,
                                        .last = core->chosen.settled_step };
}

/* Results come in order, one for each step. A gap means that a result never reached the caller, and
 * the rest of the view goes unchecked. */
static bool is_next(const struct chain *chain, uint64_t step)
{
    SPOTNIK_ASSERT(chain->last >= chain->base);
    return step == chain->last + 1 && !chain->torn;
}

static void compare_all(struct spotnik_core *core);

void on_result(struct spotnik_core *core, const struct spotnik_event_result *result)
{
    struct chain *chain = &core->membership->digests.chain[0];

    if (core->role != SPOTNIK_ROLE_MEMBER || result->committed <= chain->last)
        return;
    chain->torn = !is_next(chain, result->committed);
    if (chain->torn)
        return;
    uint64_t before = chain->last == chain->base ? 0 : chain->value[chain->last % DIGESTS_KEPT];
    chain->last = result->committed;
    chain->value[chain->last % DIGESTS_KEPT] = link_of(before, result->digest);
    compare_all(core);
}

static struct spotnik_digest_claim claim_of(const struct chain *chain)
{
    SPOTNIK_ASSERT(chain->last >= chain->base);
    if (chain->last == chain->base)
        return (struct spotnik_digest_claim){ 0 };
    return (struct spotnik_digest_claim){ .epoch = chain->epoch,
                                          .step = chain->last,
                                          .value = chain->value[chain->last % DIGESTS_KEPT],
                                          .tied = chain->tied };
}

/* What a heartbeat says of our results. */
void digest_claim(const struct spotnik_core *core, struct spotnik_message *message)
{
    SPOTNIK_ASSERT(message->kind == SPOTNIK_MESSAGE_HEARTBEAT);
    for (int i = 0; i < DIGEST_CHAINS; i++)
        message->digest[i] = claim_of(&core->membership->digests.chain[i]);
}

/* ---- comparing ---- */

static bool is_kept(const struct chain *chain, uint64_t step)
{
    SPOTNIK_ASSERT(chain->last >= chain->base);
    return step > chain->base && step <= chain->last && chain->last - step < DIGESTS_KEPT;
}

/* A claim ahead of us is compared when we get there. */
static void compare_one(const struct chain *chain, struct compared *with)
{
    const struct spotnik_digest_claim *claim = &with->claim;

    if (claim->epoch != chain->epoch || claim->step == 0 || !is_kept(chain, claim->step))
        return;
    if (chain->value[claim->step % DIGESTS_KEPT] == claim->value)
        with->same_step = with->same_step > claim->step ? with->same_step : claim->step;
    else if (with->differs_step == 0)
        with->differs_step = claim->step;
}

static void diverge(struct spotnik_core *core, const struct peer *from, const struct compared *with)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(with->differs_step != 0);
    fail(core, SPOTNIK_ERR_DIVERGED);
    core->membership->digests.diverged = (struct spotnik_divergence){ .peer = from->member,
                                                                      .after_step = with->same_step,
                                                                      .step = with->differs_step };
}

/* We differ from one neighbour and agree with the other, at that step or a later one. */
static bool is_tied(const struct compared *differs, const struct compared *agrees)
{
    SPOTNIK_ASSERT(differs->differs_step != 0);
    return agrees->same_step >= differs->differs_step && agrees->differs_step == 0;
}

/* The odd one of three differs from both its neighbours, and ends. A member that differs from one
 * and agrees with the other leaves that to the odd one. But if the odd one says that it is in the
 * same position, each side ends at the border. */
static void judge(struct spotnik_core *core, int i, struct peer *const *neighbour, uint32_t count)
{
    struct compared *first = &neighbour[0]->compared[i],
                    *second = &neighbour[count - 1]->compared[i];
    struct chain *chain = &core->membership->digests.chain[i];

    SPOTNIK_ASSERT(count == 1 || count == 2);
    SPOTNIK_ASSERT(i < DIGEST_CHAINS);
    if (first->differs_step == 0 && second->differs_step == 0)
        return;
    if (first->differs_step != 0 && second->differs_step != 0) {
        diverge(core, neighbour[0], first);
        return;
    }
    uint32_t odd = first->differs_step != 0 ? 0 : 1;
    struct compared *differs = odd == 0 ? first : second;
    chain->tied = is_tied(differs, odd == 0 ? second : first);
    if (chain->tied && differs->claim.tied)
        diverge(core, neighbour[odd], differs);
}

/* For the status: how far both neighbours agree. */
static void note_agreement(struct spotnik_core *core, struct peer *const *neighbour, uint32_t count)
{
    SPOTNIK_ASSERT(count == 1 || count == 2);
    uint64_t one = neighbour[0]->compared[0].same_step,
             other = neighbour[count - 1]->compared[0].same_step;
    core->status.compared_step = one < other ? one : other;
}

static uint32_t neighbours_find(struct spotnik_core *core, struct peer *neighbour[2])
{
    uint32_t ranks[2] = { successor_rank(core), predecessor_rank(core) }, count = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < 2 && core->view.size > i + 1; i++) {
        struct peer *peer = peer_find(core, core->view.entry[ranks[i]].member.id);
        if (!peer)
            return 0;
        neighbour[count++] = peer;
    }
    return count;
}

static void compare_all(struct spotnik_core *core)
{
    struct peer *neighbour[2];
    uint32_t count = neighbours_find(core, neighbour);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (int i = 0; i < DIGEST_CHAINS && count > 0 && core->role == SPOTNIK_ROLE_MEMBER; i++) {
        for (uint32_t k = 0; k < count; k++)
            compare_one(&core->membership->digests.chain[i], &neighbour[k]->compared[i]);
        judge(core, i, neighbour, count);
    }
    if (count > 0)
        note_agreement(core, neighbour, count);
}

/* A claim belongs to one of our chains by its epoch; what was found out under another epoch is
 * void. */
static void claim_take(struct peer *from, int i, const struct spotnik_digest_claim *claim)
{
    SPOTNIK_ASSERT(i < DIGEST_CHAINS);
    SPOTNIK_ASSERT(claim->step != 0);
    if (from->compared[i].claim.epoch != claim->epoch)
        from->compared[i] = (struct compared){ 0 };
    from->compared[i].claim = *claim;
}

void digest_hear(struct spotnik_core *core, struct peer *from,
                 const struct spotnik_message *message)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || message->epoch != core->view.epoch)
        return;
    for (int i = 0; i < DIGEST_CHAINS; i++)
        for (int k = 0; k < DIGEST_CHAINS; k++)
            if (message->digest[k].step != 0
                && message->digest[k].epoch == core->membership->digests.chain[i].epoch)
                claim_take(from, i, &message->digest[k]);
    compare_all(core);
}

const struct spotnik_divergence *spotnik_core_divergence(const struct spotnik_core *core)
{
    return &core->membership->digests.diverged;
}
