/* SPDX-License-Identifier: Apache-2.0 */
/* What the initiator proposes: who is in the next view, which step is settled, who lags, how the next step is shared.
 * The rules are those of docs/design/0001-core.md, sections "Steps and commit" and "Ledger". */
#include "member/proposal.h"

#include "base/assert.h"
#include "member/lineage.h"

uint64_t spotnik_proposal_settled(const struct spotnik_token *token)
{
    uint64_t settled = 0;
    for (uint32_t i = 0; i < token->report_count; i++)
        if (spotnik_lineage_voter(&token->report[i]) && token->report[i].committed > settled)
            settled = token->report[i].committed;
    return settled;
}

bool spotnik_proposal_admits(const struct spotnik_enter *joiner, uint64_t settled_step)
{
    return joiner->committed == settled_step || joiner->committed + 1 == settled_step;
}

static struct spotnik_entry *append(struct spotnik_proposal *proposal, const struct spotnik_member *member,
                                    uint32_t flags)
{
    SPOTNIK_ASSERT(proposal->entry_count < proposal->entry_max);
    struct spotnik_entry *entry = &proposal->entry[proposal->entry_count++];
    *entry = (struct spotnik_entry){.member = *member, .flags = flags, .share = SPOTNIK_NO_SHARE};
    return entry;
}

static void add_voters(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                       const struct spotnik_token *token)
{
    for (uint32_t i = 0; i < view->size; i++) {
        const struct spotnik_report *report = &token->report[i];
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

/* Somebody who stays must hold the settled result as long as somebody who stays, or who leaves as well, lacks it. If only
 * leavers hold it they stay for one more view, hand over, and ask again. */
static void keep_a_holder(struct spotnik_proposal *proposal)
{
    bool holder_stays = false, laggard = false, anybody_stays = false;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        uint32_t flags = proposal->entry[i].flags;
        laggard |= (flags & SPOTNIK_ENTRY_LAGGARD) != 0;
        anybody_stays |= (flags & SPOTNIK_ENTRY_MEMBER) != 0;
        holder_stays |= (flags & SPOTNIK_ENTRY_MEMBER) && !(flags & SPOTNIK_ENTRY_LAGGARD);
    }
    if (holder_stays || (!laggard && !anybody_stays))
        return;
    for (uint32_t i = 0; i < proposal->entry_count; i++)
        proposal->entry[i].flags |= SPOTNIK_ENTRY_MEMBER;
}

static void add_joiners(struct spotnik_proposal *proposal, const struct spotnik_token *token, uint32_t members_max)
{
    uint32_t size = spotnik_proposal_size(proposal);
    if (size == 0)
        return; /* everybody leaves: the job is over, a joiner finds nobody and may found it anew */
    for (uint32_t i = 0; i < token->joiner_count && size < members_max; i++) {
        const struct spotnik_enter *joiner = &token->joiner[i];
        if (!spotnik_proposal_admits(joiner, proposal->settled_step) ||
            spotnik_proposal_find(proposal, joiner->member.id) != SPOTNIK_NO_RANK)
            continue;
        uint32_t flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_JOINER;
        if (joiner->committed < proposal->settled_step)
            flags |= SPOTNIK_ENTRY_LAGGARD;
        append(proposal, &joiner->member, flags);
        size++;
    }
}

static bool step_begun(const struct spotnik_token *token, uint64_t settled_step)
{
    for (uint32_t i = 0; i < token->report_count; i++)
        if (spotnik_lineage_voter(&token->report[i]) && token->report[i].begun &&
            token->report[i].committed == settled_step)
            return true;
    return false;
}

/* A step somebody has begun keeps the shares it was begun with, or two members would consume the same samples; a joiner gets
 * none of it. Otherwise the new view shares it afresh. */
static void share_out(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                      const struct spotnik_token *token)
{
    uint64_t step = proposal->settled_step + 1;
    bool keep = step_begun(token, proposal->settled_step);
    uint32_t next = 0;

    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        struct spotnik_entry *entry = &proposal->entry[i];
        uint32_t rank = spotnik_view_rank(view, entry->member.id);
        if (!keep)
            entry->share = entry->flags & SPOTNIK_ENTRY_MEMBER ? next++ : SPOTNIK_NO_SHARE;
        else
            entry->share = rank == SPOTNIK_NO_RANK ? SPOTNIK_NO_SHARE : spotnik_view_share(view, rank, step);
    }
    proposal->share_count = keep ? spotnik_view_shares(view, step) : next;
}

/* The value stands; only the route of ACCEPT (who votes now) is this ballot's. Voters the value leaves out are told by it. */
static void propose_again(struct spotnik_proposal *ret, const struct spotnik_view *view,
                          const struct spotnik_token *token)
{
    spotnik_proposal_copy(ret, &token->accepted);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < ret->entry_count; i++) {
        ret->entry[i].flags &= ~(uint32_t)SPOTNIK_ENTRY_VOTER;
        if (ret->entry[i].flags & SPOTNIK_ENTRY_MEMBER)
            ret->entry[kept++] = ret->entry[i];
    }
    ret->entry_count = kept;
    for (uint32_t i = 0; i < view->size; i++) {
        if (!spotnik_lineage_voter(&token->report[i]))
            continue;
        uint32_t at = spotnik_proposal_find(ret, view->entry[i].member.id);
        if (at == SPOTNIK_NO_RANK)
            append(ret, &view->entry[i].member, SPOTNIK_ENTRY_VOTER);
        else
            ret->entry[at].flags |= SPOTNIK_ENTRY_VOTER;
    }
}

void spotnik_proposal_make(struct spotnik_proposal *ret, const struct spotnik_view *view,
                           const struct spotnik_token *token, uint32_t members_max)
{
    SPOTNIK_ASSERT(token->report_count == view->size);
    if (token->accepted_ballot.round) {
        propose_again(ret, view, token);
        ret->ballot = token->ballot;
        return;
    }
    ret->epoch = view->epoch + 1;
    ret->ballot = token->ballot;
    ret->settled_step = spotnik_proposal_settled(token);
    ret->entry_count = 0;
    SPOTNIK_ASSERT(token->ledger_step == ret->settled_step);
    spotnik_ledger_copy(&ret->ledger, &token->ledger);
    add_voters(ret, view, token);
    keep_a_holder(ret);
    add_joiners(ret, token, members_max);
    share_out(ret, view, token);
}
