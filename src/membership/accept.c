/* SPDX-License-Identifier: Apache-2.0 */
/* ACCEPT, the second pass: this member votes. FENCED goes to every peer that does not vote in this
 * ballot, before the ballot goes on. So a clean end of our link to one of them can never mean that
 * we had gone on without it. FENCED goes again whenever a link to one of them comes up, since the
 * first may have died with the old link (docs/design/0001-core.md, Lineage). */
#include "base/assert.h"
#include "membership/membership.h"

/* What the accepted proposal says of a member of our view; 0: it is not in it. `near`: where it may
 * stand, and then where the next may. */
uint32_t accepted_flags(const struct spotnik_core *core, uint32_t rank, uint32_t *near)
{
    const struct spotnik_proposal *accepted = &core->membership->accepted;

    SPOTNIK_ASSERT(accepted->epoch == core->view.epoch + 1);
    if (accepted->packed)
        return spotnik_brief_flags(&accepted->brief, rank);
    uint32_t at = spotnik_proposal_find_near(accepted, core->view.entry[rank].member.id, *near);
    *near = at == SPOTNIK_NO_RANK ? *near : at + 1;
    return at == SPOTNIK_NO_RANK ? 0 : accepted->entry[at].flags;
}

static void fence(struct spotnik_core *core)
{
    uint32_t near = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (accepted_flags(core, rank, &near) & SPOTNIK_ENTRY_VOTER)
            continue;
        struct peer *peer = peer_find(core, core->view.entry[rank].member.id);
        core->membership->fenced[rank] = true;
        if (peer && peer->linked)
            send_message(core, peer, SPOTNIK_MESSAGE_FENCED);
    }
}

/* To the next voter in the proposal's order. */
static enum ballot_next accept_forward(struct spotnik_core *core)
{
    const struct spotnik_proposal *proposal = &core->membership->accepted;
    uint32_t at = spotnik_proposal_find(proposal, core->self.id);

    SPOTNIK_ASSERT(core->membership->accepted.epoch == core->view.epoch + 1);
    SPOTNIK_ASSERT(at != SPOTNIK_NO_RANK);
    for (uint32_t ahead = 1; ahead < proposal->entry_count; ahead++) {
        const struct spotnik_entry *entry = &proposal->entry[(at + ahead) % proposal->entry_count];
        if (!(entry->flags & SPOTNIK_ENTRY_VOTER))
            continue;
        pass_send(core, PASS_ACCEPT, &entry->member);
        return BALLOT_WAITS;
    }
    return BALLOT_CHOSEN; /* the only voter */
}

/* core->membership->accepted has been filled in. */
enum ballot_next proposal_accept(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->frozen);
    SPOTNIK_ASSERT(core->membership->accepted.epoch == core->view.epoch + 1);
    if (core->membership->accepted.brief.run_count == 0)
        spotnik_brief_make(&core->membership->accepted, &core->view, core->limits.brief_members);
    fence(core);
    return core->membership->tree.on ? tree_accept_begin(core) : accept_forward(core);
}
