/* SPDX-License-Identifier: Apache-2.0 */
/* When the witness is asked who goes on of two halves (tie_break.c). Rules: docs/protocol.md 5. */
#include "base/assert.h"
#include "membership/membership.h"

bool witness_has_named_us(const struct spotnik_core *core)
{
    const struct tie_break *tie = &core->membership->agreement.tie_break;

    if (SPOTNIK_IS_PLANTED(core, WITNESS_KEPT))
        return tie->named_epoch != 0;
    return tie_break_is_ours(tie, core->view.epoch);
}

/* Another's ballot found no quorum, and may be one of many: where others bid first every time, we
 * never end one of our own in a tie. But the witness may name us, and our answer be lost; no other
 * member can learn of it. Only a member that has asked asks again. */
void witness_ask_again(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (tie_break_is_open(&core->membership->agreement.tie_break, core->view.epoch))
        queue_action(core, SPOTNIK_ACTION_WITNESS)->epoch = core->view.epoch;
}

bool witness_is_awaited(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    bool first = tie_break_ask(&core->membership->agreement.tie_break, core->view.epoch);
    queue_action(core, SPOTNIK_ACTION_WITNESS)->epoch = core->view.epoch;
    if (!first)
        return false;
    phase_set(core, PHASE_WITNESS);
    arm_retry(core, core->limits.retry_ns);
    return true;
}
