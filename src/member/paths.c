/* SPDX-License-Identifier: Apache-2.0 */
/* Who is left out where hosts do not reach each other; see paths.h. */
#include "member/paths.h"

#include "base/assert.h"
#include "member/lineage.h"

#define PATHS_MAX 16 /* the others are for the next view */

struct paths {
    uint32_t count;
    uint64_t host[PATHS_MAX][2];
};

static void path_add(struct paths *paths, uint64_t a, uint64_t b)
{
    for (uint32_t i = 0; i < paths->count; i++)
        if ((paths->host[i][0] == a && paths->host[i][1] == b)
            || (paths->host[i][0] == b && paths->host[i][1] == a))
            return;
    if (paths->count < PATHS_MAX) {
        paths->host[paths->count][0] = a;
        paths->host[paths->count++][1] = b;
    }
}

static struct paths paths_of(const struct spotnik_view *view, const struct spotnik_prepare *prepare)
{
    struct paths paths = { .count = 0 };

    for (uint32_t r = 0; r < view->size; r++) {
        const struct spotnik_report *report = &prepare->report[r];
        for (uint32_t s = 0; report->cut != 0 && spotnik_lineage_voter(report) && s < view->size;
             s++)
            if ((report->cut >> s % 64 & 1) && spotnik_lineage_voter(&prepare->report[s])
                && view->entry[r].member.host != view->entry[s].member.host)
                path_add(&paths, view->entry[r].member.host, view->entry[s].member.host);
    }
    return paths;
}

/* Only this host holds the result of the settled step; or only it holds the state, if no host has
 * the result. The laggards wait for it: without it the next view cannot go on. */
static bool is_only_holder(const struct spotnik_proposal *proposal, const struct spotnik_view *view,
                           const struct spotnik_prepare *prepare, uint64_t host)
{
    uint32_t state[2] = { 0 }, result[2] = { 0 }; /* elsewhere, here */

    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        uint32_t rank = spotnik_view_rank_near(view, entry->member.id, i);
        if (!(entry->flags & SPOTNIK_ENTRY_MEMBER) || (entry->flags & SPOTNIK_ENTRY_LAGGARD))
            continue;
        SPOTNIK_ASSERT(rank != SPOTNIK_NO_RANK);
        state[entry->member.host == host]++;
        result[entry->member.host == host] += !prepare->report[rank].bare;
    }
    const uint32_t *held = result[0] + result[1] > 0 ? result : state;
    return held[0] == 0 && held[1] > 0;
}

/* A host as it is weighed against another. */
struct side {
    uint64_t host;
    bool needed;
    uint32_t paths, members;
    struct spotnik_id first;
};

static struct side side_of(const struct paths *paths, const struct spotnik_proposal *proposal,
                           const struct spotnik_view *view, const struct spotnik_prepare *prepare,
                           uint64_t host)
{
    struct side side = { .host = host, .needed = is_only_holder(proposal, view, prepare, host) };

    for (uint32_t i = 0; i < paths->count; i++)
        side.paths += paths->host[i][0] == host || paths->host[i][1] == host;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        const struct spotnik_entry *entry = &proposal->entry[i];
        if (entry->member.host != host || !(entry->flags & SPOTNIK_ENTRY_MEMBER))
            continue;
        if (side.members++ == 0)
            side.first = entry->member.id;
    }
    return side;
}

static bool goes_before(const struct side *a, const struct side *b)
{
    if (a->needed != b->needed)
        return b->needed;
    if (a->paths != b->paths)
        return a->paths > b->paths;
    if (a->members != b->members)
        return a->members < b->members;
    return spotnik_id_compare(a->first, b->first) > 0;
}

static void leave_out(struct spotnik_proposal *proposal, struct paths *paths, uint64_t host)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        struct spotnik_entry *entry = &proposal->entry[i];
        if (entry->member.host == host && (entry->flags & SPOTNIK_ENTRY_MEMBER))
            entry->flags = (entry->flags & ~(uint32_t)SPOTNIK_ENTRY_MEMBER) | SPOTNIK_ENTRY_CUT;
    }
    for (uint32_t i = 0; i < paths->count; i++)
        if (paths->host[i][0] != host && paths->host[i][1] != host) {
            paths->host[kept][0] = paths->host[i][0];
            paths->host[kept++][1] = paths->host[i][1];
        }
    SPOTNIK_ASSERT(kept < paths->count);
    paths->count = kept;
}

void spotnik_paths_leave_out(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                             const struct spotnik_prepare *prepare)
{
    struct paths paths = paths_of(view, prepare);

    while (paths.count > 0) {
        struct side goes = side_of(&paths, proposal, view, prepare, paths.host[0][0]);
        for (uint32_t i = 0; i < 2 * paths.count; i++) {
            struct side side = side_of(&paths, proposal, view, prepare, paths.host[i / 2][i % 2]);
            if (goes_before(&side, &goes))
                goes = side;
        }
        leave_out(proposal, &paths, goes.host);
    }
}
