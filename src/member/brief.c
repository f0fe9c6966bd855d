/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of a proposal and of a PREPARE; see brief.h. */
#include "member/brief.h"

#include "base/assert.h"

static bool continues(const struct spotnik_run *run, uint32_t rank,
                      const struct spotnik_entry *entry)
{
    bool strange = rank == SPOTNIK_NO_RANK;
    uint32_t share = run->share == SPOTNIK_NO_SHARE ? SPOTNIK_NO_SHARE : run->share + run->count;

    return strange == (run->rank == SPOTNIK_NO_RANK) && (strange || rank == run->rank + run->count)
           && entry->flags == run->flags && entry->share == share;
}

/* False: there is no room for one more run. */
static bool add(struct spotnik_brief *brief, uint32_t rank, const struct spotnik_entry *entry)
{
    struct spotnik_run *last = &brief->run[brief->run_count - (brief->run_count > 0)];

    if (brief->run_count > 0 && continues(last, rank, entry)) {
        last->count++;
        return true;
    }
    if (brief->run_count == SPOTNIK_RUNS_MAX)
        return false;
    brief->run[brief->run_count++] = (struct spotnik_run){
        .rank = rank, .count = 1, .flags = entry->flags, .share = entry->share
    };
    return true;
}

void spotnik_brief_make(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                        uint32_t members)
{
    struct spotnik_brief *brief = &proposal->brief;
    uint32_t near = 0;

    SPOTNIK_ASSERT(!proposal->packed);
    brief->run_count = 0;
    if (view->size <= members || proposal->epoch != view->epoch + 1)
        return;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        uint32_t rank = spotnik_view_rank_near(view, proposal->entry[i].member.id, near);
        near = rank == SPOTNIK_NO_RANK ? near : rank + 1;
        if (!add(brief, rank, &proposal->entry[i])) {
            brief->run_count = 0;
            return;
        }
    }
}

static bool follows(const struct spotnik_proposal *proposal, const struct spotnik_view *view)
{
    const struct spotnik_brief *brief = &proposal->brief;

    for (uint32_t i = 0; i < brief->run_count; i++)
        if (brief->run[i].rank != SPOTNIK_NO_RANK
            && (brief->run[i].rank >= view->size
                || brief->run[i].count > view->size - brief->run[i].rank))
            return false;
    return proposal->founding.id == view->founding.id && proposal->epoch == view->epoch + 1;
}

/* From the end: new members stand packed at the beginning, and none of them is overwritten before
 * it is moved to its place. */
bool spotnik_brief_unpack(struct spotnik_proposal *proposal, const struct spotnik_view *view)
{
    uint32_t to = proposal->entry_count, strangers = 0;

    if (!follows(proposal, view))
        return false;
    for (uint32_t i = 0; i < proposal->brief.run_count; i++)
        strangers +=
            proposal->brief.run[i].rank == SPOTNIK_NO_RANK ? proposal->brief.run[i].count : 0;
    for (uint32_t i = proposal->brief.run_count; i-- > 0;) {
        const struct spotnik_run *run = &proposal->brief.run[i];
        for (uint32_t k = run->count; k-- > 0;) {
            bool strange = run->rank == SPOTNIK_NO_RANK;
            struct spotnik_member member =
                strange ? proposal->entry[--strangers].member : view->entry[run->rank + k].member;
            uint32_t share = run->share == SPOTNIK_NO_SHARE ? SPOTNIK_NO_SHARE : run->share + k;
            proposal->entry[--to] =
                (struct spotnik_entry){ .member = member, .flags = run->flags, .share = share };
        }
    }
    SPOTNIK_ASSERT(to == 0 && strangers == 0);
    proposal->packed = false;
    return true;
}

uint32_t spotnik_brief_flags(const struct spotnik_brief *brief, uint32_t rank)
{
    for (uint32_t i = 0; i < brief->run_count; i++)
        if (brief->run[i].rank != SPOTNIK_NO_RANK && rank >= brief->run[i].rank
            && rank - brief->run[i].rank < brief->run[i].count)
            return brief->run[i].flags;
    return 0;
}

static bool is_like(const struct spotnik_report *a, const struct spotnik_report *b)
{
    return a->evidence == b->evidence && a->leaving == b->leaving && a->promised == b->promised
           && a->begun == b->begun && a->bare == b->bare && a->committed == b->committed
           && a->share_count == b->share_count && a->cut == b->cut && a->apart == b->apart;
}

static bool is_next(const struct spotnik_report *before, const struct spotnik_report *report)
{
    return report->share != SPOTNIK_NO_SHARE && report->share == before->share + 1;
}

uint32_t spotnik_brief_reports(const struct spotnik_report *report, uint32_t count,
                               bool *ret_ascending)
{
    uint32_t length = 1;

    *ret_ascending = count > 1 && is_next(&report[0], &report[1]);
    while (length < count && is_like(&report[0], &report[length])
           && (*ret_ascending ? is_next(&report[length - 1], &report[length])
                              : report[length].share == report[0].share))
        length++;
    if (length == 1)
        *ret_ascending = false;
    return length;
}
