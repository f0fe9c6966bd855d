/* SPDX-License-Identifier: Apache-2.0 */
/* One strategy: in every step of the lineage all members ran the same strategy, those included that
 * put something in and died; all have decided the same after it, joiners that have only copied it
 * too; and where the strategy keeps models equal, they are equal from the commit of the switching
 * step on. */
#include <stdlib.h>

#include "sim/check.h"

static void differ(struct sim_world *world, const struct fact_commit *a,
                   const struct fact_commit *b, const char *in)
{
    spotnik_sim_fail(world, "sync", "%u and %u differ in %s step %llu", a->process, b->process, in,
                     (unsigned long long)a->step);
}

static void compare(struct sim_world *world, const struct fact_commit *a,
                    const struct fact_commit *b)
{
    if (a->ran && b->ran && a->ran != b->ran)
        differ(world, a, b, "how they ran");
    else if (a->decided != b->decided)
        differ(world, a, b, "what they decided after");
    else if (a->own && b->own && a->own != b->own)
        differ(world, a, b, "their models after");
}

/* All that contributed, alive or not. */
static void contributors(struct sim_world *world, const struct fact_commit *commit)
{
    const struct fact_view *view = spotnik_fact_view_of(world, commit->epoch);

    for (uint32_t rank = 0; view && commit->reduced && rank < view->size; rank++) {
        const struct fact_input *input =
            spotnik_fact_input_of(world, view->member[rank], commit->step);
        if (input && input->filled && input->has_share && input->runs != commit->ran)
            spotnik_sim_fail(world, "sync",
                             "%u put something into step %llu by another strategy than %u's",
                             input->process, (unsigned long long)commit->step, commit->process);
    }
}

void spotnik_check_strategy_end(struct sim_world *world)
{
    const struct sim_facts *facts = world->facts;
    /* 1 + index of a commit of each step */
    size_t *first = spotnik_sim_alloc((facts->steps_max + 2) * sizeof(*first));

    for (size_t i = 0; i < facts->commit_count; i++) {
        const struct fact_commit *commit = &facts->commit[i];
        bool outside = commit->epoch == 0 && facts->process[commit->process].entered_epoch == 0;
        if (outside || spotnik_fact_is_orphan(world, commit) || commit->step == 0)
            continue;
        contributors(world, commit);
        if (!first[commit->step])
            first[commit->step] = i + 1;
        else
            compare(world, &facts->commit[first[commit->step] - 1], commit);
    }
    free(first);
}
