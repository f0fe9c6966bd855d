/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts that do not reach each other, though the others reach both: one of the two is left out
 * of the next view (docs/design/0025-paths.md). Pure. */
#ifndef SPOTNIK_MEMBER_PATHS_H
#define SPOTNIK_MEMBER_PATHS_H

#include "member/message.h"

/* For every two hosts of which a voter says that it does not reach the other, take all members of
 * one host out of `proposal`. The only host that holds the settled step stays. Of others that host
 * goes of which most such pairs tell; of two alike the one with fewer members; and then the one
 * whose first member has the larger id. */
void spotnik_paths_leave_out(struct spotnik_proposal *proposal, const struct spotnik_view *view,
                             const struct spotnik_prepare *prepare);

#endif
