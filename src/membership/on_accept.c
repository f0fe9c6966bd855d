/* SPDX-License-Identifier: Apache-2.0 */
/* ACCEPT arrives: vote and pass on; or, if it is ours, every voter has accepted and the view is
 * chosen. Rules: docs/protocol.md 5 and 6. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

static bool votes(const struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(proposal->epoch == core->view.epoch + 1);
    uint32_t at = spotnik_proposal_find(proposal, core->self.id);
    return at != SPOTNIK_NO_RANK && (proposal->entry[at].flags & SPOTNIK_ENTRY_VOTER);
}

static void keep(struct spotnik_core *core, struct spotnik_proposal *proposal)
{
    struct agreement *agreement = &core->membership->agreement;
    struct agreement_input in = agreement_input(core);

    if (agreement->tree.on)
        tree_accept_keep(agreement, &in, proposal);
    else
        spotnik_proposal_copy(&agreement->accepted, proposal);
}

void on_accept(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    struct agreement *agreement = &core->membership->agreement;
    const struct spotnik_proposal *proposal = message->proposal;

    if (core->role != SPOTNIK_ROLE_MEMBER || message->epoch != core->view.epoch
        || proposal->epoch != core->view.epoch + 1 || !proposal_unpack(core, message->proposal)
        || !proposal_sane(core, proposal) || !votes(core, proposal)
        || spotnik_founding_differs(&core->view.founding, &proposal->founding)
        || peer_rank(core, from) == SPOTNIK_NO_RANK)
        return;
    peer_activate(core, from); /* as with PREPARE: it listens for us now */
    /* Exactly the ballot we promised: a voter has promised by definition, and a lower one is
     * outbid. */
    if (spotnik_ballot_compare(proposal->ballot, agreement->promised) != 0)
        return;
    if (is_self(core, proposal->ballot.initiator)) {
        if (agreement->phase != PHASE_ACCEPT || agreement->tree.on)
            return; /* by a tree it never comes back, but ACCEPTED does */
        core->status.accepted_ns = core->now_ns;
        apply_ballot(core, BALLOT_CHOSEN);
        return;
    }
    if (tree_accept_is_on(agreement)) {
        tree_again(core, from);
        return;
    }
    core->status.reconciled_ns = core->now_ns;
    agreement->tree.teller = from->member.id;
    keep(core, message->proposal);
    arm_retry(core, 4 * core->limits.retry_ns);
    apply_ballot(core, BALLOT_ACCEPT);
}
