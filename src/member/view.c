/* SPDX-License-Identifier: Apache-2.0 */
/* Views, proposals and PREPAREs as data: copies, look-ups, shares. Decisions about them are made
 * elsewhere. */
#include "member/view.h"

#include <string.h>

#include "base/assert.h"
#include "member/message.h"

int spotnik_ballot_compare(struct spotnik_ballot a, struct spotnik_ballot b)
{
    if (a.round != b.round)
        return a.round < b.round ? -1 : 1;
    return spotnik_id_compare(a.initiator, b.initiator);
}

/* How many of entry[] are in use. */
static uint32_t entries_used(const struct spotnik_proposal *proposal)
{
    uint32_t count = proposal->packed ? 0 : proposal->entry_count;

    for (uint32_t i = 0; proposal->packed && i < proposal->brief.run_count; i++)
        if (proposal->brief.run[i].rank == SPOTNIK_NO_RANK)
            count += proposal->brief.run[i].count;
    return count;
}

static void head_copy(struct spotnik_proposal *to, const struct spotnik_proposal *from)
{
    SPOTNIK_ASSERT(from->entry_count <= to->entry_max);
    to->epoch = from->epoch;
    to->settled_step = from->settled_step;
    to->ballot = from->ballot;
    to->share_count = from->share_count;
    to->flat = from->flat;
    to->entry_count = from->entry_count;
    to->founding = from->founding;
    to->packed = from->packed;
    to->brief.run_count = from->brief.run_count;
    memcpy(to->brief.run, from->brief.run, from->brief.run_count * sizeof(*to->brief.run));
    spotnik_ledger_copy(&to->ledger, &from->ledger);
}

void spotnik_proposal_copy(struct spotnik_proposal *to, const struct spotnik_proposal *from)
{
    if (to == from)
        return;
    head_copy(to, from);
    memcpy(to->entry, from->entry, entries_used(from) * sizeof(*to->entry));
}

/* Only new members have one where the rest is told in runs. */
void spotnik_proposal_pack(struct spotnik_proposal *to, const struct spotnik_proposal *from)
{
    uint32_t at = 0, strangers = 0;

    SPOTNIK_ASSERT(to != from && !from->packed && from->brief.run_count > 0);
    head_copy(to, from);
    to->packed = true;
    for (uint32_t i = 0; i < from->brief.run_count; at += from->brief.run[i++].count)
        for (uint32_t k = 0;
             from->brief.run[i].rank == SPOTNIK_NO_RANK && k < from->brief.run[i].count; k++)
            to->entry[strangers++] = from->entry[at + k];
}

void spotnik_prepare_copy(struct spotnik_prepare *to, const struct spotnik_prepare *from)
{
    if (to == from)
        return;
    to->ballot = from->ballot;
    to->parked = from->parked;
    to->report_count = from->report_count;
    to->joiner_count = from->joiner_count;
    memcpy(to->report, from->report, from->report_count * sizeof(*to->report));
    memcpy(to->joiner, from->joiner, from->joiner_count * sizeof(*to->joiner));
    spotnik_ledger_copy(&to->ledger, &from->ledger);
    to->ledger_step = from->ledger_step;
    to->accepted_ballot = from->accepted_ballot;
    if (from->accepted_ballot.round)
        spotnik_proposal_copy(&to->accepted, &from->accepted);
}

uint32_t spotnik_proposal_size(const struct spotnik_proposal *proposal)
{
    uint32_t size = 0;
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        size += (proposal->entry[i].flags & SPOTNIK_ENTRY_MEMBER) != 0;
    return size;
}

/* From `near` outwards, both ways at once: two lists of nearly the same order are compared in
 * linear time. */
static uint32_t find_near(const struct spotnik_entry *entry, uint32_t count, struct spotnik_id id,
                          uint32_t near)
{
    uint32_t up = near < count ? near : 0, down = up;

    while (up < count || down > 0) {
        if (up < count && spotnik_id_equal(entry[up].member.id, id))
            return up;
        if (down > 0 && spotnik_id_equal(entry[down - 1].member.id, id))
            return down - 1;
        up += up < count;
        down -= down > 0;
    }
    return SPOTNIK_NO_RANK;
}

uint32_t spotnik_proposal_find_near(const struct spotnik_proposal *proposal, struct spotnik_id id,
                                    uint32_t near)
{
    return find_near(proposal->entry, proposal->entry_count, id, near);
}

uint32_t spotnik_proposal_find(const struct spotnik_proposal *proposal, struct spotnik_id id)
{
    return find_near(proposal->entry, proposal->entry_count, id, 0);
}

void spotnik_view_from_proposal(struct spotnik_view *view, const struct spotnik_proposal *proposal)
{
    view->epoch = proposal->epoch;
    view->settled_step = proposal->settled_step;
    view->share_count = proposal->share_count;
    view->founding = proposal->founding;
    view->size = 0;
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        if (proposal->entry[i].flags & SPOTNIK_ENTRY_MEMBER)
            view->entry[view->size++] = proposal->entry[i];
}

uint32_t spotnik_view_rank_near(const struct spotnik_view *view, struct spotnik_id id,
                                uint32_t near)
{
    return find_near(view->entry, view->size, id, near);
}

uint32_t spotnik_view_rank(const struct spotnik_view *view, struct spotnik_id id)
{
    return find_near(view->entry, view->size, id, 0);
}

uint32_t spotnik_view_share(const struct spotnik_view *view, uint32_t rank, uint64_t step)
{
    SPOTNIK_ASSERT(rank < view->size);
    return step == view->settled_step + 1 ? view->entry[rank].share : rank;
}

uint32_t spotnik_view_shares(const struct spotnik_view *view, uint64_t step)
{
    return step == view->settled_step + 1 ? view->share_count : view->size;
}
