/* SPDX-License-Identifier: Apache-2.0 */
/* Moves from phase to phase (phases.h), and the roles of a process, which both machines move. */
#include "core/phases.h"

#include "base/assert.h"

/* LEFT, EXCLUDED and FAILED are final: a process that comes back has another core and another id
 * (spotnik_core_init()). */
const struct phases phases_of_role = {
    .table = PHASES_OF_ROLE,
    .of = "role",
    .name = { "idle", "joiner", "member", "excluded", "left", "failed" },
    .algorithms = { [SPOTNIK_ROLE_IDLE] = TO(SPOTNIK_ROLE_JOINER) | TO(SPOTNIK_ROLE_MEMBER)
                                          | TO(SPOTNIK_ROLE_LEFT) | TO(SPOTNIK_ROLE_FAILED),
                    [SPOTNIK_ROLE_JOINER] = TO(SPOTNIK_ROLE_MEMBER) | TO(SPOTNIK_ROLE_EXCLUDED)
                                            | TO(SPOTNIK_ROLE_LEFT) | TO(SPOTNIK_ROLE_FAILED),
                    [SPOTNIK_ROLE_MEMBER] = TO(SPOTNIK_ROLE_MEMBER) | TO(SPOTNIK_ROLE_EXCLUDED)
                                            | TO(SPOTNIK_ROLE_LEFT) | TO(SPOTNIK_ROLE_FAILED) },
};

void role_set(struct spotnik_core *core, enum spotnik_role role)
{
    phase_move(core, &phases_of_role, core->role, role);
    core->role = role;
}

static void note(struct spotnik_core *core, const struct phases *phases, unsigned from, unsigned to)
{
    core->moves.kept[core->moves.count++ % MOVES_KEPT] =
        (struct phase_move){ .table = phases->table, .from = (uint8_t)from, .to = (uint8_t)to };
}

void phase_move(struct spotnik_core *core, const struct phases *phases, unsigned from, unsigned to)
{
    SPOTNIK_ASSERT(from < PHASES_MAX && to < PHASES_MAX);
    SPOTNIK_ASSERT(phases->algorithms[from] & TO(to));
    if (from != to)
        note(core, phases, from, to);
}

void fail(struct spotnik_core *core, int error)
{
    SPOTNIK_ASSERT(error != 0);
    SPOTNIK_ASSERT(core->role <= SPOTNIK_ROLE_MEMBER);
    core->error = error;
    role_set(core, SPOTNIK_ROLE_FAILED);
    queue_action(core, SPOTNIK_ACTION_FAILED)->error = error;
}

void become(struct spotnik_core *core, enum spotnik_role role)
{
    SPOTNIK_ASSERT(role == SPOTNIK_ROLE_EXCLUDED || role == SPOTNIK_ROLE_LEFT);
    role_set(core, role);
    if (role == SPOTNIK_ROLE_EXCLUDED)
        queue_action(core, SPOTNIK_ACTION_EXCLUDED);
    else if (role == SPOTNIK_ROLE_LEFT)
        queue_action(core, SPOTNIK_ACTION_LEFT);
}
