/* SPDX-License-Identifier: Apache-2.0 */
/* RESTART, the third pass: install the chosen view. The one place where the epoch changes. Rules:
 * docs/protocol.md 8. */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* Members that went and came, for status; the view is still the old one. */
static void count_changes(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    struct spotnik_core_status *status = &core->status;
    struct view_changes changes =
        view_changes_of(&core->view, core->membership->evidence_table.known,
                        &core->membership->agreement.prepare, proposal);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    status->last_lost = changes.lost;
    status->last_ended = changes.ended;
    status->last_silent = changes.silent;
    status->last_left = changes.left;
    status->last_joined = changes.joined;
    status->losses += changes.lost;
    status->leaves += changes.left;
    status->joins += changes.joined;
}

static uint32_t rank_to_be(const struct spotnik_proposal *proposal, struct spotnik_id id)
{
    uint32_t rank = 0, at = spotnik_proposal_find(proposal, id);

    SPOTNIK_ASSERT(proposal->entry_count <= proposal->entry_max);
    if (at == SPOTNIK_NO_RANK || !(proposal->entry[at].flags & SPOTNIK_ENTRY_MEMBER))
        return SPOTNIK_NO_RANK;
    for (uint32_t i = 0; i < at; i++)
        rank += (proposal->entry[i].flags & SPOTNIK_ENTRY_MEMBER) != 0;
    return rank;
}

/* Members that we saw end before this view was installed: a joiner on its way in, while we were
 * one, or a member that had moved on to this very view. The end counts as it would have in this
 * view. */
static void carry_ends(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        const struct peer *peer = &core->membership->peer[i];
        if (!peer->used || peer->end.ended == SPOTNIK_EVIDENCE_NONE)
            continue;
        uint32_t rank = rank_to_be(proposal, peer->member.id);
        if (rank == SPOTNIK_NO_RANK)
            continue;
        core->membership->evidence_table.known[rank].evidence =
            spotnik_evidence_merge(core->membership->evidence_table.known[rank].evidence,
                                   (uint8_t)peer_end_worth(&peer->end, proposal->epoch));
    }
}

static void forget_decision(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->chosen.epoch == core->view.epoch);
    core->frozen = false;
    phase_set(core, PHASE_NONE);
    tree_leave(core);
    ballot_view(&core->membership->agreement, core->limits.members_max);
    joiners_view(&core->membership->joiners);
    evidence_table_view(&core->membership->evidence_table, core->limits.members_max);
}

/* What the chosen proposal says of steps and samples becomes ours. */
static void settle(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(!core->frozen);
    if (core->step.committed == proposal->settled_step) {
        spotnik_ledger_copy(&core->ledger, &proposal->ledger);
        core->ledger_known = true;
    }
    spotnik_transaction_cut(&core->step);
    enter_end(&core->membership->entering);
    leave_view(&core->membership->leaving, core->now_ns, core->limits.stagger_ns);
}

/* Not in the new view: a leaver is done; any other joins again as a new member. */
static void step_aside(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    uint32_t at = spotnik_proposal_find(proposal, core->self.id);
    bool left = core->membership->leaving.wanted && at != SPOTNIK_NO_RANK;

    spotnik_proposal_copy(&core->chosen, proposal);
    view_settle(core);
    if (left) {
        evidence_table_clear(&core->membership->evidence_table, core->limits.members_max);
        evidence_table_view(&core->membership->evidence_table, core->limits.members_max);
        restart_broadcast(core);
    }
    become(core, left ? SPOTNIK_ROLE_LEFT : SPOTNIK_ROLE_EXCLUDED);
}

/* Our replica must be the one the view goes on from: at the settled step, or one behind and marked
 * so. */
static bool fits(const struct spotnik_core *core, const struct spotnik_proposal *proposal,
                 uint32_t at)
{
    SPOTNIK_ASSERT(at < proposal->entry_count);
    if (core->role == SPOTNIK_ROLE_MEMBER && (proposal->entry[at].flags & SPOTNIK_ENTRY_JOINER))
        /* we were left out in between, and are let in for what we had asked as a joiner, long
         * ago */
        return false;
    if (proposal->entry[at].flags & SPOTNIK_ENTRY_LAGGARD)
        return core->step.committed + 1 == proposal->settled_step
               || core->step.committed == proposal->settled_step;
    return core->step.committed == proposal->settled_step;
}

static void audit_digests(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->view.epoch == core->chosen.epoch);
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        digest_view_peer(core->membership->peer[i].compared);
    digest_view(&core->membership->digests, core->view.epoch, core->chosen.settled_step);
}

static bool pause_ends_with(const struct spotnik_core *core,
                            const struct spotnik_proposal *proposal)
{
    const struct membership *membership = core->membership;
    return pause_check_ends_with(&membership->pause, membership->agreement.promised_ns,
                                 membership->agreement.promised, proposal->ballot);
}

static void audit_pause(struct spotnik_core *core, bool ends)
{
    struct pause_input in = pause_input(core);
    pause_check_view(&core->membership->pause, &in, ends);
    core->paused = core->membership->pause.on;
}

/* What was known of the old view goes over to the new one, or is void in it. */
static void carry_evidence(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    struct evidence_table *table = &core->membership->evidence_table;

    if (core->role == SPOTNIK_ROLE_MEMBER)
        /* PREPARE of the old epoch is void: its array is free */
        evidence_table_carry(table, &core->view, proposal,
                             core->membership->agreement.prepare.report);
    else
        evidence_table_clear(table, core->limits.members_max);
    carry_ends(core, proposal);
}

/* The proposal becomes our view. */
static void enter_view(struct spotnik_core *core, struct spotnik_proposal *proposal)
{
    bool next = core->view.epoch == 0
                || (core->role == SPOTNIK_ROLE_MEMBER && proposal->epoch == core->view.epoch + 1);

    role_set(core, SPOTNIK_ROLE_MEMBER);
    if (next && proposal->brief.run_count == 0)
        spotnik_brief_make(proposal, &core->view, core->limits.brief_members);
    spotnik_proposal_copy(&core->chosen, proposal);
    view_settle(core);
    core->rank = spotnik_view_rank(&core->view, core->self.id);
    forget_decision(core);
    step_view(core);
    settle(core, proposal);
    audit_digests(core);
}

/* The instants from which the view counts, and what it makes of our joiners. */
static void begin_view(struct spotnik_core *core)
{
    struct membership *membership = core->membership;

    core->status.restarted_ns = core->now_ns;
    membership->heartbeat_ns = core->now_ns;
    membership->settle_ns =
        spotnik_time_add(core->now_ns, core->limits.heartbeat_ns << membership->settles);
    for (uint32_t i = 0; i < core->view.size; i++)
        joiners_remove(&membership->joiners, core->view.entry[i].member.id);
}

enum ballot_next view_install(struct spotnik_core *core, struct spotnik_proposal *proposal)
{
    uint32_t at = spotnik_proposal_find(proposal, core->self.id);
    bool stays = at != SPOTNIK_NO_RANK && (proposal->entry[at].flags & SPOTNIK_ENTRY_MEMBER);
    bool ends_pause = pause_ends_with(core, proposal);

    SPOTNIK_ASSERT(proposal->epoch > core->view.epoch || core->role == SPOTNIK_ROLE_JOINER);
    if (!stays || !fits(core, proposal, at)) {
        step_aside(core, proposal);
        return BALLOT_WAITS;
    }
    if (core->role == SPOTNIK_ROLE_MEMBER) {
        count_changes(core, proposal);
        joiners_left_out(core, proposal);
    }
    carry_evidence(core, proposal);
    enter_view(core, proposal);
    begin_view(core);
    queue_action(core, SPOTNIK_ACTION_VIEW)->epoch = core->view.epoch;
    restart_broadcast(core);
    peers_after_view(core);
    audit_pause(core, ends_pause);
    step_go_on(core);
    return BALLOT_INSTALLED;
}
