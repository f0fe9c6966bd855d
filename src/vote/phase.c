/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of an initiator's ballot, and the ways from one to another. */
#include "base/assert.h"
#include "core/phases.h"
#include "vote/vote.h"

const struct phases phases_of_ballot = {
    .of = "ballot",
    .name = { "none", "reconcile", "joiner", "accept", "witness", "parked" },
    .ways = { [PHASE_NONE] = TO(PHASE_NONE) | TO(PHASE_RECONCILE),
              [PHASE_RECONCILE] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_JOINER)
                                  | TO(PHASE_ACCEPT) | TO(PHASE_WITNESS) | TO(PHASE_PARKED),
              [PHASE_JOINER] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_JOINER)
                               | TO(PHASE_ACCEPT) | TO(PHASE_WITNESS) | TO(PHASE_PARKED),
              [PHASE_ACCEPT] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_PARKED),
              [PHASE_WITNESS] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_JOINER)
                                | TO(PHASE_ACCEPT) | TO(PHASE_PARKED),
              [PHASE_PARKED] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_PARKED) },
};

void phase_set(struct spotnik_core *core, enum phase phase)
{
    /* nobody else may initiate */
    SPOTNIK_ASSERT(phase == PHASE_NONE || core->role == SPOTNIK_ROLE_MEMBER);
    phase_move(core, &phases_of_ballot, core->vote->phase, phase);
    core->vote->phase = phase;
}
