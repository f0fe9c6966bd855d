/* SPDX-License-Identifier: Apache-2.0 */
/* PREPARE, the first pass: starting a ballot, signing PREPARE as it passes, judging it when it
 * has come round. The promise is what makes everything after safe: it freezes this member (no
 * commit any more in this epoch) and binds it to no lower ballot (docs/design/0001-core.md). */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* A recovery lasts from the first sign of it to the first commit in a new view; what happens in
 * between only extends it. A sign that was taken back is none: a suspicion of long ago must not
 * make the next view look as if it had taken as long. */
static void recovery_note(struct spotnik_core *core)
{
    struct spotnik_core_status *status = &core->status;
    if (status->committed_ns || !status->detected_ns) {
        status->detected_ns = core->membership->evidence_table.suspected_ns
                                  ? core->membership->evidence_table.suspected_ns
                                  : core->now_ns;
        status->reconciled_ns = status->accepted_ns = status->restarted_ns = status->committed_ns =
            0;
    }
}

void freeze(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(!core->frozen || core->membership->frozen_ns <= core->now_ns);
    recovery_note(core);
    if (core->frozen)
        return;
    core->frozen = true;
    core->membership->frozen_ns = core->now_ns;
    queue_action(core, SPOTNIK_ACTION_FROZEN);
}

void prepare_clear(struct spotnik_core *core)
{
    struct spotnik_prepare *prepare = &core->membership->prepare;

    SPOTNIK_ASSERT(core->membership->promised.round > 0);
    SPOTNIK_ASSERT(core->frozen);
    prepare->ballot = core->membership->promised;
    prepare->parked = core->membership->parked;
    prepare->report_count = core->view.size;
    memset(prepare->report, 0, core->view.size * sizeof(*prepare->report));
    prepare->joiner_count = 0;
    spotnik_ledger_copy(&prepare->ledger, &core->ledger);
    prepare->ledger_step = core->ledger_known ? core->step.committed : SPOTNIK_NO_LEDGER;
    prepare->accepted_ballot = (struct spotnik_ballot){ 0 };
}

enum ballot_next ballot_start(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->membership->promised.round > core->membership->round_seen)
        core->membership->round_seen = core->membership->promised.round;
    core->membership->promised = (struct spotnik_ballot){ .round = ++core->membership->round_seen,
                                                          .initiator = core->self.id };
    core->membership->promised_ns = core->now_ns;
    phase_set(core, PHASE_PREPARE);
    core->status.ballots_started++;
    core->membership->enter_until_ns = SPOTNIK_NEVER;
    core->membership->evidence_table.initiate_ns = SPOTNIK_NEVER;
    /* A hop still being dialled belonged to an older ballot: this one's PREPARE must not leave
     * twice. */
    pass_cancel(core, PASS_PREPARE);
    pass_cancel(core, PASS_ACCEPT);
    tree_prepare_end(core);
    core->membership->prepare_at = (struct spotnik_id){ 0 };
    freeze(core);
    core->status.reconciled_ns = core->status.accepted_ns = 0;
    prepare_clear(core);
    prepare_sign(core);
    arm_retry(core, core->limits.retry_ns);
    if (!tree_prepare_is_due(core))
        return BALLOT_FORWARD;
    tree_prepare_tell_ended(core);
    tree_prepare_begin(core, core->rank);
    return BALLOT_ASK;
}

/* A ballot of another, higher than any that we have promised. */
void ballot_promise(struct spotnik_core *core, struct spotnik_ballot ballot, bool parked)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(spotnik_ballot_compare(ballot, core->membership->promised) > 0);
    core->membership->promised = ballot;
    core->membership->promised_ns = core->now_ns;
    phase_set(core, PHASE_NONE);
    core->membership->evidence_table.initiate_ns = core->membership->enter_until_ns = UINT64_MAX;
    if (ballot.round > core->membership->round_seen)
        core->membership->round_seen = ballot.round;
    freeze(core);
    if (parked && !core->membership->parked) {
        core->membership->parked = true;
        queue_action(core, SPOTNIK_ACTION_PARKED);
    }
    /* A hop still being dialled belonged to an older ballot. */
    pass_cancel(core, PASS_PREPARE);
    pass_cancel(core, PASS_ACCEPT);
    tree_prepare_end(core);
    core->membership->prepare_at = (struct spotnik_id){ 0 };
}

static void sign_joiners(struct spotnik_core *core)
{
    struct spotnik_prepare *prepare = &core->membership->prepare;

    joiners_expire(core);
    for (uint32_t i = 0; i < core->membership->joiners.count; i++) {
        const struct spotnik_enter *enter = &core->membership->joiners.joiner[i].enter;
        uint32_t at = 0;
        while (at < prepare->joiner_count
               && !spotnik_id_equal(prepare->joiner[at].member.id, enter->member.id))
            at++;
        if (at == prepare->joiner_count) {
            if (at == SPOTNIK_JOINERS_MAX)
                return;
            prepare->joiner[prepare->joiner_count++] = *enter;
        } else if (prepare->joiner[at].committed < enter->committed) {
            prepare->joiner[at].committed = enter->committed;
        }
    }
}

/* Our promise, our report, all we know. */
void prepare_sign(struct spotnik_core *core)
{
    struct spotnik_prepare *prepare = &core->membership->prepare;
    struct step_report step = step_report(core);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    SPOTNIK_ASSERT(prepare->report_count == core->view.size);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        struct spotnik_report *report = &prepare->report[rank];
        /* silent to us, but it has spoken */
        if (!report->promised
            || core->membership->evidence_table.known[rank].evidence != SPOTNIK_EVIDENCE_SILENT)
            report->evidence =
                spotnik_evidence_merge(report->evidence,
                                       core->membership->evidence_table.known[rank].evidence);
        report->leaving |= core->membership->evidence_table.known[rank].leaving;
        core->membership->evidence_table.covered[rank] = true;
    }
    prepare->report[core->rank] =
        (struct spotnik_report){ .promised = 1,
                                 .leaving = core->membership->leaving.wanted,
                                 .begun = core->step.begun,
                                 .bare = core->membership->copied_step
                                         && core->step.committed == core->membership->copied_step,
                                 .committed = core->step.committed,
                                 .share = step.share,
                                 .share_count = step.shares,
                                 .apart = step.apart,
                                 .cut = path_sign(core) };
    sign_joiners(core);
    if (core->ledger_known
        && (prepare->ledger_step == SPOTNIK_NO_LEDGER
            || core->step.committed >= prepare->ledger_step)) {
        spotnik_ledger_copy(&prepare->ledger, &core->ledger);
        prepare->ledger_step = core->step.committed;
    }
    if (core->membership->accepted.ballot.round && !SPOTNIK_IS_PLANTED(core, IGNORE_ACCEPTED)
        && spotnik_ballot_compare(core->membership->accepted.ballot, prepare->accepted_ballot)
               > 0) {
        prepare->accepted_ballot = core->membership->accepted.ballot;
        spotnik_proposal_copy(&prepare->accepted, &core->membership->accepted);
        bool whole = proposal_unpack(core, &prepare->accepted);
        SPOTNIK_ASSERT(whole);
    }
}

static bool lost(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return spotnik_evidence_out(core->membership->prepare.report[rank].evidence)
           || core->membership->evidence_table.suspected_by_peer[rank];
}

/* To the next member in ring order that is not out; when that is the initiator, the circle is
 * closed. A PREPARE whose initiator is dead would go nowhere: its holder bids higher. */
enum ballot_next prepare_forward(struct spotnik_core *core)
{
    struct spotnik_prepare *prepare = &core->membership->prepare;
    uint32_t origin = spotnik_view_rank(&core->view, prepare->ballot.initiator);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    if (origin == SPOTNIK_NO_RANK || (origin != core->rank && lost(core, origin)))
        return BALLOT_START;
    for (uint32_t ahead = 1; ahead < core->view.size; ahead++) {
        uint32_t rank = (core->rank + ahead) % core->view.size;
        bool done = prepare->report[rank].promised && rank != origin;
        if (lost(core, rank) || done || (rank != origin && evidence_is_quiet(core, rank)))
            continue;
        pass_send(core, PASS_PREPARE, &core->view.entry[rank].member);
        return BALLOT_WAITS;
    }
    SPOTNIK_ASSERT(origin == core->rank);
    return BALLOT_DECIDE; /* no other member is left */
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

void ballot_park(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    phase_set(core, PHASE_PARKED);
    core->membership->enter_until_ns = SPOTNIK_NEVER;
    core->membership->retries++;
    arm_retry(core, core->limits.retry_ns);
    redial_silent(core);
    if (core->membership->parked)
        return;
    core->membership->parked = true;
    queue_action(core, SPOTNIK_ACTION_PARKED);
}

/* May one of them be near by now, as another member has heard? A joiner asks one sponsor, and
 * another one when the first has done nothing for long, as we while it rested. */
static bool asks_elsewhere(const struct spotnik_core *core)
{
    const struct spotnik_prepare *prepare = &core->membership->prepare;
    uint64_t settled = spotnik_proposal_settled(prepare);

    SPOTNIK_ASSERT(is_self(core, prepare->ballot.initiator));
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (!decision_is_near(&prepare->joiner[i], settled)
            && !joiner_is_heard(core, prepare->joiner[i].member.id))
            return true;
    return false;
}

/* Everybody is frozen meanwhile, and computes on. So that nobody takes PREPARE for lost, it goes
 * round again now and then. */
static bool joiner_awaited(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    uint64_t limit_ns =
        joiners_wait(&core->membership->joiners, core->now_ns, core->limits.enter_wait_ns);
    if (!decision_awaits_joiner(&core->membership->prepare) || core->now_ns >= limit_ns)
        return false;
    if (core->membership->phase != PHASE_JOINER)
        arm_retry(core, 3 * core->limits.retry_ns);
    phase_set(core, PHASE_JOINER);
    core->membership->enter_until_ns = limit_ns;
    return true;
}

/* The wait has ended. What the joiner has told others meanwhile only a PREPARE tells: it goes round
 * once more, and nobody waits again when it is back. Else a joiner that had come near long ago
 * would be left out, every time anew. */
enum ballot_next joiner_overdue(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->phase == PHASE_JOINER);
    bool again = core->now_ns >= core->membership->joiners.limit_ns
                 && decision_awaits_joiner(&core->membership->prepare) && asks_elsewhere(core);
    return again ? BALLOT_START : BALLOT_DECIDE;
}

/* Members that are silent, and not asked, may be well. The ring looks for them. */
static bool tree_missed(struct spotnik_core *core)
{
    if (core->membership->tree.missed || !tree_prepare_has_missed(core))
        return false;
    core->membership->tree.missed = true;
    return true;
}

static enum ballot_next propose(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (joiner_awaited(core))
        return BALLOT_WAITS;
    core->membership->enter_until_ns = SPOTNIK_NEVER;
    phase_set(core, PHASE_ACCEPT);
    spotnik_proposal_make(&core->membership->accepted, &core->view, &core->membership->prepare,
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

/* PREPARE holds every promise there is: decide (P1), or park. */
enum ballot_next prepare_returned(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    SPOTNIK_ASSERT(core->membership->phase != PHASE_NONE);
    SPOTNIK_ASSERT(is_self(core, core->membership->prepare.ballot.initiator));
    core->membership->prepare_at = (struct spotnik_id){ 0 };
    if (!core->membership->tree.on)
        evidence_learn(core, &core->membership->prepare);
    prepare_sign(core);
    if (core->membership->tree.on && tree_missed(core))
        return BALLOT_START;
    core->status.reconciled_ns = core->now_ns;
    SPOTNIK_ASSERT(core->membership->prepare.report[core->rank].promised);
    struct decision_input in = { .view = &core->view,
                                 .prepare = &core->membership->prepare,
                                 .named = witness_has_named_us(core),
                                 .any_quorum = SPOTNIK_IS_PLANTED(core, ANY_QUORUM) };
    return decide(core, decision_of(&in));
}

/* Somebody has promised having committed more than we: everybody contributed to that, and so had
 * committed what we have. A donor could not know it otherwise while all are frozen, waiting for the
 * very joiner that wants this step. */
bool ballot_is_outrun(const struct spotnik_core *core)
{
    const struct spotnik_prepare *prepare = &core->membership->prepare;

    SPOTNIK_ASSERT(!core->membership->promised.round || core->frozen);
    if (!core->frozen || !core->membership->promised.round
        || spotnik_ballot_compare(prepare->ballot, core->membership->promised) != 0)
        return false;
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (prepare->report[rank].promised
            && prepare->report[rank].committed > core->step.committed)
            return true;
    return false;
}
