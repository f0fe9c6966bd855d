/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of an initiator's ballot, the moves from one to another, and when it is retried.
 * Rules: docs/protocol.md 5. */
#include "base/assert.h"
#include "core/phases.h"
#include "membership/membership.h"

const struct phases phases_of_ballot = {
    .table = PHASES_OF_BALLOT,
    .of = "ballot",
    .name = { "none", "reconcile", "joiner", "accept", "witness", "parked" },
    .algorithms = { [PHASE_NONE] = TO(PHASE_NONE) | TO(PHASE_PREPARE),
                    [PHASE_PREPARE] = TO(PHASE_NONE) | TO(PHASE_PREPARE) | TO(PHASE_JOINER)
                                      | TO(PHASE_ACCEPT) | TO(PHASE_WITNESS) | TO(PHASE_PARKED),
                    [PHASE_JOINER] = TO(PHASE_NONE) | TO(PHASE_PREPARE) | TO(PHASE_JOINER)
                                     | TO(PHASE_ACCEPT) | TO(PHASE_WITNESS) | TO(PHASE_PARKED),
                    [PHASE_ACCEPT] = TO(PHASE_NONE) | TO(PHASE_PREPARE) | TO(PHASE_PARKED),
                    [PHASE_WITNESS] = TO(PHASE_NONE) | TO(PHASE_PREPARE) | TO(PHASE_JOINER)
                                      | TO(PHASE_ACCEPT) | TO(PHASE_PARKED),
                    [PHASE_PARKED] = TO(PHASE_NONE) | TO(PHASE_PREPARE) | TO(PHASE_PARKED) },
};

void phase_set(struct spotnik_core *core, enum phase phase)
{
    /* only a member may initiate */
    SPOTNIK_ASSERT(phase == PHASE_NONE || core->role == SPOTNIK_ROLE_MEMBER);
    phase_move(core, &phases_of_ballot, core->membership->agreement.phase, phase);
    core->membership->agreement.phase = phase;
}

/* When do we start over if nothing happens? (ballot.c) */
void arm_retry(struct spotnik_core *core, uint64_t wait_ns)
{
    struct agreement_input in = agreement_input(core);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    ballot_retry(&core->membership->agreement, &in, wait_ns);
}
