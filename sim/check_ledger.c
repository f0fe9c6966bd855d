/* SPDX-License-Identifier: Apache-2.0 */
/* P8, every sample once: over the steps of the lineage, in order, no index of an epoch of data is
 * in two contributions. An epoch of data ends only when every index has been in one. Contributors
 * are the members of the view that reduced the step. */
#include <stdlib.h>
#include <string.h>

#include "sim/check.h"

struct pool {
    bool *used;
    uint64_t count, data_epoch;
};

static void next_data_epoch(struct sim_world *world, struct pool *pool, uint64_t data_epoch,
                            uint64_t step)
{
    if (pool->count != world->options.samples || data_epoch != pool->data_epoch + 1)
        spotnik_sim_fail(world, "P8",
                         "step %llu opens data epoch %llu when %llu of %llu samples were used",
                         (unsigned long long)step, (unsigned long long)data_epoch,
                         (unsigned long long)pool->count,
                         (unsigned long long)world->options.samples);
    memset(pool->used, 0, world->options.samples);
    pool->count = 0;
    pool->data_epoch = data_epoch;
}

static void consume(struct sim_world *world, struct pool *pool, const struct fact_input *input)
{
    if (input->samples && input->data_epoch != pool->data_epoch)
        next_data_epoch(world, pool, input->data_epoch, input->step);
    for (uint32_t i = 0; i < input->range_count; i++)
        for (uint64_t at = input->range[i].begin; at < input->range[i].end; at++) {
            if (at >= world->options.samples || pool->used[at]) {
                spotnik_sim_fail(world, "P8",
                                 "sample %llu of data epoch %llu comes again in step %llu, by %u",
                                 (unsigned long long)at, (unsigned long long)pool->data_epoch,
                                 (unsigned long long)input->step, input->process);
                return;
            }
            pool->used[at] = true;
            pool->count++;
        }
}

void spotnik_check_ledger_end(struct sim_world *world)
{
    struct pool pool = { .count = 0 };

    if (!world->options.samples || world->scale)
        return;
    pool.used = spotnik_sim_alloc(world->options.samples);
    for (uint64_t step = 1; step <= world->facts->steps_max && !world->result->failed; step++) {
        const struct fact_view *view =
            spotnik_fact_view_of(world, spotnik_fact_reducing_epoch(world, step));
        for (uint32_t rank = 0; view && rank < view->size; rank++) {
            const struct fact_input *input = spotnik_fact_input_of(world, view->member[rank], step);
            if (input && input->has_share)
                consume(world, &pool, input);
        }
    }
    free(pool.used);
}
