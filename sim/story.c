/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a run as a story: one line per event with its time and the process it happens to,
 * one indented line per action that follows. Decides nothing; formats nothing unless a trace is
 * wanted. */
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "sim/check.h"
#include "sim/tell.h"
#include "sim/world.h"

void spotnik_sim_story(struct sim_world *world, const char *format, ...)
{
    va_list list;

    if (!world->options.trace)
        return;
    fprintf(world->options.trace, "[%11.3f ms] ", (double)world->now_ns / 1e6);
    va_start(list, format);
    vfprintf(world->options.trace, format, list);
    va_end(list);
    fputc('\n', world->options.trace);
}

static unsigned index_of(void *context, struct spotnik_id id)
{
    const struct sim_world *world = context;

    for (uint32_t i = 0; i < world->process_count; i++)
        if (spotnik_id_equal(world->process[i]->member.id, id))
            return i;
    return 0;
}

static struct spotnik_teller teller_of(struct sim_world *world)
{
    return (struct spotnik_teller){ .out = world->options.trace,
                                    .data = world->options.trace_data,
                                    .number = index_of,
                                    .context = world };
}

void spotnik_sim_story_event(struct sim_world *world, const struct sim_process *process,
                             const struct spotnik_event *event)
{
    const struct spotnik_teller teller = teller_of(world);

    if (teller.out)
        spotnik_tell_event(&teller, world->now_ns, process->index, event);
}

void spotnik_sim_story_moves(struct sim_world *world, const struct sim_process *process)
{
    const struct spotnik_teller teller = teller_of(world);
    struct spotnik_move move;

    while (spotnik_core_move(process->core, &move)) {
        spotnik_check_move(world, &move);
        if (teller.out)
            spotnik_tell_move(&teller, process->index, &move);
    }
}

void spotnik_sim_story_action(struct sim_world *world, const struct sim_process *process,
                              const struct spotnik_action *action)
{
    const struct spotnik_teller teller = teller_of(world);

    if (teller.out)
        spotnik_tell_action(&teller, process->index, process->core, action);
}
