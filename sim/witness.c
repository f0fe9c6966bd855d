/* SPDX-License-Identifier: Apache-2.0 */
/* The folder's witness: one file that is moved, never copied, from an earlier epoch's name to a
 * later one (docs/design/0014-ties.md). The question and its answer travel for a while, and
 * either may be lost. The folder may lie on a host that is cut off or loses power. Somebody may
 * remove the file. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "sim/world.h"

#define TRIP_MAX_NS (30 * SPOTNIK_MS)
#define HANG_NS (700 * SPOTNIK_MS) /* a file server that thinks about it */

/* The process that had it for this epoch; SIM_NOBODY: none yet. */
uint32_t spotnik_sim_witness_owner(const struct sim_world *world, uint64_t epoch)
{
    const struct sim_witness *witness = &world->witness;
    return epoch < witness->owner_count && witness->owner[epoch] != 0 ? witness->owner[epoch] - 1
                                                                      : SIM_NOBODY;
}

bool spotnik_sim_witness_reaches(const struct sim_world *world, const struct sim_process *process)
{
    uint32_t host = world->options.witness_host, hosts = world->options.hosts;
    if (world->witness.removed)
        return false;
    if (host >= hosts || host == process->host)
        return true;
    return !world->host_dead[host] && world->blocked[(size_t)process->host * hosts + host] == 0
           && world->blocked[(size_t)host * hosts + process->host] == 0;
}

static void owner_note(struct sim_witness *witness, uint64_t epoch, uint32_t process)
{
    if (epoch >= witness->owner_count) {
        size_t count = 2 * (size_t)epoch + 16;
        uint32_t *owner = spotnik_sim_alloc(count * sizeof *owner);
        if (witness->owner != NULL)
            memcpy(owner, witness->owner, witness->owner_count * sizeof *owner);
        free(witness->owner);
        witness->owner = owner;
        witness->owner_count = count;
    }
    witness->owner[epoch] = process + 1;
}

/* rename() from whatever name it has, if that is of an earlier epoch. */
static bool take(struct sim_world *world, const struct sim_process *process, uint64_t epoch)
{
    struct sim_witness *witness = &world->witness;
    if (world->options.bugs & SPOTNIK_BUG_WITNESS_COPIED)
        return true;
    if (!spotnik_sim_witness_reaches(world, process))
        return false;
    if (witness->epoch < epoch) {
        witness->epoch = epoch;
        owner_note(witness, epoch, process->index);
        spotnik_sim_story(world, "the witness names %u for epoch %llu", process->index,
                          (unsigned long long)epoch);
    }
    return spotnik_sim_witness_owner(world, epoch) == process->index;
}

static uint64_t trip_ns(struct sim_world *world)
{
    return spotnik_prng_chance(&world->witness.prng, 1, 10)
               ? HANG_NS
               : 1 + spotnik_prng_below(&world->witness.prng, TRIP_MAX_NS);
}

void spotnik_sim_witness_ask(struct sim_world *world, const struct sim_process *process,
                             uint64_t epoch)
{
    if (!spotnik_prng_chance(&world->witness.prng, 1, 10))
        spotnik_sim_push(world, SIM_WITNESS, trip_ns(world), process->index, epoch << 2, NULL);
}

/* `number`: the epoch, and whether this is the answer, and what it is. */
void spotnik_sim_witness_happens(struct sim_world *world, struct sim_process *process,
                                 uint64_t number)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WITNESS,
                                   .witness = { number >> 2, number & 1 } };
    if (number & 2) {
        if (event.witness.named && !process->stopped)
            process->named_epoch = event.witness.epoch;
        spotnik_sim_core_step(world, process, &event);
        return;
    }
    bool named = sim_live(process) && take(world, process, number >> 2);
    if (!spotnik_prng_chance(&world->witness.prng, 1, 10)) /* it may be done and the answer lost */
        spotnik_sim_push(world, SIM_WITNESS, trip_ns(world), process->index, number | 2 | named,
                         NULL);
}

void spotnik_sim_witness_start(struct sim_world *world)
{
    spotnik_prng_seed(&world->witness.prng, world->options.seed + UINT64_C(0x4000000000));
    if (world->options.witness_cleaned_ns != 0)
        spotnik_sim_push(world, SIM_WITNESS, world->options.witness_cleaned_ns, SIM_NOBODY, 0,
                         NULL);
}
