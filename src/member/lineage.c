/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage rule (P1). Why it is safe, for two disjoint sets of voters A1 (which decided) and A2
 * of one epoch: two halves-with-the-smallest-or-more intersect. So do two halves that both hold the
 * member that the witness names for this epoch, for it names at most one
 * (docs/design/0014-ties.md); all members of an epoch use the same one of these two rules. If
 * A2 is all members that are not GONE, then A1 is inside GONE. But every member of A1 fenced its
 * links to A2 before A1 decided, so no voter of A2 can call it GONE. Nothing between the two is
 * allowed: a majority of the members "not proven gone" would not do. A dead member may have
 * promised a higher ballot to another group before it died (docs/design/0001-core.md, Lineage). */
#include "member/lineage.h"

#include "base/assert.h"

bool spotnik_lineage_has_smallest(const struct spotnik_view *view,
                                  const struct spotnik_report *report)
{
    uint32_t smallest = 0;

    for (uint32_t i = 1; i < view->size; i++)
        if (spotnik_id_compare(view->entry[i].member.id, view->entry[smallest].member.id) < 0)
            smallest = i;
    return spotnik_lineage_voter(&report[smallest]);
}

static uint32_t voters_of(const struct spotnik_view *view, const struct spotnik_report *report)
{
    uint32_t voters = 0;

    for (uint32_t i = 0; i < view->size; i++)
        voters += spotnik_lineage_voter(&report[i]);
    return voters;
}

bool spotnik_lineage_allows(const struct spotnik_view *view, const struct spotnik_report *report,
                            bool named)
{
    uint32_t voters = voters_of(view, report), gone = 0;

    SPOTNIK_ASSERT(view->size > 0);
    for (uint32_t i = 0; i < view->size; i++)
        gone += report[i].evidence == SPOTNIK_EVIDENCE_GONE;
    SPOTNIK_ASSERT(voters + gone <= view->size);
    if (voters == 0)
        return false;
    if (2 * voters > view->size || voters + gone == view->size)
        return true;
    if (2 * voters < view->size)
        return false;
    return spotnik_founding_is_witnessed(&view->founding)
               ? named
               : spotnik_lineage_has_smallest(view, report);
}

bool spotnik_lineage_is_tied(const struct spotnik_view *view, const struct spotnik_report *report)
{
    return spotnik_founding_is_witnessed(&view->founding)
           && 2 * voters_of(view, report) == view->size;
}
