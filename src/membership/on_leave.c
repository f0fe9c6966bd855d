/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE: a planned departure is a view change that its subject starts itself. It votes, hands over
 * what only it holds, and goes when the view without it is installed. */
#include "membership/membership.h"

void on_leave(struct spotnik_core *core)
{
    if (core->role != SPOTNIK_ROLE_MEMBER) {
        become(core, SPOTNIK_ROLE_LEFT);
        return;
    }
    core->membership->leaving = true;
    step_ask_no_more(core);
    core->membership->evidence_table[core->rank].leaving = 1;
    if (!core->frozen)
        ballot_start(core);
    else
        /* PREPARE under way may have passed us: ask as soon as it is done */
        core->membership->leave_ns = core->now_ns;
}
