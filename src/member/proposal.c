/* SPDX-License-Identifier: Apache-2.0 */
/* The initiator's proposal: the members of the next view, the settled step, the laggards, the
 * shares of the next step. The rules are those of docs/design/0001-core.md, sections "Steps and
 * commit" and "Ledger". */
#include "member/proposal.h"

#include "base/assert.h"
#include "member/founding.h"
#include "member/lineage.h"
#include "member/paths.h"

uint64_t spotnik_proposal_settled(const struct spotnik_prepare *prepare)
{
    uint64_t settled = 0;
    for (uint32_t i = 0; i < prepare->report_count; i++)
        if (spotnik_lineage_voter(&prepare->report[i]) && prepare->report[i].committed > settled)
            settled = prepare->report[i].committed;
    return settled;
}

bool spotnik_proposal_admits(const struct spotnik_enter *joiner, uint64_t settled_step)
{
    return joiner->committed == settled_step || joiner->committed + 1 == settled_step;
}

bool spotnik_proposal_losable(const struct spotnik_view *view)
{
    for (uint32_t i = 0; i < view->size; i++)
        if ((view->entry[i].flags & SPOTNIK_ENTRY_LAGGARD)
            && !(view->entry[i].flags & SPOTNIK_ENTRY_JOINER))
            return true;
    return false;
}

static struct spotnik_entry *append(struct spotnik_proposal *proposal,
                                    const struct spotnik_member *member, uint32_t flags)
{
    SPOTNIK_ASSERT(proposal->entry_count < proposal->entry_max);
    struct spotnik_entry *entry = &proposal->entry[proposal->entry_count++];
    *entry = (struct spotnik_entry){ .member = *member, .flags = flags, .share = SPOTNIK_NO_SHARE };
    return entry;
}

static void add_voters(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                       const struct spotnik_prepare *prepare)
{
    for (uint32_t i = 0; i < view->size; i++) {
        const struct spotnik_report *report = &prepare->report[i];
        if (!spotnik_lineage_voter(report))
            continue;
        uint32_t flags = SPOTNIK_ENTRY_VOTER;
        if (!report->leaving)
            flags |= SPOTNIK_ENTRY_MEMBER;
        if (report->committed < proposal->settled_step)
            flags |= SPOTNIK_ENTRY_LAGGARD;
        append(proposal, &view->entry[i].member, flags);
    }
}

/* Copied its state after the settled step, and so cannot serve a laggard with the result. */
static bool is_bare(const struct spotnik_entry *entry, uint32_t near,
                    const struct spotnik_view *view, const struct spotnik_prepare *prepare)
{
    uint32_t rank = spotnik_view_rank_near(view, entry->member.id, near);
    if (entry->flags & SPOTNIK_ENTRY_LAGGARD)
        return false;
    return rank == SPOTNIK_NO_RANK || prepare->report[rank].bare;
}

/* The remaining members must be able to go on from the settled step, and to serve laggards. If only
 * leavers can, they stay for one more view, hand over, and ask again. */
static void keep_a_holder(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                          const struct spotnik_prepare *prepare)
{
    bool laggard = false, anybody_stays = false, state_stays = false, result_stays = false,
         result_leaves = false;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        uint32_t flags = proposal->entry[i].flags;
        bool stays = flags & SPOTNIK_ENTRY_MEMBER, state = !(flags & SPOTNIK_ENTRY_LAGGARD);
        bool result = state && !is_bare(&proposal->entry[i], i, view, prepare);
        laggard |= !state;
        anybody_stays |= stays;
        state_stays |= stays && state;
        result_stays |= stays && result;
        result_leaves |= !stays && result;
    }
    if (laggard ? result_stays || (state_stays && !result_leaves) : state_stays || !anybody_stays)
        return;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        proposal->entry[i].flags |= SPOTNIK_ENTRY_MEMBER;
        proposal->entry[i].flags &= ~(uint32_t)SPOTNIK_ENTRY_CUT;
    }
}

static void add_joiners(struct spotnik_proposal *proposal, const struct spotnik_prepare *prepare,
                        uint32_t members_max)
{
    uint32_t size = spotnik_proposal_size(proposal);
    if (size == 0)
        return; /* all leave: the job is over, a joiner finds no member and may found it anew */
    for (uint32_t i = 0; i < prepare->joiner_count && size < members_max; i++) {
        const struct spotnik_enter *joiner = &prepare->joiner[i];
        if (!spotnik_proposal_admits(joiner, proposal->settled_step)
            || spotnik_proposal_find(proposal, joiner->member.id) != SPOTNIK_NO_RANK)
            continue;
        uint32_t flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_JOINER;
        if (joiner->committed < proposal->settled_step)
            flags |= SPOTNIK_ENTRY_LAGGARD;
        append(proposal, &joiner->member, flags);
        size++;
    }
}

enum place { PLACE_BARE, PLACE_HOLDER, PLACE_LAGGARD, PLACE_OUTSIDE };

static enum place place_of(const struct spotnik_entry *entry, uint32_t near,
                           const struct spotnik_view *view, const struct spotnik_prepare *prepare)
{
    if (!(entry->flags & SPOTNIK_ENTRY_MEMBER))
        return PLACE_OUTSIDE;
    if (entry->flags & SPOTNIK_ENTRY_LAGGARD)
        return PLACE_LAGGARD;
    return is_bare(entry, near, view, prepare) ? PLACE_BARE : PLACE_HOLDER;
}

/* No member can serve the laggards: those that voted are told, and join again by copying; the
 * others were not in yet. */
static void drop_laggards(struct spotnik_proposal *proposal)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        struct spotnik_entry *entry = &proposal->entry[i];
        if (entry->flags & SPOTNIK_ENTRY_LAGGARD)
            entry->flags &= ~(uint32_t)SPOTNIK_ENTRY_MEMBER;
        if (entry->flags & (SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER))
            proposal->entry[kept++] = *entry;
    }
    proposal->entry_count = kept;
}

/* A laggard is served by its ring predecessor, which must hold the result. Where members that
 * copied the state stand in the same view, the ring is ordered anew: those first, then the holders,
 * then the laggards. Each group keeps its order. */
static void arrange(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                    const struct spotnik_prepare *prepare)
{
    uint32_t count[4] = { 0 };

    for (uint32_t i = 0; i < proposal->entry_count; i++)
        count[place_of(&proposal->entry[i], i, view, prepare)]++;
    if (!count[PLACE_LAGGARD] || !count[PLACE_BARE])
        return;
    if (!count[PLACE_HOLDER]) {
        drop_laggards(proposal);
        return;
    }
    for (uint32_t i = 1; i < proposal->entry_count; i++) { /* stable, and never long */
        struct spotnik_entry entry = proposal->entry[i];
        enum place place = place_of(&entry, i, view, prepare);
        uint32_t at = i;
        for (; at > 0 && place_of(&proposal->entry[at - 1], at - 1, view, prepare) > place; at--)
            proposal->entry[at] = proposal->entry[at - 1];
        proposal->entry[at] = entry;
    }
}

static bool step_begun(const struct spotnik_prepare *prepare, uint64_t settled_step)
{
    for (uint32_t i = 0; i < prepare->report_count; i++)
        if (spotnik_lineage_voter(&prepare->report[i]) && prepare->report[i].begun
            && prepare->report[i].committed == settled_step)
            return true;
    return false;
}

/* All holders of the settled step of the present view are gone, and members that lagged behind make
 * it again. The view has shares of later steps only; a member that has begun this one knows its
 * shares. */
static void share_again(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                        const struct spotnik_prepare *prepare)
{
    proposal->share_count = 1;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        uint32_t rank = spotnik_view_rank_near(view, proposal->entry[i].member.id, i);
        if (rank == SPOTNIK_NO_RANK || !prepare->report[rank].begun
            || prepare->report[rank].share == SPOTNIK_NO_SHARE)
            continue;
        proposal->entry[i].share = prepare->report[rank].share;
        proposal->share_count = prepare->report[rank].share_count;
    }
}

/* Weights follow their members to the shares of the new view; a joiner gets the mean. If no member
 * had begun a step that is made again, its weights are for shares that no member knows any more. */
static void deal_out(struct spotnik_proposal *proposal, const struct spotnik_view *view)
{
    uint64_t step = proposal->settled_step + 1;
    uint32_t from[SPOTNIK_LEDGER_DEAL_MAX], shares = 0;

    if (proposal->ledger.deal_count == 0)
        return;
    for (uint32_t i = 0; i < proposal->entry_count && shares < SPOTNIK_LEDGER_DEAL_MAX; i++) {
        uint32_t rank = spotnik_view_rank_near(view, proposal->entry[i].member.id, i);
        if (!(proposal->entry[i].flags & SPOTNIK_ENTRY_MEMBER))
            continue;
        from[shares++] =
            rank == SPOTNIK_NO_RANK ? SPOTNIK_NO_SHARE : spotnik_view_share(view, rank, step);
    }
    bool known = step > view->settled_step && shares > 0;
    spotnik_ledger_deal_map(&proposal->ledger, known ? spotnik_view_shares(view, step) : 0, shares,
                            from);
}

/* A step that a member has begun keeps the shares it was begun with, or two members would
 * consume the same samples. A joiner gets none of it. Otherwise the new view shares it afresh. */
static void share_out(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                      const struct spotnik_prepare *prepare)
{
    uint64_t step = proposal->settled_step + 1;
    bool keep = step_begun(prepare, proposal->settled_step);
    uint32_t next = 0;

    if (keep && step <= view->settled_step) {
        share_again(proposal, view, prepare);
        return;
    }
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        struct spotnik_entry *entry = &proposal->entry[i];
        uint32_t rank = spotnik_view_rank_near(view, entry->member.id, i);
        if (!keep)
            entry->share = entry->flags & SPOTNIK_ENTRY_MEMBER ? next++ : SPOTNIK_NO_SHARE;
        else
            entry->share =
                rank == SPOTNIK_NO_RANK ? SPOTNIK_NO_SHARE : spotnik_view_share(view, rank, step);
    }
    proposal->share_count = keep ? spotnik_view_shares(view, step) : next;
    if (!keep)
        deal_out(proposal, view);
}

/* Every two of the next view share memory, by the word of both. Dead or left out members do not
 * count; a joiner has no word yet. */
static bool share_memory(const struct spotnik_proposal *proposal, const struct spotnik_view *view,
                         const struct spotnik_prepare *prepare)
{
    uint64_t stays = 0, apart = 0;

    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        uint32_t rank = spotnik_view_rank_near(view, entry->member.id, i);
        if (!(entry->flags & SPOTNIK_ENTRY_MEMBER))
            continue;
        if (rank == SPOTNIK_NO_RANK)
            return false;
        stays |= UINT64_C(1) << rank % 64;
        apart |= prepare->report[rank].apart;
    }
    return (stays & apart) == 0;
}

/* The value stands; only the route of ACCEPT (its voters) is this ballot's. Voters the value leaves
 * out are told by it. */
static void propose_again(struct spotnik_proposal *ret, const struct spotnik_view *view,
                          const struct spotnik_prepare *prepare)
{
    spotnik_proposal_copy(ret, &prepare->accepted);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ret->entry_count; i++) {
        ret->entry[i].flags &= ~(uint32_t)SPOTNIK_ENTRY_VOTER;
        if (ret->entry[i].flags & SPOTNIK_ENTRY_MEMBER)
            ret->entry[kept++] = ret->entry[i];
    }
    ret->entry_count = kept;
    for (uint32_t i = 0; i < view->size; i++) {
        if (!spotnik_lineage_voter(&prepare->report[i]))
            continue;
        uint32_t at = spotnik_proposal_find_near(ret, view->entry[i].member.id, i);
        if (at == SPOTNIK_NO_RANK)
            append(ret, &view->entry[i].member, SPOTNIK_ENTRY_VOTER);
        else
            ret->entry[at].flags |= SPOTNIK_ENTRY_VOTER;
    }
}

void spotnik_proposal_make(struct spotnik_proposal *ret, const struct spotnik_view *view,
                           const struct spotnik_prepare *prepare, uint32_t members_max)
{
    SPOTNIK_ASSERT(prepare->report_count == view->size);
    if (prepare->accepted_ballot.round) {
        propose_again(ret, view, prepare);
        ret->ballot = prepare->ballot;
        ret->brief.run_count = 0; /* the voters are others */
        return;
    }
    ret->brief.run_count = 0;
    ret->packed = false;
    ret->founding = view->founding;
    ret->epoch = view->epoch + 1;
    ret->ballot = prepare->ballot;
    ret->settled_step = spotnik_proposal_settled(prepare);
    ret->entry_count = 0;
    SPOTNIK_ASSERT(prepare->ledger_step == ret->settled_step);
    spotnik_ledger_copy(&ret->ledger, &prepare->ledger);
    add_voters(ret, view, prepare);
    spotnik_paths_leave_out(ret, view, prepare);
    keep_a_holder(ret, view, prepare);
    add_joiners(ret, prepare, members_max);
    arrange(ret, view, prepare);
    share_out(ret, view, prepare);
    ret->flat = share_memory(ret, view, prepare);
}
