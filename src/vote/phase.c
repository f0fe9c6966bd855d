/* SPDX-License-Identifier: Apache-2.0 */
/* The phases of an initiator and the roles of a process, and the ways from one to another. A way
 * that is not in these tables is a breach of our own rules: going on would break a promise, so it
 * stops the process. */
#include "base/assert.h"
#include "vote/vote.h"

#define TO(what) (1u << (what))

static const uint8_t phase_ways[] = {
    [PHASE_NONE] = TO(PHASE_NONE) | TO(PHASE_RECONCILE),
    [PHASE_RECONCILE] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_JOINER) | TO(PHASE_ACCEPT)
                        | TO(PHASE_WITNESS) | TO(PHASE_PARKED),
    [PHASE_JOINER] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_JOINER) | TO(PHASE_ACCEPT)
                     | TO(PHASE_WITNESS) | TO(PHASE_PARKED),
    [PHASE_ACCEPT] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_PARKED),
    [PHASE_WITNESS] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_JOINER) | TO(PHASE_ACCEPT)
                      | TO(PHASE_PARKED),
    [PHASE_PARKED] = TO(PHASE_NONE) | TO(PHASE_RECONCILE) | TO(PHASE_PARKED),
};

void phase_set(struct spotnik_core *core, enum phase phase)
{
    SPOTNIK_ASSERT(core->vote->phase < sizeof phase_ways && phase < sizeof phase_ways);
    SPOTNIK_ASSERT(phase_ways[core->vote->phase] & TO(phase));
    /* nobody else may initiate */
    SPOTNIK_ASSERT(phase == PHASE_NONE || core->role == SPOTNIK_ROLE_MEMBER);
    core->vote->phase = phase;
}

/* LEFT, EXCLUDED and FAILED are final: a process that comes back has another core and another id
 * (spotnik_core_init()). */
static const uint8_t role_ways[] = {
    [SPOTNIK_ROLE_IDLE] = TO(SPOTNIK_ROLE_JOINER) | TO(SPOTNIK_ROLE_MEMBER) | TO(SPOTNIK_ROLE_LEFT)
                          | TO(SPOTNIK_ROLE_FAILED),
    [SPOTNIK_ROLE_JOINER] = TO(SPOTNIK_ROLE_MEMBER) | TO(SPOTNIK_ROLE_EXCLUDED)
                            | TO(SPOTNIK_ROLE_LEFT) | TO(SPOTNIK_ROLE_FAILED),
    [SPOTNIK_ROLE_MEMBER] = TO(SPOTNIK_ROLE_MEMBER) | TO(SPOTNIK_ROLE_EXCLUDED)
                            | TO(SPOTNIK_ROLE_LEFT) | TO(SPOTNIK_ROLE_FAILED),
    [SPOTNIK_ROLE_EXCLUDED] = 0,
    [SPOTNIK_ROLE_LEFT] = 0,
    [SPOTNIK_ROLE_FAILED] = 0,
};

void role_set(struct spotnik_core *core, enum spotnik_role role)
{
    SPOTNIK_ASSERT(core->role < sizeof role_ways && role < sizeof role_ways);
    SPOTNIK_ASSERT(role_ways[core->role] & TO(role));
    core->role = role;
}
