/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ties: half of the view is all that promised, and which half goes on is for the witness to
 * say. The witness is a thing that one member at most can have for an epoch
 * (docs/design/0014-ties.md). The initiator asks for it and decides by its own word alone:
 * others of its half need not know. What it was told once in an epoch stays true in it. */
#include "base/assert.h"
#include "membership/membership.h"

/* Whether that is enough is for a ballot of ours to say, once all have signed it. */
bool witness_has_named_us(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->witness.named_epoch <= core->view.epoch);
    if (SPOTNIK_IS_PLANTED(core, WITNESS_KEPT))
        return core->membership->witness.named_epoch != 0;
    return core->view.epoch != 0 && core->membership->witness.named_epoch == core->view.epoch;
}

/* Another's ballot found no quorum, and may be one of many: where others bid first every time, we
 * never end one of our own in a tie. But the witness may name us, and our answer be lost; nobody
 * else can learn of it. Only who has asked asks again. */
void witness_ask_again(struct spotnik_core *core)
{
    const struct spotnik_witness *witness = &core->membership->witness;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (witness->asked_epoch == core->view.epoch && witness->named_epoch != core->view.epoch)
        queue_action(core, SPOTNIK_ACTION_WITNESS)->epoch = core->view.epoch;
}

/* Every ballot that ends in a tie asks again: an answer may be lost. Only the first one of an epoch
 * waits before it parks. */
bool witness_is_awaited(struct spotnik_core *core)
{
    bool first = core->membership->witness.asked_epoch != core->view.epoch;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(core->frozen);
    SPOTNIK_ASSERT(spotnik_lineage_is_tied(&core->view, core->membership->prepare.report));
    core->membership->witness.asked_epoch = core->view.epoch;
    queue_action(core, SPOTNIK_ACTION_WITNESS)->epoch = core->view.epoch;
    if (!first)
        return false;
    phase_set(core, PHASE_WITNESS);
    arm_retry(core, core->limits.retry_ns);
    return true;
}
