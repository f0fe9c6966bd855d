/* SPDX-License-Identifier: Apache-2.0 */
/* Scale mode: the processor time that control messages cost a process: decoding them, what the core
 * does about them, encoding what it sends. Measured, so that no two runs have the same; nothing
 * depends on it unless it is charged: then a process sends only when it has done the work, and
 * works at one thing at a time. */
#include <time.h>

#include "base/time.h"
#include "sim/world.h"

uint64_t spotnik_sim_cost_begin(const struct sim_world *world)
{
    struct timespec now;

    if (!world->scale)
        return 0;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

void spotnik_sim_cost_end(const struct sim_world *world, struct sim_process *process,
                          uint64_t begun_ns)
{
    if (!world->scale)
        return;
    struct sim_cost *cost = &process->cost;
    uint64_t took_ns = spotnik_time_since(spotnik_sim_cost_begin(world), begun_ns);
    uint64_t free_ns = cost->free_ns > world->now_ns ? cost->free_ns : world->now_ns;

    cost->free_ns = free_ns + took_ns;
    cost->all_ns += took_ns;
    cost->event_ns += took_ns;
    if (cost->event_ns > cost->longest_ns)
        cost->longest_ns = cost->event_ns;
}

uint64_t spotnik_sim_cost_delay(const struct sim_world *world, const struct sim_process *process)
{
    return world->scale && world->scale->charged
               ? spotnik_time_since(process->cost.free_ns, world->now_ns)
               : 0;
}
