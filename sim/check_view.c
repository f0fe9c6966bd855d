/* SPDX-License-Identifier: Apache-2.0 */
/* P2, same view: all processes that install epoch e install the same members in the same order.
 * They do so from the same step, and with the same shares. */
#include "sim/check.h"

static bool same(struct sim_world *world, const struct fact_view *known,
                 const struct spotnik_view *view)
{
    if (known->settled != view->settled_step || known->size != view->size
        || known->share_count != view->share_count)
        return false;
    for (uint32_t i = 0; i < view->size; i++)
        if (known->member[i] != sim_process_of(world, &view->entry[i].member)->index
            || known->share[i] != view->entry[i].share
            || ((known->flags[i] ^ view->entry[i].flags)
                & (SPOTNIK_ENTRY_LAGGARD | SPOTNIK_ENTRY_JOINER)))
            return false;
    return true;
}

void spotnik_check_view_install(struct sim_world *world, const struct sim_process *process,
                                struct fact_view *known)
{
    const struct spotnik_view *view = spotnik_core_view(process->core);

    /* it has gone further in the same event: nothing to compare */
    bool passed = known->epoch < view->epoch;
    if (!passed && !same(world, known, view))
        spotnik_sim_fail(world, "P2", "%u installs another view %llu than others did",
                         process->index, (unsigned long long)known->epoch);
    if (spotnik_fact_rank(known, process->index) == SPOTNIK_NO_RANK)
        spotnik_sim_fail(world, "P2", "%u installs view %llu without being in it", process->index,
                         (unsigned long long)known->epoch);
    if (known->epoch > 1 && known->first_ns == world->now_ns)
        world->result->views = known->epoch;
}
