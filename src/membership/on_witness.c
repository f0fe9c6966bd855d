/* SPDX-License-Identifier: Apache-2.0 */
/* WITNESS: its answer (tie_break.c). Rules: docs/protocol.md 6. */
#include "base/assert.h"
#include "membership/membership.h"

/* Late, and for another epoch, it says nothing. While another's ballot is under way it waits for
 * our next one. */
void on_witness(struct spotnik_core *core, const struct spotnik_event_witness *answer)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || answer->epoch != core->view.epoch)
        return;
    if (answer->named)
        tie_break_name(&core->membership->agreement.tie_break, answer->epoch);
    if (core->membership->agreement.phase == PHASE_WITNESS && answer->named)
        apply_ballot(core, BALLOT_DECIDE);
    else if (core->membership->agreement.phase == PHASE_WITNESS)
        ballot_park(core);
    else if (core->membership->agreement.phase == PHASE_PARKED && answer->named)
        apply_ballot(core, BALLOT_START);
}
