/* SPDX-License-Identifier: Apache-2.0 */
/* P7, joining costs nothing: a member that enters holds the very replica of the lineage at the
 * settled step or one behind; a view never changes for the sake of a joiner that is not in it, nor
 * for nothing at all. (That members go on while a joiner copies is checked by the steps they
 * commit: check_progress.c.) */
#include "base/time.h"
#include "sim/check.h"

static uint32_t difference(const struct fact_view *a, const struct fact_view *b)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < a->size; i++)
        count += spotnik_fact_rank(b, a->member[i]) == SPOTNIK_NO_RANK;
    for (uint32_t i = 0; i < b->size; i++)
        count += spotnik_fact_rank(a, b->member[i]) == SPOTNIK_NO_RANK;
    return count;
}

/* A member that dies or leaves; a joiner that dies on the way in, or one that did not come near
 * enough in the moment it was given; and a leaver that must stay for one view to hand over what
 * only it holds. */
static bool somebody_moves(struct sim_world *world, uint64_t since_ns)
{
    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *process = world->process[i];
        bool asks = sim_live(process) && (process->join == SIM_JOIN_REPLAY || process->app.leave);
        if (asks || (process->died_ns && process->died_ns + SPOTNIK_S >= since_ns))
            return true;
    }
    return false;
}

void spotnik_check_join_view(struct sim_world *world, const struct sim_process *process,
                             const struct fact_view *view)
{
    struct fact_process *book = &world->facts->process[process->index];
    const struct fact_view *old = spotnik_fact_view_of(world, view->epoch - 1);

    if (process->join != SIM_JOIN_NONE || !book->entered_epoch)
        book->entered_epoch = view->epoch;
    if (world->clean && old && view->epoch > 1 && difference(old, view) == 0
        && !somebody_moves(world, old->first_ns))
        spotnik_sim_fail(world, "P7",
                         "view %llu has the members of view %llu: a change for nothing",
                         (unsigned long long)view->epoch, (unsigned long long)old->epoch);
}

/* The last thing an entering process had committed or copied before its first view. */
static const struct fact_commit *brought(const struct sim_world *world, uint32_t process)
{
    const struct sim_facts *facts = world->facts;
    const struct fact_commit *last = NULL;
    for (size_t i = 0; i < facts->commit_count; i++)
        if (facts->commit[i].process == process && facts->commit[i].epoch == 0)
            last = &facts->commit[i];
    return last;
}

static const struct fact_commit *lineage_commit(const struct sim_world *world, uint64_t step)
{
    const struct sim_facts *facts = world->facts;
    for (size_t i = 0; i < facts->commit_count; i++)
        if (facts->commit[i].step == step && facts->commit[i].reduced
            && !spotnik_fact_is_orphan(world, &facts->commit[i]))
            return &facts->commit[i];
    return NULL;
}

void spotnik_check_join_end(struct sim_world *world)
{
    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct fact_commit *last = brought(world, i);
        if (!world->facts->process[i].entered_epoch || !last || last->step == 0)
            continue;
        const struct fact_commit *truth = lineage_commit(world, last->step);
        if (truth && truth->state != last->state)
            spotnik_sim_fail(
                world, "P7",
                "%u entered view %llu with another replica after step %llu than %u has", i,
                (unsigned long long)world->facts->process[i].entered_epoch,
                (unsigned long long)last->step, truth->process);
    }
}
