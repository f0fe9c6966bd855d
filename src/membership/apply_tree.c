/* SPDX-License-Identifier: Apache-2.0 */
/* Passes by a tree, carried out on the core: what tree_prepare.c and tree_accept.c decide is sent
 * here. Rules: docs/protocol.md 5. */
#include "base/assert.h"
#include "membership/membership.h"

/* A ballot is over. A member that it was about to ask has not learnt of us. */
void tree_leave(struct spotnik_core *core)
{
    struct spotnik_tree_prepare *tree = &core->membership->agreement.tree;

    for (uint32_t i = 0; i < core->membership->peer_top && tree->on; i++) {
        struct peer *peer = &core->membership->peer[i];
        uint32_t rank = peer->used && peer->sought ? peer_rank(core, peer) : SPOTNIK_NO_RANK;
        if (rank != SPOTNIK_NO_RANK && tree_bit(tree->sent, rank))
            peer_unseek(peer);
    }
    tree_prepare_end(tree);
}

/* Is a member silent for no reason that we know? When one has closed its link, as the dead do, a
 * refused dial is about to prove the end: before the tree has come up. */
bool tree_is_silent(struct spotnik_core *core)
{
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (core->membership->evidence_table.known[rank].evidence != SPOTNIK_EVIDENCE_SILENT)
            continue;
        const struct peer *peer = peer_find(core, core->view.entry[rank].member.id);
        if (!peer || !peer->end.likely)
            return true;
    }
    return false;
}

/* A member an epoch behind must install ours before it can promise in it. */
static void deliver(struct spotnik_core *core, enum spotnik_message_kind kind, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->linked);
    SPOTNIK_ASSERT(core->frozen && core->membership->agreement.tree.on);
    tell_view(core, peer);
    peer_activate(core, peer); /* if it falls silent now, the pass is stuck there */
    send_of_ballot(core, peer, kind);
}

/* Once; and again over each new link, as long as it has not answered. Over a new link not before
 * its first word has come, which tells whether the other stands in our view: else it would have to
 * be told the view first, and whole. */
static void send(struct spotnik_core *core, enum spotnik_message_kind kind, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size && rank != core->rank);
    struct peer *peer = peer_want_near(core, &core->view.entry[rank].member, rank);
    if (peer->linked && peer->heard)
        deliver(core, kind, peer);
    else
        peer_seek(core, peer);
}

/* All below us have answered, or have ended. */
static enum ballot_next answer(struct spotnik_core *core)
{
    struct spotnik_tree_prepare *tree = &core->membership->agreement.tree;

    SPOTNIK_ASSERT(tree->on && !tree->answered);
    tree->answered = true;
    if (tree->origin == core->rank)
        return BALLOT_DECIDE;
    for (uint32_t i = 0; i < tree->asker_count; i++) {
        struct peer *peer = peer_find(core, tree->asker[i]);
        if (peer && peer->linked)
            send_of_ballot(core, peer, SPOTNIK_MESSAGE_PROMISE);
    }
    return BALLOT_WAITS;
}

/* Ask all that are to be asked by us, and answer if none is awaited any more. */
enum ballot_next tree_ask(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    uint32_t rank;

    if (!agreement->tree.on || agreement->tree.answered)
        return BALLOT_WAITS;
    struct agreement_input in = agreement_input(core);
    if (tree_prepare_is_orphan(agreement, &in))
        return BALLOT_START;
    while (tree_prepare_next(agreement, &in, &rank))
        send(core, SPOTNIK_MESSAGE_ASK, rank);
    return tree_prepare_is_whole(agreement, &in) ? answer(core) : BALLOT_WAITS;
}

static void say_accepted(struct spotnik_core *core)
{
    struct peer *peer = peer_find(core, core->membership->agreement.tree.teller);

    SPOTNIK_ASSERT(core->membership->agreement.tree.accepted);
    if (peer && peer->linked)
        send_of_ballot(core, peer, SPOTNIK_MESSAGE_ACCEPTED);
}

/* Have all voters below us accepted? Then the one above us hears it; the initiator installs. */
enum ballot_next tree_conclude(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    struct agreement_input in = agreement_input(core);

    if (!tree_accept_concludes(agreement, &in))
        return BALLOT_WAITS;
    if (agreement->tree.origin != core->rank) {
        say_accepted(core);
        return BALLOT_WAITS;
    }
    core->status.accepted_ns = core->now_ns;
    return BALLOT_CHOSEN;
}

/* The accepted proposal is our vote, and those that do not vote have been told. */
enum ballot_next tree_vote(struct spotnik_core *core)
{
    struct agreement *agreement = &core->membership->agreement;
    struct agreement_input in = agreement_input(core);
    uint32_t rank;

    tree_prepare_turn(&agreement->tree);
    while (tree_accept_next(agreement, &in, &rank))
        send(core, SPOTNIK_MESSAGE_ACCEPT, rank);
    return tree_conclude(core);
}

/* ACCEPT has come once more, perhaps over another link. */
void tree_again(struct spotnik_core *core, const struct peer *from)
{
    core->membership->agreement.tree.teller = from->member.id;
    if (core->membership->agreement.tree.accepted)
        say_accepted(core);
}

/* Is something for it that may not have reached it? */
bool tree_seeks(const struct spotnik_core *core, const struct peer *peer)
{
    const struct spotnik_tree_prepare *tree = &core->membership->agreement.tree;
    uint32_t rank = tree->on ? peer_rank(core, peer) : SPOTNIK_NO_RANK;

    return rank != SPOTNIK_NO_RANK && tree_bit(tree->sent, rank);
}

/* The first word on a new link, from a member that we had asked, or told: what we said may be
 * lost. */
void tree_flush(struct spotnik_core *core, struct peer *peer)
{
    struct agreement *agreement = &core->membership->agreement;

    SPOTNIK_ASSERT(peer->linked && peer->heard);
    if (!tree_seeks(core, peer))
        return;
    uint32_t rank = peer_rank(core, peer);
    struct agreement_input in = agreement_input(core);
    if (!agreement->tree.answered && !agreement->prepare.report[rank].promised)
        deliver(core, SPOTNIK_MESSAGE_ASK, peer);
    else if (tree_accept_awaits(agreement, &in, rank))
        deliver(core, SPOTNIK_MESSAGE_ACCEPT, peer);
}
