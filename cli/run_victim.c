/* SPDX-License-Identifier: Apache-2.0 */
/* Which worker --kill-every kills. A kill must not take the last member that holds the job's
 * state. */
#include "run_state.h"

static uint64_t epoch_of(const struct run *run, uint32_t place)
{
    return __atomic_load_n(&run->agent.slots->slot[place].epoch, __ATOMIC_ACQUIRE);
}

static uint64_t newest_epoch(const struct run *run)
{
    uint64_t newest = 0;

    for (uint32_t i = 0; i < run->agent.places; i++)
        if (run->agent.worker[i].pid && epoch_of(run, i) > newest)
            newest = epoch_of(run, i);
    return newest;
}

/* A worker that we have killed may not have ended yet. One that the others have excluded stands at
 * an older view than they do. Neither would be there for the next step. */
static bool counts(const struct run *run, uint32_t place, uint64_t epoch)
{
    const struct agent_worker *worker = &run->agent.worker[place];

    return worker->pid && !worker->killed && run_committed(run, worker)
           && epoch_of(run, place) == epoch;
}

struct agent_worker *run_victim(struct run *run)
{
    uint64_t epoch = newest_epoch(run);
    uint32_t members = 0;

    for (uint32_t i = 0; i < run->agent.places; i++)
        members += counts(run, i, epoch);
    if (members <= run->options->min)
        return NULL;
    uint32_t skip = (uint32_t)spotnik_prng_below(&run->prng, members);
    for (uint32_t i = 0; i < run->agent.places; i++)
        if (counts(run, i, epoch) && !skip--)
            return &run->agent.worker[i];
    return NULL; /* a view has changed since we counted */
}
