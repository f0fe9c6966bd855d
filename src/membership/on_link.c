/* SPDX-License-Identifier: Apache-2.0 */
/* LINK_UP, LINK_DOWN, DIAL_FAILED, DEATH, CHANNEL_DOWN, PATH_DOWN: what the end of a connection
 * proves, and what it does not (src/member/evidence.h). Rules: docs/protocol.md 4. */
#include "base/assert.h"
#include "membership/membership.h"

/* Before anything else on a new link: hearing from it may start a ballot, whose PREPARE must not
 * overtake this. */
static void say_fenced(struct spotnik_core *core, struct peer *peer)
{
    uint32_t rank = peer_rank(core, peer);

    SPOTNIK_ASSERT(peer->linked);
    if (core->role == SPOTNIK_ROLE_MEMBER && rank != SPOTNIK_NO_RANK
        && core->membership->agreement.fenced[rank])
        send_message(core, peer, SPOTNIK_MESSAGE_FENCED);
}

void on_link_up(struct spotnik_core *core, const struct spotnik_member *member)
{
    struct peer *peer = peer_want(core, member);

    peer->linked = true;
    peer->dialling = false;
    peer->told_epoch = 0;
    peer->wants_all = false;
    if (!peer->end.certified)
        /* what had looked like its end was none; a certificate outlives a link that comes up
         * late */
        peer->end.ended = SPOTNIK_EVIDENCE_NONE;
    peer->end.likely = false;
    say_fenced(core, peer);
    evidence_hear(core, peer);
    peer->heard = false; /* until a message comes */
    if (core->role == SPOTNIK_ROLE_JOINER) {
        send_message(core, peer,
                     core->view.size ? SPOTNIK_MESSAGE_HEARTBEAT : SPOTNIK_MESSAGE_VIEW_ASK);
        enter_send(core);
        return;
    }
    /* tells our epoch: a peer that is behind gets the view */
    send_message(core, peer, SPOTNIK_MESSAGE_HEARTBEAT);
    audit_link(core, peer);
    pass_flush(core, peer);
    if (!tree_seeks(core, peer))
        peer_unseek(peer); /* it was to be told of a view, as it will be if it is behind */
}

/* `clean`: a link on which it had spoken delivered its last words. Its first words on a link are
 * FENCED if there is cause, so a link that ended before any word proves nothing. */
static void proven(struct spotnik_core *core, struct peer *peer, bool clean)
{
    uint32_t rank = peer_rank(core, peer);

    joiner_forget(core, peer->member.id);
    peer->end.ended = spotnik_evidence_merge(peer->end.ended, clean ? SPOTNIK_EVIDENCE_GONE
                                                                    : SPOTNIK_EVIDENCE_TAINTED);
    if (rank == SPOTNIK_NO_RANK || core->role != SPOTNIK_ROLE_MEMBER) {
        /* It and we may yet stand in one view: a proposal that holds it may be under way (see
         * carry_ends()). */
        enter_lose(core, peer);
        return;
    }
    evidence_add(core, rank, peer_end_worth(&peer->end, core->view.epoch));
}

/* The connection it spoke on was closed: most likely by its kernel, but a proxy that starts
 * again does the same to all. It is lost until it is heard again, and it is dialled: where it has
 * died its kernel tells that a second time. A ballot must come in any case, since data may be lost
 * with the link. */
static void vanished(struct spotnik_core *core, struct peer *peer)
{
    uint32_t rank = peer_rank(core, peer);

    SPOTNIK_ASSERT(peer->used && !peer->linked);
    peer_dial(core, peer);
    if (rank == SPOTNIK_NO_RANK || core->role != SPOTNIK_ROLE_MEMBER) {
        joiner_forget(core, peer->member.id);
        enter_lose(core, peer);
        return;
    }
    if (!spotnik_evidence_out(core->membership->evidence_table.known[rank].evidence))
        freeze(core);
    evidence_add(core, rank, SPOTNIK_EVIDENCE_SILENT);
}

static bool watched(const struct spotnik_core *core, const struct peer *peer)
{
    return core->role == SPOTNIK_ROLE_MEMBER && peer->active
           && peer_rank(core, peer) != SPOTNIK_NO_RANK;
}

void on_link_down(struct spotnik_core *core, const struct spotnik_event_ended *ended)
{
    struct peer *peer = peer_find(core, ended->peer.id);

    if (!peer || !peer->linked)
        return;
    peer->linked = false;
    bool end = ended->proof == SPOTNIK_PROOF_END || ended->proof == SPOTNIK_PROOF_LIKELY;
    peer->end.likely = ended->proof == SPOTNIK_PROOF_LIKELY && peer->heard;
    if (ended->proof == SPOTNIK_PROOF_GONE || (end && SPOTNIK_IS_PLANTED(core, END_IS_GONE))) {
        proven(core, peer, peer->heard);
        return;
    }
    if (end) {
        vanished(core, peer);
        return;
    }
    joiner_forget(core, peer->member.id);
    if (watched(core, peer))
        peer_dial(core, peer); /* either it answers, or its kernel refuses, or silence runs out */
    else
        enter_lose(core, peer);
}

void on_dial_failed(struct spotnik_core *core, const struct spotnik_event_ended *ended)
{
    struct peer *peer = peer_find(core, ended->peer.id);

    if (!peer || peer->linked)
        return;
    peer->dialling = false;
    if (ended->proof == SPOTNIK_PROOF_GONE && peer->end.likely) {
        proven(core, peer, true);
        return;
    }
    /* two things seen long after each other are no second look at one */
    peer->end.likely &= ended->proof == SPOTNIK_PROOF_LIKELY;
    uint32_t rank = peer_rank(core, peer);
    if (core->role == SPOTNIK_ROLE_MEMBER && rank != SPOTNIK_NO_RANK)
        evidence_add(core, rank, SPOTNIK_EVIDENCE_SILENT);
    else
        enter_lose(core, peer);
}

/* A certificate says itself which view the dead had voted for last. In that view, and in any later
 * one, it is worth as much as EOF, and it needs no link: a joiner may die before it is linked to
 * most of us, and its death must not cost them the quorum. It is kept, since we may be a view
 * behind the dead; and a stranger may stand in the next view. */
void on_death(struct spotnik_core *core, const struct spotnik_event_death *death)
{
    struct peer *peer = peer_want(core, &death->peer);

    peer->end.certified = true;
    peer->end.last_epoch = death->epoch;
    proven(core, peer, false);
}

/* Frames may be lost with a data connection. Its peer lives, so no other member will start a
 * ballot: the step is reduced again in a view of the same members. */
void on_channel_down(struct spotnik_core *core, const struct spotnik_member *member)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || core->frozen || core->view.size < 2)
        return;
    if (spotnik_view_rank(&core->view, member->id) != SPOTNIK_NO_RANK)
        apply_ballot(core, BALLOT_START);
}

void on_path_down(struct spotnik_core *core, const struct spotnik_member *member)
{
    uint32_t rank = spotnik_view_rank(&core->view, member->id);

    if (core->role != SPOTNIK_ROLE_MEMBER || rank == SPOTNIK_NO_RANK || rank == core->rank)
        return;
    peer_want_near(core, member, rank)->cut = true;
    path_note(core, &core->self, &core->view.entry[rank].member);
    if (!core->frozen)
        apply_ballot(core, BALLOT_START);
}
