/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a ballot (docs/protocol.md 5 and 11), carried out on the core: what the agreement
 * decides (agreement.h) is sent, timed and told to the driver here. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* A recovery lasts from the first sign of it to the first commit in a new view; what happens in
 * between only extends it. A sign that was taken back is none: a suspicion of long ago must not
 * make the next view look as if it had taken as long. */
static void recovery_note(struct spotnik_core *core)
{
    struct spotnik_core_status *status = &core->status;
    uint64_t suspected_ns = core->membership->evidence_table.suspected_ns;

    if (status->detected_ns && !status->committed_ns)
        return;
    status->detected_ns = suspected_ns ? suspected_ns : core->now_ns;
    status->reconciled_ns = status->accepted_ns = status->restarted_ns = status->committed_ns = 0;
}

void freeze(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(!core->frozen || agreement->frozen_ns <= core->now_ns);
    recovery_note(core);
    if (core->frozen)
        return;
    core->frozen = true;
    agreement->frozen_ns = core->now_ns;
    queue_action(core, SPOTNIK_ACTION_FROZEN);
}

static void park(struct spotnik_core *core)
{
    if (core->membership->agreement.parked)
        return;
    core->membership->agreement.parked = true;
    queue_action(core, SPOTNIK_ACTION_PARKED);
}

/* Another ballot has begun. A hop still being dialled belonged to the one before: PREPARE of the
 * new one must not leave twice. */
static void leave_ballot(struct spotnik_core *core)
{
    core->membership->evidence_table.initiate_ns = SPOTNIK_NEVER;
    pass_cancel(core, PASS_PREPARE);
    pass_cancel(core, PASS_ACCEPT);
    tree_leave(core);
}

/* A ballot of another, higher than any that we have promised. */
void apply_promise(struct spotnik_core *core, struct spotnik_ballot ballot, bool parked)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    ballot_promise(&core->membership->agreement, core->now_ns, ballot);
    phase_set(core, PHASE_NONE);
    freeze(core);
    if (parked)
        park(core);
    leave_ballot(core);
}

/* Our promise, our report, all we know. */
void apply_sign(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    const struct joiners *joiners = &core->membership->joiners;
    struct agreement_input in = agreement_input(core);
    struct prepare_words words = prepare_words(core);

    SPOTNIK_ASSERT(core->frozen);
    prepare_sign(agreement, &in, &words);
    evidence_table_cover(&core->membership->evidence_table, core->view.size);
    joiners_expire(core);
    for (uint32_t i = 0; i < joiners->count; i++)
        if (!prepare_sign_joiner(agreement, &joiners->joiner[i].enter))
            return;
}

void prepare_empty(struct spotnik_core *core)
{
    struct agreement_input in = agreement_input(core);
    struct prepare_words words = prepare_words(core);

    SPOTNIK_ASSERT(core->frozen);
    prepare_clear(&core->membership->agreement, &in, &words);
}

enum ballot_next ballot_start(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    struct agreement_input in = agreement_input(core);

    ballot_bid(agreement, core->now_ns, core->self.id);
    phase_set(core, PHASE_PREPARE);
    core->status.ballots_started++;
    leave_ballot(core);
    freeze(core);
    core->status.reconciled_ns = core->status.accepted_ns = 0;
    prepare_empty(core);
    apply_sign(core);
    arm_retry(core, core->limits.retry_ns);
    if (!tree_prepare_is_due(agreement, &in) || tree_is_silent(core))
        return BALLOT_FORWARD;
    tree_prepare_tell_ended(agreement, &in);
    tree_prepare_begin(&agreement->tree, core->rank);
    return BALLOT_ASK;
}

enum ballot_next prepare_forward(struct spotnik_core *core)
{
    struct agreement_input in = agreement_input(core);
    struct prepare_hop hop = prepare_next(&core->membership->agreement, &in);

    SPOTNIK_ASSERT(core->frozen);
    if (hop.next == BALLOT_WAITS)
        pass_send(core, PASS_PREPARE, &core->view.entry[hop.rank].member);
    return hop.next;
}

/* A member that is silent on a standing link may live again without our hearing of it, since
 * heartbeats go to neighbours only. Ask it for its view, which it answers. We keep the link: its
 * end would prove more than a refused dial. Every member of a parked side does this, or one
 * member's old silence would outlive the cut. */
void redial_silent(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        struct peer *peer = &core->membership->peer[i];
        if (peer->used && peer->linked && peer_rank(core, peer) == SPOTNIK_NO_RANK)
            /* once a joiner, it may be where the job has gone on */
            send_message(core, peer, SPOTNIK_MESSAGE_VIEW_ASK);
    }
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (core->membership->evidence_table.known[rank].evidence != SPOTNIK_EVIDENCE_SILENT)
            continue;
        struct peer *peer = peer_want(core, &core->view.entry[rank].member);
        if (peer->linked)
            send_message(core, peer, SPOTNIK_MESSAGE_VIEW_ASK);
        else
            peer_dial(core, peer);
    }
}

/* No quorum: try again later. */
void ballot_park(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->frozen);
    phase_set(core, PHASE_PARKED);
    core->membership->agreement.enter_until_ns = SPOTNIK_NEVER;
    core->membership->agreement.retries++;
    arm_retry(core, core->limits.retry_ns);
    redial_silent(core);
    park(core);
}

/* May one of them be near by now, as another member has heard? A joiner asks one sponsor, and
 * another one when the first has done nothing for long, as we while it rested. */
static bool asks_elsewhere(const struct spotnik_core *core)
{
    const struct spotnik_prepare *prepare = &core->membership->agreement.prepare;
    uint64_t settled = spotnik_proposal_settled(prepare);

    SPOTNIK_ASSERT(is_self(core, prepare->ballot.initiator));
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (!decision_is_near(&prepare->joiner[i], settled)
            && !joiner_is_heard(core, prepare->joiner[i].member.id))
            return true;
    return false;
}

/* All members are frozen meanwhile, and compute on. So that none takes PREPARE for lost, it goes
 * round again now and then. */
static bool joiner_awaited(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    uint64_t limit_ns =
        joiners_wait(&core->membership->joiners, core->now_ns, core->limits.enter_wait_ns);

    SPOTNIK_ASSERT(core->frozen);
    if (!decision_awaits_joiner(&agreement->prepare) || core->now_ns >= limit_ns)
        return false;
    if (agreement->phase != PHASE_JOINER)
        arm_retry(core, 3 * core->limits.retry_ns);
    phase_set(core, PHASE_JOINER);
    agreement->enter_until_ns = limit_ns;
    return true;
}

/* The wait has ended. What the joiner has told others meanwhile only a PREPARE tells: it goes round
 * once more, and no member waits again when it is back. Else a joiner that had come near long ago
 * would be left out, every time anew. */
enum ballot_next joiner_overdue(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;

    SPOTNIK_ASSERT(agreement->phase == PHASE_JOINER);
    bool again = core->now_ns >= core->membership->joiners.limit_ns
                 && decision_awaits_joiner(&agreement->prepare) && asks_elsewhere(core);
    return again ? BALLOT_START : BALLOT_DECIDE;
}

static enum ballot_next propose(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;

    if (joiner_awaited(core))
        return BALLOT_WAITS;
    agreement->enter_until_ns = SPOTNIK_NEVER;
    phase_set(core, PHASE_ACCEPT);
    spotnik_proposal_make(&agreement->accepted, &core->view, &agreement->prepare,
                          core->limits.members_max);
    return BALLOT_ACCEPT;
}

static enum ballot_next decide(struct spotnik_core *core, enum decision decision)
{
    switch (decision) {
    case DECISION_TIED:
        if (!witness_is_awaited(core))
            ballot_park(core);
        break;
    case DECISION_PARK:
        ballot_park(core);
        break;
    case DECISION_EXCLUDED:
        become(core, SPOTNIK_ROLE_EXCLUDED); /* as if we had not come in yet */
        break;
    case DECISION_AGAIN:
        return BALLOT_START;
    case DECISION_PROPOSE:
        return propose(core);
    }
    return BALLOT_WAITS;
}

/* Members that are silent, and not asked, may be well. The ring looks for them. */
static bool tree_missed(struct agreement *agreement)
{
    if (!agreement->tree.on || agreement->tree.missed)
        return false;
    agreement->tree.missed = tree_prepare_has_missed(&agreement->prepare);
    return agreement->tree.missed;
}

/* PREPARE holds every promise there is: decide (P1), or park. */
enum ballot_next prepare_returned(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;

    SPOTNIK_ASSERT(core->frozen);
    SPOTNIK_ASSERT(agreement->phase != PHASE_NONE);
    SPOTNIK_ASSERT(is_self(core, agreement->prepare.ballot.initiator));
    agreement->prepare_at = (struct spotnik_id){ 0 };
    if (!agreement->tree.on)
        evidence_learn(core, &agreement->prepare);
    apply_sign(core);
    if (tree_missed(agreement))
        return BALLOT_START;
    core->status.reconciled_ns = core->now_ns;
    struct decision_input in = { .view = &core->view,
                                 .prepare = &agreement->prepare,
                                 .named = witness_has_named_us(core),
                                 .any_quorum = SPOTNIK_IS_PLANTED(core, ANY_QUORUM) };
    return decide(core, decision_of(&in));
}

static void fence(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    uint32_t near = 0, rank = accept_fence(agreement, &core->view, 0, &near);

    while (rank != SPOTNIK_NO_RANK) {
        struct peer *peer = peer_find(core, core->view.entry[rank].member.id);
        if (peer && peer->linked)
            send_message(core, peer, SPOTNIK_MESSAGE_FENCED);
        rank = accept_fence(agreement, &core->view, rank + 1, &near);
    }
}

/* The accepted proposal is our vote. */
enum ballot_next proposal_accept(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;

    SPOTNIK_ASSERT(core->frozen);
    if (agreement->accepted.brief.run_count == 0)
        spotnik_brief_make(&agreement->accepted, &core->view, core->limits.brief_members);
    fence(core);
    if (agreement->tree.on)
        return tree_vote(core);
    const struct spotnik_member *next = accept_next(agreement, core->self.id);
    if (!next)
        return BALLOT_CHOSEN;
    pass_send(core, PASS_ACCEPT, next);
    return BALLOT_WAITS;
}
