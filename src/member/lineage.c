/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage rule (P1); why each kind of evidence counts as it does is in evidence.h. */
#include "member/lineage.h"

#include "base/assert.h"

/* With somebody SILENT or TAINTED there may be another group; then a refused connection proves a death, but not
 * that the dead had not gone on with that group. */
static bool other_group_possible(const struct spotnik_view *view, const struct spotnik_report *report)
{
    for (uint32_t i = 0; i < view->size; i++)
        if (report[i].evidence == SPOTNIK_EVIDENCE_SILENT || report[i].evidence == SPOTNIK_EVIDENCE_TAINTED)
            return true;
    return false;
}

static bool proven_gone(const struct spotnik_report *report, bool others)
{
    return report->evidence == SPOTNIK_EVIDENCE_GONE ||
           (report->evidence == SPOTNIK_EVIDENCE_REFUSED && !others);
}

bool spotnik_lineage_allows(const struct spotnik_view *view, const struct spotnik_report *report)
{
    bool others = other_group_possible(view, report);
    uint32_t electorate = 0, voters = 0;
    uint32_t smallest = SPOTNIK_NO_RANK;

    SPOTNIK_ASSERT(view->size > 0);
    for (uint32_t i = 0; i < view->size; i++) {
        if (proven_gone(&report[i], others))
            continue;
        electorate++;
        voters += spotnik_lineage_voter(&report[i]);
        if (smallest == SPOTNIK_NO_RANK ||
            spotnik_id_compare(view->entry[i].member.id, view->entry[smallest].member.id) < 0)
            smallest = i;
    }
    SPOTNIK_ASSERT(voters <= electorate);
    if (voters == 0)
        return false;
    return 2 * voters > electorate || (2 * voters == electorate && spotnik_lineage_voter(&report[smallest]));
}
