/* SPDX-License-Identifier: Apache-2.0 */
/* The first pass by a tree, in views of many members (docs/design/0036-many-members.md). ASK goes
 * down from the initiator, and each member promises. PROMISE comes up, and brings the reports of
 * all below its sender. A member answers when each of those has answered or has ended. Those below
 * one that is out are asked in its stead. In PREPARE a promise says that all below that member
 * are told of, too: none leaves its member before.
 *
 * A tree finds the dead and the living, but not a member that is silent to the one above it alone.
 * Then, and wherever a ballot has failed, the next one goes round the ring as in small views. */
#include <string.h>

#include "base/assert.h"
#include "membership/membership.h"

static bool is_in(const uint64_t *bits, uint32_t at)
{
    return bits[at / 64] >> at % 64 & 1;
}

void tree_prepare_clear(struct spotnik_core *core)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;
    size_t bytes = (core->limits.members_max + 63) / 64 * sizeof(uint64_t);

    memset(tree->sent, 0, bytes);
    memset(tree->heard, 0, bytes);
}

/* Whom the ballot before was about to ask has not learnt of us. */
static void stop_seeking(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->tree.on);
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        struct peer *peer = &core->membership->peer[i];
        uint32_t rank = peer->used && peer->sought ? peer_rank(core, peer) : SPOTNIK_NO_RANK;
        if (rank != SPOTNIK_NO_RANK && is_in(core->membership->tree.sent, rank))
            peer_unseek(peer);
    }
}

/* The ballot that we had promised is over for us. What it still has in the queue is void. */
void tree_prepare_end(struct spotnik_core *core)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    if (!tree->on)
        return;
    stop_seeking(core);
    tree_prepare_clear(core);
    tree->on = tree->answered = tree->accepted = false;
    tree->asker_count = 0;
    tree->teller = (struct spotnik_id){ 0 };
}

/* Silent for no reason that we know. Of one that has closed its link, as the dead do, a refused
 * dial is about to prove the end: before the tree has come up. */
static bool is_silent(struct spotnik_core *core)
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

/* Do the passes of our view go by a tree? */
bool tree_prepare_is_used(const struct spotnik_core *core)
{
    return core->view.size > core->limits.tree_members;
}

/* May the ballot that we start go by a tree? */
bool tree_prepare_is_due(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return tree_prepare_is_used(core) && !core->membership->tree.missed && !core->membership->parked
           && core->membership->retries == 0 && !is_silent(core);
}

static struct tree_layout places_of(const struct spotnik_core *core)
{
    return (struct tree_layout){ .count = core->view.size,
                                 .block = core->limits.warm_count,
                                 .forked = true };
}

uint32_t tree_prepare_place(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size && core->membership->tree.origin < core->view.size);
    return (rank + core->view.size - core->membership->tree.origin) % core->view.size;
}

uint32_t tree_prepare_below(const struct spotnik_core *core, uint32_t rank,
                            uint32_t below[TREE_CHILDREN_MAX])
{
    struct tree_layout tree_layout = places_of(core);
    uint32_t count = tree_layout_below(&tree_layout, tree_prepare_place(core, rank), below);

    for (uint32_t i = 0; i < count; i++)
        below[i] = (below[i] + core->membership->tree.origin) % core->view.size;
    return count;
}

/* A member an epoch behind must install ours before it can promise in it. */
static void deliver(struct spotnik_core *core, enum spotnik_message_kind kind, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->linked);
    SPOTNIK_ASSERT(core->frozen && core->membership->tree.on);
    tell_view(core, peer);
    peer_activate(core, peer); /* if it falls silent now, the pass is stuck there */
    send_of_ballot(core, peer, kind);
}

/* Once; and again over each new link, as long as it has not answered. Over a new link not before
 * its first word has come, which tells whether the other stands in our view: else it would have to
 * be told the view first, and whole. */
void tree_prepare_send(struct spotnik_core *core, enum spotnik_message_kind kind, uint32_t rank)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    SPOTNIK_ASSERT(rank < core->view.size && rank != core->rank);
    if (is_in(tree->sent, rank))
        return;
    tree->sent[rank / 64] |= UINT64_C(1) << rank % 64;
    struct peer *peer = peer_want_near(core, &core->view.entry[rank].member, rank);
    if (peer->linked && peer->heard)
        deliver(core, kind, peer);
    else
        peer_seek(core, peer);
}

/* By its own word or another's that never fades. */
static bool is_out(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return spotnik_evidence_out(core->membership->evidence_table.known[rank].evidence)
           || core->membership->evidence_table.suspected_by_peer[rank];
}

static void ask_below(struct spotnik_core *core, uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_prepare_below(core, rank, below);

    SPOTNIK_ASSERT(core->membership->tree.on);
    for (uint32_t i = 0; i < count; i++) {
        if (core->membership->prepare.report[below[i]].promised)
            continue;
        if (is_out(core, below[i]))
            ask_below(core, below[i]);
        else
            tree_prepare_send(core, SPOTNIK_MESSAGE_ASK, below[i]);
    }
}

static bool is_whole(const struct spotnik_core *core, uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_prepare_below(core, rank, below);

    SPOTNIK_ASSERT(core->membership->tree.on);
    for (uint32_t i = 0; i < count; i++)
        if (!core->membership->prepare.report[below[i]].promised
            && !(is_out(core, below[i]) && is_whole(core, below[i])))
            return false;
    return true;
}

/* All below us have answered, or have ended. */
static enum ballot_next answer(struct spotnik_core *core)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

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

/* Ask whoever is to be asked by us, and answer if nobody is awaited any more. A ballot whose
 * initiator has ended goes nowhere: we bid higher. */
enum ballot_next tree_prepare_go(struct spotnik_core *core)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    if (!tree->on || tree->answered)
        return BALLOT_WAITS;
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER && core->frozen);
    if (tree->origin != core->rank && is_out(core, tree->origin))
        return BALLOT_START;
    ask_below(core, core->rank);
    return is_whole(core, core->rank) ? answer(core) : BALLOT_WAITS;
}

/* We have promised the ballot of the member of rank `origin`, and signed. */
void tree_prepare_begin(struct spotnik_core *core, uint32_t origin)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    SPOTNIK_ASSERT(!tree->on && origin < core->view.size);
    SPOTNIK_ASSERT(core->membership->promised.round != 0);
    tree->on = true;
    tree->origin = origin;
}

/* Those that are known to have ended, for all that we ask. */
void tree_prepare_tell_ended(struct spotnik_core *core)
{
    struct spotnik_ended *ended = &core->membership->tree.ended;

    ended->count = 0;
    for (uint32_t rank = 0; rank < core->view.size && ended->count < SPOTNIK_ENDED_MAX; rank++)
        if (core->membership->evidence_table.suspected_by_peer[rank]
            || core->membership->evidence_table.known[rank].evidence >= SPOTNIK_EVIDENCE_TAINTED)
            ended->rank[ended->count++] = rank;
}

void tree_prepare_asked_by(struct spotnik_core *core, struct spotnik_id id)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    SPOTNIK_ASSERT(tree->on && tree->asker_count <= ASKERS_MAX);
    for (uint32_t i = 0; i < tree->asker_count; i++)
        if (spotnik_id_equal(tree->asker[i], id))
            return;
    if (tree->asker_count == ASKERS_MAX) /* the first of them is long out */
        memmove(tree->asker, tree->asker + 1, --tree->asker_count * sizeof(*tree->asker));
    tree->asker[tree->asker_count++] = id;
}

/* New evidence of our own, before we have answered: it goes up with our answer. Against the
 * initiator it is worth a ballot instead, as it is after our answer. */
enum ballot_next tree_prepare_reroute(struct spotnik_core *core, struct spotnik_id failed)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    if (!tree->on || tree->answered
        || spotnik_id_equal(failed, core->membership->promised.initiator))
        return BALLOT_WAITS;
    prepare_sign(core);
    return BALLOT_ASK;
}

/* Is something for it that may not have reached it? */
bool tree_prepare_seeks(const struct spotnik_core *core, const struct peer *peer)
{
    uint32_t rank = core->membership->tree.on ? peer_rank(core, peer) : SPOTNIK_NO_RANK;

    return rank != SPOTNIK_NO_RANK && is_in(core->membership->tree.sent, rank);
}

/* The first word on a new link, from a member that we had asked, or told: what we said may be
 * lost. */
void tree_prepare_flush(struct spotnik_core *core, struct peer *peer)
{
    struct spotnik_tree_prepare *tree = &core->membership->tree;

    SPOTNIK_ASSERT(peer->linked && peer->heard);
    if (!tree_prepare_seeks(core, peer))
        return;
    uint32_t rank = peer_rank(core, peer);
    if (!tree->answered && !core->membership->prepare.report[rank].promised)
        deliver(core, SPOTNIK_MESSAGE_ASK, peer);
    else if (tree_accept_awaits(core, rank))
        deliver(core, SPOTNIK_MESSAGE_ACCEPT, peer);
}

/* Our tree has come up whole. Has it left members out that may live? */
bool tree_prepare_has_missed(const struct spotnik_core *core)
{
    const struct spotnik_prepare *prepare = &core->membership->prepare;

    SPOTNIK_ASSERT(prepare->report_count == core->view.size);
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (!prepare->report[rank].promised
            && prepare->report[rank].evidence < SPOTNIK_EVIDENCE_TAINTED)
            return true;
    return false;
}
