/* SPDX-License-Identifier: Apache-2.0 */
/* The promises, as model/recovery.pml has them, over the states of real cores: P1 and P2
 * (make_view), P3 (check_commit, check_installation), progress (check_end). */
#include "world.h"

static void broken(const char *promise)
{
    if (world.broken == NULL)
        world.broken = promise;
}

/* P1, P2: one view for each epoch, whoever installs it, dead members' included. P3: who installs it
 * lacks at most the settled step. */
void check_view(uint32_t index)
{
    const struct spotnik_view *view = spotnik_core_view(world_core(index));
    uint8_t members = 0;

    if (view->epoch != world.node[index].epoch)
        return; /* it has gone further in the same event */
    if (view->epoch >= EPOCHS) {
        broken("views go on without end");
        return;
    }
    for (uint32_t i = 0; i < view->size; i++)
        members |= (uint8_t)(1u << world_index(view->entry[i].member.id));
    if (world.history.view[view->epoch].known
        && (world.history.view[view->epoch].members != members
            || world.history.view[view->epoch].settled != view->settled_step))
        broken("P1, P2: an epoch has two views");
    world.history.view[view->epoch].known = true;
    world.history.view[view->epoch].members = members;
    world.history.view[view->epoch].settled = view->settled_step;
    if (!(members & 1u << index))
        broken("P2: a member installs a view without being in it");
    uint64_t committed = world.node[index].committed;
    if (committed != view->settled_step && committed + 1 != view->settled_step)
        broken("P3: a member installs a view that has settled on another step");
}

/* P3: members of one view are at most one step apart, and whoever has a step has the same result as
 * every member of the view that has it; a stable step is never reduced again. (Somebody who is cut
 * off in an older view may commit his last step there; the others replace it when he is back.) */
void check_commit(uint32_t index, uint64_t step)
{
    uint64_t result = world.history.result[index][step];

    if (world.history.stable[step].known
        && world.history.stable[step].epoch <= world.node[index].epoch
        && world.history.stable[step].result != result)
        broken("P3: a step that may have left the job was reduced again");
    for (uint32_t i = 0; i < bounds.members; i++) {
        if (!world.node[i].alive || world.node[i].epoch != world.node[index].epoch)
            continue;
        if (world.history.result[i][step] != 0 && world.history.result[i][step] != result)
            broken("P3: two members of a view hold different results of a step");
        if (world.node[i].committed + 1 < step)
            broken("P3: a member commits two steps before another one of its view");
    }
}

/* What is stable with anybody may be on a disk, or with a joiner. */
void check_state(void)
{
    for (uint32_t i = 0; i < bounds.members; i++) {
        if (!world.node[i].alive)
            continue;
        uint64_t stable = world_status(i).stable;
        if (stable == 0 || stable > bounds.steps)
            continue;
        uint64_t result = world.history.result[i][stable];
        if (world.history.stable[stable].known && world.history.stable[stable].result != result)
            broken("P4: a stable step has two results");
        if (result == 0)
            broken("P4: a step is stable with a member that does not have it");
        if (!world.history.stable[stable].known)
            world.history.stable[stable].epoch = world.node[i].epoch;
        world.history.stable[stable].known = true;
        world.history.stable[stable].result = result;
    }
}

static bool has_asked(uint32_t index)
{
    return world.node[index].asked_to_leave;
}

/* P9: where only deaths with proof and leaves have happened, the members that live stand in one
 * view of them, none is frozen, and all steps are done. */
void check_end(void)
{
    uint32_t live = 0;

    for (uint32_t i = 0; i < bounds.members; i++)
        live += world.node[i].alive && !world.node[i].excluded;
    for (uint32_t i = 0; i < bounds.members; i++) {
        struct spotnik_core_status status;
        if (!world.node[i].alive || world.node[i].excluded)
            continue;
        status = world_status(i);
        if (has_asked(i))
            broken("P9: a member that asked to leave never left");
        else if (status.frozen || status.parked)
            broken("P9: a survivor stands still");
        else if (status.size != live)
            broken("P9: survivors do not stand in one view");
        else if (status.committed != bounds.steps)
            broken("P9: a survivor has not done all steps");
    }
}
