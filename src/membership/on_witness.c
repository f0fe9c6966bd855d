/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of a tie has answered. */
#include "membership/membership.h"

/* Late, and for another epoch, it says nothing. While somebody else's ballot is under way it waits
 * for our next one. */
void on_witness(struct spotnik_core *core, const struct spotnik_event_witness *answer)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || answer->epoch != core->view.epoch)
        return;
    if (answer->named)
        core->membership->witness.named_epoch = answer->epoch;
    if (core->membership->phase == PHASE_WITNESS && answer->named)
        prepare_returned(core);
    else if (core->membership->phase == PHASE_WITNESS)
        ballot_park(core);
    else if (core->membership->phase == PHASE_PARKED && answer->named)
        ballot_start(core);
}
