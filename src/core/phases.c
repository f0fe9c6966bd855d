/* SPDX-License-Identifier: Apache-2.0 */
/* Moves from phase to phase (phases.h), and the roles of a process, which both machines move. */
#include "core/phases.h"

#include "base/assert.h"

static const struct phases *const tables[] = { &phases_of_role, &phases_of_ballot,
                                               &phases_of_step };

/* LEFT, EXCLUDED and FAILED are final: a process that comes back has another core and another id
 * (spotnik_core_init()). */
const struct phases phases_of_role = {
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
    uint8_t table = 0;

    while (tables[table] != phases)
        table++;
    core->move[core->moves++ % MOVES_KEPT] =
        (struct phase_move){ .table = table, .from = (uint8_t)from, .to = (uint8_t)to };
}

void phase_move(struct spotnik_core *core, const struct phases *phases, unsigned from, unsigned to)
{
    SPOTNIK_ASSERT(from < PHASES_MAX && to < PHASES_MAX);
    SPOTNIK_ASSERT(phases->algorithms[from] & TO(to));
    if (from != to)
        note(core, phases, from, to);
}

bool spotnik_core_move(struct spotnik_core *core, struct spotnik_move *ret)
{
    if (core->moves - core->moves_told > MOVES_KEPT)
        core->moves_told = core->moves - MOVES_KEPT;
    if (core->moves_told == core->moves)
        return false;
    struct phase_move move = core->move[core->moves_told++ % MOVES_KEPT];
    const struct phases *phases = tables[move.table];
    *ret = (struct spotnik_move){ .of = phases->of,
                                  .from = phases->name[move.from],
                                  .to = phases->name[move.to] };
    return true;
}
