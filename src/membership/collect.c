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
 * proposal has a brief form that is kept, until a token of a later ballot needs the whole. */
void collect_keep(struct spotnik_core *core, struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(core->membership->gather.on);
    if (proposal->brief.run_count == 0)
        spotnik_brief_make(proposal, &core->view, core->limits.brief_members);
    if (proposal->brief.run_count > 0)
        spotnik_proposal_pack(&core->membership->accepted, proposal);
    else
        spotnik_proposal_copy(&core->membership->accepted, proposal);
}

static void tell_below(struct spotnik_core *core, uint32_t rank)
{
    uint32_t below[PLACES_BELOW], count = gather_below(core, rank, below);

    SPOTNIK_ASSERT(core->membership->gather.answered);
    for (uint32_t i = 0; i < count; i++)
        if (is_voter(core, below[i]))
            gather_send(core, SPOTNIK_MESSAGE_ACCEPT, below[i]);
        else
            tell_below(core, below[i]);
}

static bool is_whole(const struct spotnik_core *core, uint32_t rank)
{
    uint32_t below[PLACES_BELOW], count = gather_below(core, rank, below);

    SPOTNIK_ASSERT(core->membership->gather.answered);
    for (uint32_t i = 0; i < count; i++)
        if (!(is_voter(core, below[i]) ? is_in(core->membership->gather.heard, below[i])
                                       : is_whole(core, below[i])))
            return false;
    return true;
}

static void say_accepted(struct spotnik_core *core)
{
    struct peer *peer = peer_find(core, core->membership->gather.teller);

    SPOTNIK_ASSERT(core->membership->gather.accepted);
    if (peer && peer->linked)
        send_of_ballot(core, peer, SPOTNIK_MESSAGE_ACCEPTED);
}

/* All voters below us have accepted, as we have. Of the initiator's, these are all. */
static void conclude(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(!core->membership->gather.accepted);
    core->membership->gather.accepted = true;
    if (core->membership->gather.origin != core->rank) {
        say_accepted(core);
        return;
    }
    core->status.accepted_ns = core->now_ns;
    view_install(core, &core->membership->accepted);
}

/* core->vote->accepted is our vote, and those that do not vote have been told. */
void collect_begin(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->gather.on);
    SPOTNIK_ASSERT(spotnik_ballot_compare(core->membership->accepted.ballot,
                                          core->membership->promised)
                   == 0);
    gather_clear(core);
    core->membership->gather.answered = true;
    tell_below(core, core->rank);
    if (is_whole(core, core->rank))
        conclude(core);
}

/* ACCEPT has come once more, perhaps over another link. */
void collect_again(struct spotnik_core *core, const struct peer *from)
{
    core->membership->gather.teller = from->member.id;
    if (core->membership->gather.accepted)
        say_accepted(core);
}

bool collect_is_on(const struct spotnik_core *core)
{
    return core->membership->gather.on && core->membership->promised.round != 0
           && spotnik_ballot_compare(core->membership->accepted.ballot, core->membership->promised)
                  == 0;
}

bool collect_awaits(const struct spotnik_core *core, uint32_t rank)
{
    return collect_is_on(core) && is_voter(core, rank)
           && !is_in(core->membership->gather.heard, rank);
}

void collect_hear(struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(collect_is_on(core) && rank < core->view.size);
    core->membership->gather.heard[rank / 64] |= UINT64_C(1) << rank % 64;
    if (!core->membership->gather.accepted && is_whole(core, core->rank))
        conclude(core);
}
