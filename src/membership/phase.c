/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of an initiator's ballot, the ways from one to another, and when it is retried. */
#include "base/assert.h"
#include "base/time.h"
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
    /* nobody else may initiate */
    SPOTNIK_ASSERT(phase == PHASE_NONE || core->role == SPOTNIK_ROLE_MEMBER);
    phase_move(core, &phases_of_ballot, core->membership->phase, phase);
    core->membership->phase = phase;
}

/* Every member that has promised starts over if nothing happens for long: the last resort when no
 * witness is left to notice that a PREPARE died. Retries back off and are spread by rank, so that
 * two members that wake together do not outbid each other for ever. */
void arm_retry(struct spotnik_core *core, uint64_t wait_ns)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(wait_ns > 0);
    uint64_t spread_ns = core->rank * core->limits.stagger_ns;
    uint32_t shift = core->membership->retries < 4 ? core->membership->retries : 4;
    wait_ns += core->view.size * SPOTNIK_MS; /* a pass is as long as the ring */
    core->membership->retry_ns = spotnik_time_add(core->now_ns, (wait_ns << shift) + spread_ns);
}
