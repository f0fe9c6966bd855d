/* SPDX-License-Identifier: Apache-2.0 */
/* Saying only what differs (docs/design/0036-many-members.md). A proposal is mostly the view before
 * it: a brief one names runs of that view's ranks, and spells out only members that are new. A
 * PREPARE is mostly the same report again and again: runs of reports. */
#ifndef SPOTNIK_MEMBER_BRIEF_H
#define SPOTNIK_MEMBER_BRIEF_H

#include "member/message.h"
#include "member/view.h"

/* Fill proposal->brief: how its entries follow from `view`, which it replaces. None (run_count 0)
 * where the view is no larger than `members`, or differs in too many places. */
void spotnik_brief_make(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                        uint32_t members);

/* A packed proposal gets all its entries. False, and nothing has changed, where it does not follow
 * from `view`. */
bool spotnik_brief_unpack(struct spotnik_proposal *proposal, const struct spotnik_view *view);

/* The flags of the member of that rank of the view that a brief proposal follows; 0: it is not in
 * it. */
uint32_t spotnik_brief_flags(const struct spotnik_brief *brief, uint32_t rank);

/* How many reports from the first on, of `count`, are one run: the same but for the share, which
 * stays or (*ret_ascending) grows by one. */
uint32_t spotnik_brief_reports(const struct spotnik_report *report, uint32_t count,
                               bool *ret_ascending);

#endif
