/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage rule (P1). Why it is safe, for two disjoint sets of voters A1 (which decided) and A2 of one epoch:
 * two halves-with-the-smallest-or-more intersect; if A2 is everybody who is not GONE, then A1 is inside GONE, but every member
 * of A1 fenced its links to A2 before A1 decided, so no voter of A2 can call it GONE. Nothing between the two is allowed: a majority
 * of the members "not proven gone" would not do, because a dead member may have promised a higher ballot to another group before it
 * died (docs/design/0001-core.md, Lineage). */
#include "member/lineage.h"

#include "base/assert.h"

bool spotnik_lineage_allows(const struct spotnik_view *view, const struct spotnik_report *report)
{
    uint32_t voters = 0, gone = 0, smallest = 0;

    SPOTNIK_ASSERT(view->size > 0);
    for (uint32_t i = 0; i < view->size; i++) {
        voters += spotnik_lineage_voter(&report[i]);
        gone += report[i].evidence == SPOTNIK_EVIDENCE_GONE;
        if (spotnik_id_compare(view->entry[i].member.id, view->entry[smallest].member.id) < 0)
            smallest = i;
    }
    SPOTNIK_ASSERT(voters + gone <= view->size);
    if (voters == 0)
        return false;
    return 2 * voters > view->size || voters + gone == view->size ||
           (2 * voters == view->size && spotnik_lineage_voter(&report[smallest]));
}
