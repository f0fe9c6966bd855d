/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage rule (P1): may the members that promised make the next view? */
#ifndef SPOTNIK_MEMBER_LINEAGE_H
#define SPOTNIK_MEMBER_LINEAGE_H

#include <stdbool.h>

#include "member/evidence.h"
#include "member/view.h"

/* `report[rank]` for every member of `view`, evidence merged from all voters. True when the voters are more than half of the
 * members not proven gone, or exactly half with the smallest member_id among them. */
bool spotnik_lineage_allows(const struct spotnik_view *view, const struct spotnik_report *report);

static inline bool spotnik_lineage_voter(const struct spotnik_report *report)
{
    return report->promised && !spotnik_evidence_out(report->evidence);
}

#endif
