/* SPDX-License-Identifier: Apache-2.0 */
/* From PREPARE that has come round to the proposal its initiator puts to ACCEPT. */
#ifndef SPOTNIK_MEMBER_PROPOSAL_H
#define SPOTNIK_MEMBER_PROPOSAL_H

#include "member/message.h"

/* Highest step committed by a voter of `prepare`. At least one voter. */
uint64_t spotnik_proposal_settled(const struct spotnik_prepare *prepare);

/* A joiner is near enough when it is at most one step behind: then it enters as a laggard at
 * worst. */
bool spotnik_proposal_admits(const struct spotnik_enter *joiner, uint64_t settled_step);

/* Did a member of the old view lag behind the settled step when `view` was made? Then that step may
 * still be lost with its holders. Otherwise only members lack it that have just joined, and they
 * must not go on without it: it may have left the job. */
bool spotnik_proposal_losable(const struct spotnik_view *view);

/* Make the proposal for view->epoch + 1 into `ret`. If it carries an accepted proposal, that
 * very value is proposed again, only with the voters of this ballot: it may have been chosen.
 * Otherwise a new one is made. */
void spotnik_proposal_make(struct spotnik_proposal *ret, const struct spotnik_view *view,
                           const struct spotnik_prepare *prepare, uint32_t members_max);

#endif
