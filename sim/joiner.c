/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner outside the ring, as src/transfer drives it: find a donor; copy its state at a step
 * boundary; replay committed results that a donor streams; ask to be let in; and take another donor
 * when this one is lost. */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

#define LOOK_AGAIN_NS (5 * SPOTNIK_MS)

static void later(struct sim_world *world, struct sim_process *process, uint64_t delay_ns)
{
    spotnik_sim_push(world, SIM_JOINER, delay_ns, process->index, ++process->join_serial, NULL);
}

static bool reachable(struct sim_world *world, const struct sim_process *a,
                      const struct sim_process *b)
{
    return !spotnik_sim_is_blocked(world, a->host, b->host)
           && !spotnik_sim_is_blocked(world, b->host, a->host);
}

static bool keeps(const struct sim_process *donor, uint64_t step)
{
    return donor->app.committed < step || donor->app.kept[step % SIM_RESULTS_KEPT].step == step;
}

static bool may_donate(struct sim_world *world, const struct sim_process *process,
                       const struct sim_process *donor)
{
    return donor != process && sim_live(donor) && !donor->stopped && donor->epoch != 0
           && reachable(world, process, donor);
}

static uint64_t stable(const struct sim_process *donor)
{
    struct spotnik_core_status status;
    spotnik_core_status(donor->core, &status);
    return status.stable;
}

/* A random member that can be reached and still has what comes after `step`; SIM_NOBODY: there is
 * none. */
static uint32_t find_donor(struct sim_world *world, const struct sim_process *process,
                           bool any_step, uint64_t step)
{
    uint32_t found = SIM_NOBODY, seen = 0;

    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *donor = world->process[i];
        if (!may_donate(world, process, donor)
            || (!any_step && (donor->app.committed < step || !keeps(donor, step + 1))))
            continue;
        if (spotnik_prng_below(&world->app, ++seen) == 0)
            found = i;
    }
    return found;
}

static void seek(struct sim_world *world, struct sim_process *process)
{
    uint32_t found = find_donor(world, process, true, 0);

    if (found == SIM_NOBODY) {
        later(world, process, LOOK_AGAIN_NS);
        return;
    }
    struct sim_process *donor = world->process[found];
    process->donor = found;
    process->copied_step = donor->app.committed;
    memcpy(process->app.state_vector, donor->app.state_vector, world->state_count * sizeof(float));
    spotnik_sim_strategy_copy(world, process, donor);
    process->join = SIM_JOIN_COPY;
    uint64_t copy = 2 * spotnik_sim_latency(world, process, donor)
                    + spotnik_prng_below(&world->app, world->options.copy_max_ns);
    later(world, process, copy);
}

static void open_stream(struct sim_world *world, struct sim_process *process, uint32_t donor)
{
    process->donor = donor;
    process->ready_told = false;
    process->stream = spotnik_sim_channel_new(world, donor, process->index, true);
    process->stream->next_step = process->app.committed + 1;
}

static void copied(struct sim_world *world, struct sim_process *process)
{
    struct sim_process *donor = world->process[process->donor];

    if (!sim_live(donor) || !reachable(world, process, donor)) {
        process->join =
            SIM_JOIN_SEEK; /* the real one resumes with other donors; here the copy starts again */
        later(world, process, LOOK_AGAIN_NS);
        return;
    }
    if (stable(donor) < process->copied_step) {
        /* the lineage might yet commit that step differently */
        later(world, process, LOOK_AGAIN_NS);
        return;
    }
    process->join = SIM_JOIN_REPLAY;
    process->app.committed = process->copied_step;
    spotnik_check_copied(world, process);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_JOIN,
                                   .join.committed = process->copied_step };
    spotnik_sim_core_step(world, process, &event);
    process->app.state = SIM_APP_IDLE;
    spotnik_sim_app_later(world, process, 0);
    open_stream(world, process, process->donor);
    later(world, process, 1);
}

/* The real one asks, too, once it has seen the end of its donor's stream, however far behind it is
 * then. Here it is `near_steps` from which it asks. */
static bool is_ready(const struct sim_world *world, struct sim_process *process,
                     const struct sim_process *donor)
{
    return spotnik_nearness_asks(&process->nearness, world->options.near_steps,
                                 process->app.committed, donor->app.committed, world->now_ns);
}

/* Too far behind for every donor, or nobody left: start anew as another member. */
static void start_over(struct sim_world *world, struct sim_process *process)
{
    spotnik_sim_story(world, "%u gives up and starts again", process->index);
    spotnik_sim_exit(world, process);
    spotnik_sim_push(world, SIM_SPAWN, LOOK_AGAIN_NS, process->host, 0, NULL);
}

static void follow(struct sim_world *world, struct sim_process *process)
{
    struct sim_process *donor = world->process[process->donor];
    bool lost = !process->stream || process->stream->closed || !may_donate(world, process, donor)
                || !keeps(donor, process->app.committed + 1);

    if (lost) {
        uint32_t found = find_donor(world, process, false, process->app.committed);
        if (found == SIM_NOBODY && find_donor(world, process, true, 0) != SIM_NOBODY
            && spotnik_prng_chance(&world->app, 1, 50)) {
            start_over(world, process);
            return;
        }
        if (process->stream)
            spotnik_sim_channel_close(world, process->stream);
        if (found != SIM_NOBODY)
            open_stream(world, process, found);
    } else if (!process->ready_told && is_ready(world, process, donor)) {
        process->ready_told = true;
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_ENTER_READY, .peer = donor->member };
        spotnik_sim_core_step(world, process, &event);
    }
    if (sim_live(process))
        later(world, process, LOOK_AGAIN_NS);
}

void spotnik_sim_joiner_happens(struct sim_world *world, struct sim_process *process)
{
    switch (process->join) {
    case SIM_JOIN_SEEK:
        seek(world, process);
        break;
    case SIM_JOIN_COPY:
        copied(world, process);
        break;
    case SIM_JOIN_REPLAY:
        follow(world, process);
        break;
    case SIM_JOIN_NONE:
        break;
    }
}

void spotnik_sim_joiner_committed(struct sim_world *world, struct sim_process *process)
{
    if (process->join == SIM_JOIN_REPLAY && !process->ready_told)
        later(world, process, 0);
}

void spotnik_sim_joiner_entered(struct sim_world *world, struct sim_process *process)
{
    if (process->join == SIM_JOIN_NONE)
        return;
    process->join = SIM_JOIN_NONE;
    world->result->joins++;
    if (process->stream)
        spotnik_sim_channel_close(world, process->stream);
    process->stream = NULL;
}

/* -- The donor's side -- */

static struct sim_frame *result_frame(struct sim_world *world, struct sim_channel *channel,
                                      const struct sim_result *result)
{
    struct sim_bucket barrier = {
        .count = 0, .element_bytes = 1, .dtype = SPOTNIK_U8, .op = SPOTNIK_MAX
    };
    bool none = world->options.buckets == 0;
    const struct sim_bucket *bucket = none ? &barrier : &world->bucket[channel->next_bucket];
    uint64_t elements = world->options.limits.chunk_bytes / bucket->element_bytes;
    uint64_t from = channel->next_sequence * elements;
    uint64_t left = bucket->count - from, count = left < elements ? left : elements;
    size_t at = from * bucket->element_bytes, size = count * bucket->element_bytes;

    for (uint32_t i = 0; !none && i < channel->next_bucket; i++)
        at += spotnik_sim_bucket_bytes(&world->bucket[i]);
    struct sim_frame *frame = spotnik_sim_alloc(sizeof(*frame) + size);
    frame->channel = channel;
    frame->size = size;
    frame->header = (struct spotnik_chunk_header){ .handover = 1,
                                                   .dtype = bucket->dtype,
                                                   .op = bucket->op,
                                                   .bucket = none ? SPOTNIK_BUCKET_BARRIER
                                                                  : channel->next_bucket,
                                                   .step = result->step,
                                                   .sequence = channel->next_sequence,
                                                   .count = bucket->count };
    memcpy(frame->bytes, result->bytes + at, size);
    channel->next_sequence++;
    if (from + count >= bucket->count) {
        channel->next_sequence = 0;
        channel->next_bucket++;
    }
    return frame;
}

/* The next frame of a committed result for the joiner at the other end. */
bool spotnik_sim_donor_next(struct sim_world *world, struct sim_channel *channel,
                            struct sim_frame **ret)
{
    const struct sim_process *donor = world->process[channel->from];
    const struct sim_result *result = &donor->app.kept[channel->next_step % SIM_RESULTS_KEPT];

    if (stable(donor) < channel->next_step || result->step != channel->next_step)
        return false;
    *ret = result_frame(world, channel, result);
    uint32_t last = world->options.buckets ? world->options.buckets : 1;
    if (channel->next_bucket == last) {
        channel->next_bucket = 0;
        channel->next_step++;
    }
    return true;
}
