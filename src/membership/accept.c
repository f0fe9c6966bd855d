/* SPDX-License-Identifier: Apache-2.0 */
/* ACCEPT, the second pass (docs/protocol.md 4 and 5): what the accepted proposal says of the
 * members of our view, who must be fenced before our vote goes on, and where it goes next. */
#include "base/assert.h"
#include "membership/agreement.h"

/* What the accepted proposal says of a member of our view; 0: it is not in it. `near`: where it may
 * stand, and then where the next may. */
uint32_t accept_flags(const struct agreement *agreement, const struct spotnik_view *view,
                      uint32_t rank, uint32_t *near)
{
    const struct spotnik_proposal *accepted = &agreement->accepted;

    SPOTNIK_ASSERT(accepted->epoch == view->epoch + 1);
    if (accepted->packed)
        return spotnik_brief_flags(&accepted->brief, rank);
    uint32_t at = spotnik_proposal_find_near(accepted, view->entry[rank].member.id, *near);
    *near = at == SPOTNIK_NO_RANK ? *near : at + 1;
    return at == SPOTNIK_NO_RANK ? 0 : accepted->entry[at].flags;
}

/* FENCED goes to every peer that does not vote in this ballot, before the ballot goes on. So a
 * clean end of our link to one of them can never mean that we had gone on without it. It goes again
 * over each later link. The next rank from `from` on; NO_RANK: none. */
uint32_t accept_fence(struct agreement *agreement, const struct spotnik_view *view, uint32_t from,
                      uint32_t *near)
{
    SPOTNIK_ASSERT(from <= view->size);
    for (uint32_t rank = from; rank < view->size; rank++)
        if (!(accept_flags(agreement, view, rank, near) & SPOTNIK_ENTRY_VOTER)) {
            agreement->fenced[rank] = true;
            return rank;
        }
    return SPOTNIK_NO_RANK;
}

/* The next voter in the proposal's order; NULL: we are the only one. */
const struct spotnik_member *accept_next(const struct agreement *agreement, struct spotnik_id self)
{
    const struct spotnik_proposal *proposal = &agreement->accepted;
    uint32_t at = spotnik_proposal_find(proposal, self);

    SPOTNIK_ASSERT(at != SPOTNIK_NO_RANK);
    for (uint32_t ahead = 1; ahead < proposal->entry_count; ahead++) {
        const struct spotnik_entry *entry = &proposal->entry[(at + ahead) % proposal->entry_count];
        if (entry->flags & SPOTNIK_ENTRY_VOTER)
            return &entry->member;
    }
    return NULL;
}
