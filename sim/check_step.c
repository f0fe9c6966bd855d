/* SPDX-License-Identifier: Apache-2.0 */
/* P3, atomic step. A reduced result must be what the members of that view, all of them, make of
 * what they put in; nobody commits while another member of the view is more than one step behind; a
 * new view settles on what its members have committed; and in the end one step has one result on
 * the lineage, handed over or reduced. */
#include "sim/check.h"

static void check_distance(struct sim_world *world, const struct sim_process *process,
                           uint64_t step)
{
    const struct fact_view *view = spotnik_fact_view_of(world, process->epoch);

    for (uint32_t i = 0; i < view->size; i++) {
        const struct sim_process *other = world->process[view->member[i]];
        if (sim_live(other) && other->epoch == process->epoch && other->app.committed + 1 < step)
            spotnik_sim_fail(world, "P3",
                             "%u commits step %llu while %u has committed %llu in the same view",
                             process->index, (unsigned long long)step, other->index,
                             (unsigned long long)other->app.committed);
    }
}

void spotnik_check_step_commit(struct sim_world *world, const struct sim_process *process,
                               const struct fact_commit *commit)
{
    uint64_t expected;

    if (!commit->reduced)
        return;
    check_distance(world, process, commit->step);
    if (!spotnik_check_bits_expected(world, commit->epoch, commit->step, &expected))
        spotnik_sim_fail(
            world, "P3",
            "%u commits step %llu in view %llu, though a member of it has put nothing in",
            process->index, (unsigned long long)commit->step, (unsigned long long)commit->epoch);
    else if (expected != commit->result)
        spotnik_sim_fail(world, "P3",
                         "%u: the result of step %llu is not what the members of view %llu put in",
                         process->index, (unsigned long long)commit->step,
                         (unsigned long long)commit->epoch);
}

void spotnik_check_step_view(struct sim_world *world, const struct sim_process *process,
                             const struct fact_view *view)
{
    uint32_t rank = spotnik_fact_rank(view, process->index);
    bool laggard = rank != SPOTNIK_NO_RANK && (view->flags[rank] & SPOTNIK_ENTRY_LAGGARD);
    uint64_t committed = process->app.committed;

    if (committed == view->settled || (laggard && committed + 1 == view->settled))
        return;
    spotnik_sim_fail(world, "P3",
                     "%u has committed step %llu and installs view %llu, settled on %llu",
                     process->index, (unsigned long long)committed, (unsigned long long)view->epoch,
                     (unsigned long long)view->settled);
}

/* Is the commit of somebody that belongs to the lineage? Joiners that never entered may hold
 * anything. */
static bool counts(const struct sim_world *world, const struct fact_commit *commit)
{
    return !commit->copied && !spotnik_fact_is_orphan(world, commit)
           && (commit->epoch != 0 || world->facts->process[commit->process].entered_epoch != 0);
}

void spotnik_check_step_end(struct sim_world *world)
{
    const struct sim_facts *facts = world->facts;

    for (size_t i = 0; i < facts->commit_count; i++) {
        const struct fact_commit *commit = &facts->commit[i];
        uint64_t expected, epoch = spotnik_fact_reducing_epoch(world, commit->step);
        if (!counts(world, commit) || commit->reduced)
            continue;
        if (!spotnik_check_bits_expected(world, epoch, commit->step, &expected)
            || expected != commit->result)
            spotnik_sim_fail(world, "P3",
                             "%u was handed another result of step %llu than view %llu made",
                             commit->process, (unsigned long long)commit->step,
                             (unsigned long long)epoch);
    }
}
