/* SPDX-License-Identifier: Apache-2.0 */
/* The second pass by a tree: ACCEPT goes down, by the places of the first pass, and each voter
 * votes for it. ACCEPTED comes up: its sender has accepted, and so have all voters below it. Nobody
 * is gone round but those that do not vote. A voter that is lost is new evidence, which makes a
 * higher ballot. */
#include "base/assert.h"
#include "membership/membership.h"

static bool is_in(const uint64_t *bits, uint32_t at)
{
    return bits[at / 64] >> at % 64 & 1;
}

static bool is_voter(const struct spotnik_core *core, uint32_t rank)
{
    uint32_t near = rank;

    SPOTNIK_ASSERT(rank < core->view.size);
    return accepted_flags(core, rank, &near) & SPOTNIK_ENTRY_VOTER;
}

/* Among many members a list of them would be as much memory as all else that we keep: where the
 * proposal has a brief form that is kept, until a PREPARE of a later ballot needs the whole. */
void tree_accept_keep(struct spotnik_core *core, struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(core->membership->tree.on);
    if (proposal->brief.run_count == 0)
        spotnik_brief_make(proposal, &core->view, core->limits.brief_members);
    if (proposal->brief.run_count > 0)
        spotnik_proposal_pack(&core->membership->accepted, proposal);
    else
        spotnik_proposal_copy(&core->membership->accepted, proposal);
}

static void tell_below(struct spotnik_core *core, uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_prepare_below(core, rank, below);

    SPOTNIK_ASSERT(core->membership->tree.answered);
    for (uint32_t i = 0; i < count; i++)
        if (is_voter(core, below[i]))
            tree_prepare_send(core, SPOTNIK_MESSAGE_ACCEPT, below[i]);
        else
            tell_below(core, below[i]);
}

static bool is_whole(const struct spotnik_core *core, uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_prepare_below(core, rank, below);

    SPOTNIK_ASSERT(core->membership->tree.answered);
    for (uint32_t i = 0; i < count; i++)
        if (!(is_voter(core, below[i]) ? is_in(core->membership->tree.heard, below[i])
                                       : is_whole(core, below[i])))
            return false;
    return true;
}

static void say_accepted(struct spotnik_core *core)
{
    struct peer *peer = peer_find(core, core->membership->tree.teller);

    SPOTNIK_ASSERT(core->membership->tree.accepted);
    if (peer && peer->linked)
        send_of_ballot(core, peer, SPOTNIK_MESSAGE_ACCEPTED);
}

/* All voters below us have accepted, as we have. Of the initiator's, these are all. */
static enum ballot_next conclude(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(!core->membership->tree.accepted);
    core->membership->tree.accepted = true;
    if (core->membership->tree.origin != core->rank) {
        say_accepted(core);
        return BALLOT_WAITS;
    }
    core->status.accepted_ns = core->now_ns;
    return BALLOT_CHOSEN;
}

/* core->membership->accepted is our vote, and those that do not vote have been told. */
enum ballot_next tree_accept_begin(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->tree.on);
    SPOTNIK_ASSERT(spotnik_ballot_compare(core->membership->accepted.ballot,
                                          core->membership->promised)
                   == 0);
    tree_prepare_clear(core);
    core->membership->tree.answered = true;
    tell_below(core, core->rank);
    return is_whole(core, core->rank) ? conclude(core) : BALLOT_WAITS;
}

/* ACCEPT has come once more, perhaps over another link. */
void tree_accept_again(struct spotnik_core *core, const struct peer *from)
{
    core->membership->tree.teller = from->member.id;
    if (core->membership->tree.accepted)
        say_accepted(core);
}

bool tree_accept_is_on(const struct spotnik_core *core)
{
    return core->membership->tree.on && core->membership->promised.round != 0
           && spotnik_ballot_compare(core->membership->accepted.ballot, core->membership->promised)
                  == 0;
}

bool tree_accept_awaits(const struct spotnik_core *core, uint32_t rank)
{
    return tree_accept_is_on(core) && is_voter(core, rank)
           && !is_in(core->membership->tree.heard, rank);
}

enum ballot_next tree_accept_hear(struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(tree_accept_is_on(core) && rank < core->view.size);
    core->membership->tree.heard[rank / 64] |= UINT64_C(1) << rank % 64;
    bool done = !core->membership->tree.accepted && is_whole(core, core->rank);
    return done ? conclude(core) : BALLOT_WAITS;
}
