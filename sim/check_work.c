/* SPDX-License-Identifier: Apache-2.0 */
/* P5, no survivor's work is lost: take a member that contributed to a step and stands in any view
 * from the one that reduced it on. It must have stood in that one, so its gradient is in the result
 * (check_step.c has compared the bits). And no member computes a step twice (check.c). */
#include "sim/check.h"

static bool stands_later(const struct sim_world *world, uint32_t process, uint64_t epoch)
{
    const struct sim_facts *facts = world->facts;
    if (world->process[process]->epoch < epoch)
        return false; /* it never got that far, even if others counted on it */
    for (uint64_t later = epoch; later < facts->view_count; later++)
        if (facts->view[later].known
            && spotnik_fact_rank(&facts->view[later], process) != SPOTNIK_NO_RANK)
            return true;
    return false;
}

void spotnik_check_work_end(struct sim_world *world)
{
    const struct sim_facts *facts = world->facts;

    for (uint32_t i = 0; i < world->process_count; i++)
        for (size_t k = facts->process[i].input_count; k-- > 0;) {
            const struct fact_input *input = facts->process[i].input[k];
            uint64_t epoch = spotnik_fact_reducing_epoch(world, input->step);
            const struct fact_view *view = spotnik_fact_view_of(world, epoch);
            if (!input->filled || input->replay || input->step > facts->steps_max || !view)
                continue;
            if (spotnik_fact_rank(view, i) == SPOTNIK_NO_RANK && stands_later(world, i, epoch))
                spotnik_sim_fail(
                    world, "P5",
                    "%u computed step %llu, survived, and view %llu reduced it without it", i,
                    (unsigned long long)input->step, (unsigned long long)epoch);
        }
}
