/* SPDX-License-Identifier: Apache-2.0 */
/* P1, one lineage. At every first installation the view must have taken over members of the one
 * before: more than half of them, or half with the tie-breaker, or all that truly lived on. At the
 * end: what was committed outside the lineage is at most one step, the last one of its member,
 * which never stood in a later view. */
#include <string.h>

#include "base/id.h"
#include "sim/check.h"

/* Members that leave vote for the view without them, and are gone soon after. */
static bool goes_on(struct sim_world *world, uint32_t process)
{
    return sim_live(world->process[process]) || world->process[process]->app.leave;
}

/* The last value it voted for is this very view. P1 rests on votes: the members taken over are
 * voters, but not all voters are taken over. A leaver is not. Nor is one that lacks the settled
 * step where nobody is left to serve it: it votes for the view without itself and is excluded
 * (member/proposal.c: drop_laggards). Counting it is right: any other group that would decide this
 * epoch needs a quorum that meets this one. So it needs a member that promised to it and reported
 * this value, or did not vote for it. A member that only looks on, or has voted for any other value
 * since, is not counted. Votes in different ballots count together, which is more than a quorum of
 * one ballot. It hides nothing: they are votes for one value, and a second value in the same epoch
 * breaks the check that each epoch has one view (check.c). */
static bool voted(const struct sim_world *world, const struct fact_view *view, uint32_t process)
{
    const struct fact_view *proposed = &world->facts->process[process].proposed;
    return proposed->epoch == view->epoch && proposed->size == view->size
           && proposed->settled == view->settled && proposed->share_count == view->share_count
           && !memcmp(proposed->member, view->member, view->size * sizeof(*view->member));
}

static bool is_taken(struct sim_world *world, const struct fact_view *view, uint32_t process)
{
    return spotnik_fact_rank(view, process) != SPOTNIK_NO_RANK || world->process[process]->app.leave
           || voted(world, view, process);
}

static bool takes_smallest(struct sim_world *world, const struct fact_view *old,
                           const struct fact_view *view)
{
    uint32_t smallest = old->member[0];
    for (uint32_t i = 1; i < old->size; i++)
        if (spotnik_id_compare(world->process[old->member[i]]->member.id,
                               world->process[smallest]->member.id)
            < 0)
            smallest = old->member[i];
    return is_taken(world, view, smallest);
}

/* Half of a view is taken over: did it have the right to go on? */
static bool takes_tie(struct sim_world *world, const struct fact_view *old,
                      const struct fact_view *view)
{
    if (!world->options.witnessed)
        return takes_smallest(world, old, view);
    uint32_t owner = spotnik_sim_witness_owner(world, old->epoch);
    return owner != SIM_NOBODY && is_taken(world, view, owner);
}

void spotnik_check_lineage_view(struct sim_world *world, const struct fact_view *view)
{
    const struct fact_view *old = spotnik_fact_view_of(world, view->epoch - 1);
    uint32_t left_behind = 0, taken = 0;

    if (view->epoch == 1)
        return;
    if (!old) {
        spotnik_sim_fail(world, "P1", "view %llu is installed before view %llu was",
                         (unsigned long long)view->epoch, (unsigned long long)view->epoch - 1);
        return;
    }
    for (uint32_t i = 0; i < old->size; i++) {
        bool is_in = is_taken(world, view, old->member[i]);
        taken += is_in;
        left_behind += !is_in && goes_on(world, old->member[i]);
    }
    if (2 * taken > old->size || !left_behind
        || (2 * taken == old->size && takes_tie(world, old, view)))
        return;
    spotnik_sim_fail(
        world, "P1",
        "view %llu takes over %u of the %u members of view %llu and leaves %u living ones behind",
        (unsigned long long)view->epoch, taken, old->size, (unsigned long long)old->epoch,
        left_behind);
}

void spotnik_check_lineage_end(struct sim_world *world)
{
    const struct sim_facts *facts = world->facts;

    for (size_t i = 0; i < facts->commit_count; i++) {
        const struct fact_commit *orphan = &facts->commit[i];
        if (!spotnik_fact_is_orphan(world, orphan))
            continue;
        world->result->orphans++;
        for (uint64_t epoch = spotnik_fact_reducing_epoch(world, orphan->step);
             epoch < facts->view_count; epoch++)
            if (facts->view[epoch].known
                && spotnik_fact_rank(&facts->view[epoch], orphan->process) != SPOTNIK_NO_RANK)
                spotnik_sim_fail(world, "P1",
                                 "%u committed step %llu in view %llu, and stands in view %llu "
                                 "after it was reduced again",
                                 orphan->process, (unsigned long long)orphan->step,
                                 (unsigned long long)orphan->epoch, (unsigned long long)epoch);
        for (size_t k = i + 1; k < facts->commit_count; k++)
            if (facts->commit[k].process == orphan->process)
                spotnik_sim_fail(
                    world, "P1",
                    "%u goes on committing (step %llu) after step %llu outside the lineage",
                    orphan->process, (unsigned long long)facts->commit[k].step,
                    (unsigned long long)orphan->step);
    }
}
