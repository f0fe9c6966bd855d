/* SPDX-License-Identifier: Apache-2.0 */
/* A proposal that a peer has sent: is it built on our view, and do its numbers fit? Rules:
 * docs/protocol.md 1. */
#include "base/assert.h"
#include "membership/membership.h"

/* A brief one is made whole. False: it is not built on our view. */
bool proposal_unpack(const struct spotnik_core *core, struct spotnik_proposal *proposal)
{
    return !proposal->packed
           || (core->role == SPOTNIK_ROLE_MEMBER && spotnik_brief_unpack(proposal, &core->view));
}

/* Counts that come from a peer, checked against our own capacity before anything is indexed by
 * them. */
bool proposal_sane(const struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    if (spotnik_proposal_size(proposal) > core->limits.members_max
        || proposal->share_count > core->limits.members_max)
        return false;
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        if (proposal->entry[i].share != SPOTNIK_NO_SHARE
            && proposal->entry[i].share >= proposal->share_count)
            return false;
    return true;
}
