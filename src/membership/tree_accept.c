/* SPDX-License-Identifier: Apache-2.0 */
/* The second pass by a tree: ACCEPT goes down, by the places of the first pass, and each voter
 * votes for it. ACCEPTED comes up: its sender has accepted, and so have all voters below it.
 * ACCEPT goes round none but those that do not vote. A voter that is lost is new evidence, which
 * makes a higher ballot. Rules: docs/protocol.md 5. */
#include "base/assert.h"
#include "membership/agreement.h"

static bool is_voter(const struct agreement *agreement, const struct agreement_input *in,
                     uint32_t rank)
{
    uint32_t near = rank;

    SPOTNIK_ASSERT(rank < in->view->size);
    return accept_flags(agreement, in->view, rank, &near) & SPOTNIK_ENTRY_VOTER;
}

/* Among many members a list of them would be as much memory as all else that we keep: where the
 * proposal has a brief form that is kept, until a PREPARE of a later ballot needs the whole. */
void tree_accept_keep(struct agreement *agreement, const struct agreement_input *in,
                      struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(agreement->tree.on);
    if (proposal->brief.run_count == 0)
        spotnik_brief_make(proposal, in->view, in->brief_members);
    if (proposal->brief.run_count > 0)
        spotnik_proposal_pack(&agreement->accepted, proposal);
    else
        spotnik_proposal_copy(&agreement->accepted, proposal);
}

/* The first voter below `rank` that ACCEPT has not been sent to. */
static uint32_t untold(const struct agreement *agreement, const struct agreement_input *in,
                       uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], found = SPOTNIK_NO_RANK;
    uint32_t count = tree_prepare_below(agreement, in, rank, below);

    for (uint32_t i = 0; i < count && found == SPOTNIK_NO_RANK; i++)
        if (!is_voter(agreement, in, below[i]))
            found = untold(agreement, in, below[i]);
        else if (!tree_bit(agreement->tree.sent, below[i]))
            found = below[i];
    return found;
}

/* The next member to send ACCEPT to. False: all voters below us have it. */
bool tree_accept_next(struct agreement *agreement, const struct agreement_input *in,
                      uint32_t *ret_rank)
{
    uint32_t rank = untold(agreement, in, in->rank);

    SPOTNIK_ASSERT(tree_accept_is_on(agreement));
    if (rank == SPOTNIK_NO_RANK)
        return false;
    agreement->tree.sent[rank / 64] |= UINT64_C(1) << rank % 64;
    *ret_rank = rank;
    return true;
}

static bool is_whole(const struct agreement *agreement, const struct agreement_input *in,
                     uint32_t rank)
{
    uint32_t below[TREE_CHILDREN_MAX], count = tree_prepare_below(agreement, in, rank, below);

    SPOTNIK_ASSERT(agreement->tree.answered);
    for (uint32_t i = 0; i < count; i++)
        if (!(is_voter(agreement, in, below[i]) ? tree_bit(agreement->tree.heard, below[i])
                                                : is_whole(agreement, in, below[i])))
            return false;
    return true;
}

/* True, once: all voters below us have accepted, as we have. Below the initiator, these are all. */
bool tree_accept_concludes(struct agreement *agreement, const struct agreement_input *in)
{
    if (agreement->tree.accepted || !is_whole(agreement, in, in->rank))
        return false;
    agreement->tree.accepted = true;
    return true;
}

/* Have we voted in the promised ballot, which goes by a tree? */
bool tree_accept_is_on(const struct agreement *agreement)
{
    return agreement->tree.on && agreement->promised.round != 0
           && spotnik_ballot_compare(agreement->accepted.ballot, agreement->promised) == 0;
}

bool tree_accept_awaits(const struct agreement *agreement, const struct agreement_input *in,
                        uint32_t rank)
{
    return tree_accept_is_on(agreement) && is_voter(agreement, in, rank)
           && !tree_bit(agreement->tree.heard, rank);
}

/* ACCEPTED has come from it. */
void tree_accept_hear(struct agreement *agreement, uint32_t rank)
{
    SPOTNIK_ASSERT(tree_accept_is_on(agreement) && rank / 64 < agreement->tree.words);
    agreement->tree.heard[rank / 64] |= UINT64_C(1) << rank % 64;
}
