/* SPDX-License-Identifier: Apache-2.0 */
/* The lineage rule (P1): may the members that promised make the next view? */
#ifndef SPOTNIK_MEMBER_LINEAGE_H
#define SPOTNIK_MEMBER_LINEAGE_H

#include <stdbool.h>

#include "member/evidence.h"
#include "member/view.h"

/* `report[rank]` for every member of `view`, as PREPARE of one ballot carries it. True when the
 * voters are:
 *   more than half of the view, or
 *   exactly half of it, with the tie-breaker, or
 *   all members that are not GONE.
 * The tie-breaker is the member that the witness of the lineage names for this epoch (`named`: it
 * is one of the voters). In a lineage without a witness, it is the smallest member_id. */
bool spotnik_lineage_allows(const struct spotnik_view *view, const struct spotnik_report *report,
                            bool named);

/* The member with the smallest id is a voter. */
bool spotnik_lineage_has_smallest(const struct spotnik_view *view,
                                  const struct spotnik_report *report);

/* The voters are exactly half, and the witness has the last word. */
bool spotnik_lineage_is_tied(const struct spotnik_view *view, const struct spotnik_report *report);

static inline bool spotnik_lineage_voter(const struct spotnik_report *report)
{
    return report->promised && !spotnik_evidence_out(report->evidence);
}

#endif
