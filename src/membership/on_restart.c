/* SPDX-License-Identifier: Apache-2.0 */
/* RESTART arrives: a member has installed a view. It was chosen, so all its members install it,
 * whatever ballots are under way. Rules: docs/protocol.md 6 and 8. */
#include "base/assert.h"
#include "membership/membership.h"

/* A joiner that is not in it only learns the members of the job. */
static void learn(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    spotnik_proposal_copy(&core->chosen, proposal);
    view_settle(core);
    enter_meet(core);
    if (core->membership->entering.wanted
        && spotnik_view_rank(&core->view, core->membership->entering.sponsor) == SPOTNIK_NO_RANK)
        enter_next_sponsor(core);
}

void on_restart(struct spotnik_core *core, struct peer *from, const struct spotnik_message *message)
{
    const struct spotnik_proposal *proposal = message->proposal;

    if (proposal->epoch <= core->view.epoch)
        return;
    if (!proposal_unpack(core, message->proposal)) {
        /* we are not where the sender thinks we are */
        send_message(core, from, SPOTNIK_MESSAGE_VIEW_ASK);
        return;
    }
    if (!proposal_sane(core, proposal))
        return;
    uint32_t at = spotnik_proposal_find(proposal, core->self.id);
    bool ours = at != SPOTNIK_NO_RANK && (proposal->entry[at].flags & SPOTNIK_ENTRY_MEMBER);
    if (core->role == SPOTNIK_ROLE_JOINER && !ours) {
        learn(core, proposal);
        return;
    }
    if (core->role != SPOTNIK_ROLE_MEMBER && core->role != SPOTNIK_ROLE_JOINER)
        return;
    if (spotnik_founding_differs(&core->view.founding, &proposal->founding)
        && core->role == SPOTNIK_ROLE_MEMBER)
        return; /* the sender is of another job: no reason to give up ours */
    core->status.accepted_ns = core->now_ns;
    from->told_epoch = proposal->epoch;
    apply_ballot(core, view_install(core, message->proposal));
}
