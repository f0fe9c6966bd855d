/* SPDX-License-Identifier: Apache-2.0 */
/* Messages. A SEND in the queue names only the kind of message. Its body is read from the core's
 * state when the driver polls, which it does after every event: no message is copied or allocated.
 * Rules: docs/protocol.md 3 and 9. */
#include "base/assert.h"
#include "membership/membership.h"

void send_message(struct spotnik_core *core, struct peer *peer, enum spotnik_message_kind kind)
{
    SPOTNIK_ASSERT(kind < SPOTNIK_MESSAGE_KIND_COUNT);
    SPOTNIK_ASSERT(peer->linked);
    queue_action(core, SPOTNIK_ACTION_SEND)->send.to = peer->member;
    queue_last(core)->message = kind;
    core->status.messages_sent += kind != SPOTNIK_MESSAGE_HEARTBEAT;
}

/* These belong to no recovery: they are not counted. */
void send_serial(struct spotnik_core *core, struct peer *peer, enum spotnik_message_kind kind,
                 uint64_t serial)
{
    SPOTNIK_ASSERT(kind == SPOTNIK_MESSAGE_PAUSE_CHECK || kind == SPOTNIK_MESSAGE_PAUSE_ACK);
    send_message(core, peer, kind);
    core->status.messages_sent--;
    queue_last(core)->serial = serial;
}

/* To a member that we are linked to. */
void pause_check_send(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used);
    if (peer->linked && peer_rank(core, peer) != SPOTNIK_NO_RANK)
        send_serial(core, peer, SPOTNIK_MESSAGE_PAUSE_CHECK, core->membership->pause.serial);
}

/* A word of the promised ballot. It is void if we promise another before it is sent. */
void send_of_ballot(struct spotnik_core *core, struct peer *peer, enum spotnik_message_kind kind)
{
    SPOTNIK_ASSERT(core->membership->agreement.tree.on);
    send_message(core, peer, kind);
    queue_last(core)->ballot = core->membership->agreement.promised;
}

/* RESTART goes to a peer that is behind before anything of our epoch does: links are FIFO, so a
 * peer never gets a PREPARE of an epoch it has not installed. */
void tell_view(struct spotnik_core *core, struct peer *peer)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || !peer->linked || peer->told_epoch >= core->view.epoch)
        return;
    peer->told_epoch = core->view.epoch;
    send_message(core, peer, SPOTNIK_MESSAGE_RESTART);
}

/* Two members run different programs, and no member can know which of them is right: all end. Each
 * tells those it is linked to, since a member is linked to some of the others only. */
void mismatch_end(struct spotnik_core *core, const struct spotnik_mismatch *found)
{
    core->membership->mismatch = *found;
    for (uint32_t i = 0; i < core->membership->peer_top; i++)
        if (core->membership->peer[i].used && core->membership->peer[i].linked)
            send_message(core, &core->membership->peer[i], SPOTNIK_MESSAGE_MISMATCH);
    fail(core, SPOTNIK_ERR_MISMATCH);
}

static const struct spotnik_message *compose(struct spotnik_core *core,
                                             enum spotnik_message_kind kind)
{
    SPOTNIK_ASSERT(kind < SPOTNIK_MESSAGE_KIND_COUNT);
    SPOTNIK_ASSERT(kind != SPOTNIK_MESSAGE_RESTART || core->chosen.epoch == core->view.epoch);
    core->outgoing = (struct spotnik_message){ .kind = kind,
                                               .epoch = core->view.epoch,
                                               .committed = core->step.committed };
    if (kind == SPOTNIK_MESSAGE_PREPARE || kind == SPOTNIK_MESSAGE_PROMISE)
        core->outgoing.prepare = &core->membership->agreement.prepare;
    else if (kind == SPOTNIK_MESSAGE_ACCEPT)
        core->outgoing.proposal = &core->membership->agreement.accepted;
    else if (kind == SPOTNIK_MESSAGE_RESTART)
        core->outgoing.proposal = &core->chosen;
    else if (kind == SPOTNIK_MESSAGE_ENTER)
        core->outgoing.enter =
            (struct spotnik_enter){ .member = core->self, .committed = core->step.committed };
    else if (kind == SPOTNIK_MESSAGE_MISMATCH)
        core->outgoing.mismatch = core->membership->mismatch;
    if (kind == SPOTNIK_MESSAGE_ENTER)
        core->outgoing.unmet = core->membership->entering.unmet;
    if (kind == SPOTNIK_MESSAGE_ASK || kind == SPOTNIK_MESSAGE_ACCEPTED)
        core->outgoing.ballot = core->membership->agreement.promised;
    if (kind == SPOTNIK_MESSAGE_ASK)
        core->outgoing.ended = core->membership->agreement.tree.ended;
    return &core->outgoing;
}

/* A word by a tree of a ballot that is over, or a pass of an epoch that a view has ended in the
 * same event: its body is gone, and no member waits for it. */
static bool is_void(const struct spotnik_core *core, const struct queued_action *slot)
{
    SPOTNIK_ASSERT(slot->action.kind == SPOTNIK_ACTION_SEND);
    bool pass = slot->message == SPOTNIK_MESSAGE_PREPARE || slot->message == SPOTNIK_MESSAGE_ACCEPT;
    bool outbid =
        slot->ballot.round != 0
        && spotnik_ballot_compare(slot->ballot, core->membership->agreement.promised) != 0;
    return outbid || (pass && slot->epoch != core->view.epoch);
}

/* A voter has promised, and so stands in the view before the one that was chosen, or further:
 * RESTART may speak of that view. Any other needs all. */
static bool may_be_brief(struct spotnik_core *core, enum spotnik_message_kind kind,
                         struct spotnik_id id)
{
    const struct peer *peer = peer_find(core, id);

    if (!peer)
        return false;
    if (kind == SPOTNIK_MESSAGE_PREPARE || kind == SPOTNIK_MESSAGE_PROMISE)
        return core->view.size > core->limits.brief_members;
    if (kind == SPOTNIK_MESSAGE_ACCEPT)
        return core->membership->agreement.accepted.brief.run_count > 0;
    if (kind != SPOTNIK_MESSAGE_RESTART || core->chosen.brief.run_count == 0 || peer->wants_all)
        return false;
    uint32_t at = spotnik_proposal_find_near(&core->chosen, id, peer->rank);
    return at != SPOTNIK_NO_RANK && (core->chosen.entry[at].flags & SPOTNIK_ENTRY_VOTER);
}

bool membership_speak(struct spotnik_core *core, const struct queued_action *slot,
                      struct spotnik_action *ret)
{
    enum spotnik_message_kind kind = slot->message;
    struct spotnik_id to = slot->action.send.to.id;

    SPOTNIK_ASSERT(ret->kind == SPOTNIK_ACTION_SEND);
    if (is_void(core, slot))
        return false;
    ret->send.message = compose(core, kind);
    core->outgoing.serial = slot->serial;
    core->outgoing.brief = may_be_brief(core, kind, to);
    if (kind == SPOTNIK_MESSAGE_HEARTBEAT)
        digest_claim(&core->membership->digests, core->outgoing.digest);
    if (kind == SPOTNIK_MESSAGE_FENCED || kind == SPOTNIK_MESSAGE_HEARTBEAT || slot->serial)
        /* it is sent before the view that came in the same event, and carries the epoch before
         * it */
        core->outgoing.epoch = slot->epoch;
    return true;
}
