/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of a tie has answered. */
#include "vote/vote.h"

/* Late, and for another epoch, it says nothing. While somebody else's ballot is under way it waits
 * for our next one. */
void on_witness(struct spotnik_core *core, const struct spotnik_event_witness *answer)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || answer->epoch != core->view.epoch)
        return;
    if (answer->named)
        core->vote->witness.named_epoch = answer->epoch;
    if (core->vote->phase == PHASE_WITNESS && answer->named)
        token_returned(core);
    else if (core->vote->phase == PHASE_WITNESS)
        ballot_park(core);
    else if (core->vote->phase == PHASE_PARKED && answer->named)
        ballot_start(core);
}
