/* SPDX-License-Identifier: Apache-2.0 */
/* P1, one lineage. At every first installation: the members taken over from the view before must be more than half of
 * those that were still alive then, or half with the smallest id. At the end: what was committed outside the lineage
 * is at most one step, the last one of its member, which never stood in a later view. */
#include "base/id.h"
#include "sim/check.h"

/* Members that leave vote for the view without them, and are gone soon after. */
static bool goes_on(struct sim_world *world, uint32_t process)
{
    return sim_live(world->process[process]) || world->process[process]->app.leave;
}

static bool is_taken(struct sim_world *world, const struct fact_view *view, uint32_t process)
{
    return fact_rank(view, process) != SPOTNIK_NO_RANK || world->process[process]->app.leave;
}

static bool takes_smallest(struct sim_world *world, const struct fact_view *old, const struct fact_view *view)
{
    uint32_t smallest = SIM_NOBODY;
    for (uint32_t i = 0; i < old->size; i++) {
        uint32_t process = old->member[i];
        if (goes_on(world, process) &&
            (smallest == SIM_NOBODY || spotnik_id_compare(world->process[process]->member.id,
                                                          world->process[smallest]->member.id) < 0))
            smallest = process;
    }
    return smallest == SIM_NOBODY || is_taken(world, view, smallest);
}

void check_lineage_view(struct sim_world *world, const struct fact_view *view)
{
    const struct fact_view *old = fact_view_of(world, view->epoch - 1);
    uint32_t alive = 0, taken = 0;

    if (view->epoch == 1)
        return;
    if (!old) {
        sim_fail(world, "P1", "view %llu is installed before view %llu was", (unsigned long long)view->epoch,
                 (unsigned long long)view->epoch - 1);
        return;
    }
    for (uint32_t i = 0; i < old->size; i++) {
        alive += goes_on(world, old->member[i]);
        taken += is_taken(world, view, old->member[i]);
    }
    if (2 * taken < alive || (2 * taken == alive && !takes_smallest(world, old, view)))
        sim_fail(world, "P1", "view %llu takes over %u members of the %u that live on from view %llu",
                 (unsigned long long)view->epoch, taken, alive, (unsigned long long)old->epoch);
}

void check_lineage_end(struct sim_world *world)
{
    const struct sim_facts *facts = world->facts;

    for (size_t i = 0; i < facts->commit_count; i++) {
        const struct fact_commit *orphan = &facts->commit[i];
        if (!fact_is_orphan(world, orphan))
            continue;
        world->result->orphans++;
        for (uint64_t epoch = orphan->epoch + 1; epoch < facts->view_count; epoch++)
            if (facts->view[epoch].known && fact_rank(&facts->view[epoch], orphan->process) != SPOTNIK_NO_RANK)
                sim_fail(world, "P1", "%u committed step %llu in view %llu, and stands in view %llu that did not",
                         orphan->process, (unsigned long long)orphan->step, (unsigned long long)orphan->epoch,
                         (unsigned long long)epoch);
        for (size_t k = i + 1; k < facts->commit_count; k++)
            if (facts->commit[k].process == orphan->process)
                sim_fail(world, "P1", "%u goes on committing (step %llu) after step %llu outside the lineage",
                         orphan->process, (unsigned long long)facts->commit[k].step,
                         (unsigned long long)orphan->step);
    }
}
