/* SPDX-License-Identifier: Apache-2.0 */
/* LEAVE, and the tick that asks again (leave.c). No rule of the protocol is here. */
#include "base/assert.h"
#include "membership/membership.h"

static void ask(struct spotnik_core *core, bool ballot)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    core->membership->evidence_table.known[core->rank].leaving = 1;
    if (ballot)
        apply_ballot(core, BALLOT_START);
}

void on_leave(struct spotnik_core *core)
{
    if (core->role != SPOTNIK_ROLE_MEMBER) {
        become(core, SPOTNIK_ROLE_LEFT);
        return;
    }
    step_ask_no_more(core);
    ask(core, leave_begin(&core->membership->leaving, core->now_ns, core->frozen));
}

void leave_tick(struct spotnik_core *core)
{
    ask(core, leave_again(&core->membership->leaving, core->now_ns, core->limits.stagger_ns,
                          core->frozen));
}
