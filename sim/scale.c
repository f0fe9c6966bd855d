/* SPDX-License-Identifier: Apache-2.0 */
/* Scale mode: a view of a thousand members, some killed in one instant. It tells what the recovery
 * costs each survivor in control messages and in virtual time, pass by pass; and how long a step
 * takes without. Members are put into one founded view directly: growing to a thousand by joining
 * is tested at sizes where it can be watched.
 *
 * A thousand buckets of many megabytes do not fit here. What the processes hold is a model, smaller
 * than what is meant by a factor. So are chunks, slices and what a link or memory carries in a
 * millisecond: it all takes as long. */
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

#define MODEL_BYTES 65536u /* of a bucket, at most */
#define STEPS 3
#define WARM_STEPS 3 /* where memory is shared: then everybody has what it is shown */
/* about what adding up eight inputs gives, of the sum (docs/results/kernels.md) */
#define MEMORY_BYTES_PER_MS UINT64_C(4000000)
#define BELL_NS (2 * SPOTNIK_US)
#define SLICE_BYTES (128 * 1024) /* as in src/transport/share.c */

static uint64_t memory_rate(const struct spotnik_sim_scale *scale)
{
    return scale->memory_bytes_per_ms ? scale->memory_bytes_per_ms : MEMORY_BYTES_PER_MS;
}

static uint32_t host_members(const struct spotnik_sim_scale *scale)
{
    return scale->host_members ? scale->host_members : 1;
}

static uint32_t hosts_count(const struct spotnik_sim_scale *scale)
{
    return (scale->members + host_members(scale) - 1) / host_members(scale);
}

static uint32_t host_of(const struct spotnik_sim_scale *scale, uint32_t member)
{
    return scale->scattered ? member % hosts_count(scale) : member / host_members(scale);
}

/* Of something as long as `part` in the job that is meant: its length in the model, in whole
 * elements of any type. */
static uint64_t modelled(const struct spotnik_sim_scale *scale, uint64_t part, uint64_t bytes)
{
    uint64_t length = part * bytes / scale->bytes & ~UINT64_C(7);
    return length < 8 ? 8 : length;
}

static void model(struct spotnik_sim_options *options, const struct spotnik_sim_scale *scale)
{
    uint64_t bytes = scale->bytes < MODEL_BYTES ? scale->bytes : MODEL_BYTES;

    options->elements = (bytes + sizeof(float) - 1) / sizeof(float);
    options->limits.chunk_bytes = (uint32_t)modelled(scale, options->limits.chunk_bytes, bytes);
    options->limits.flat_small_bytes =
        (uint32_t)modelled(scale, options->limits.flat_small_bytes, bytes);
    options->bytes_per_ms = scale->bytes_per_ms * bytes / scale->bytes;
    options->bytes_per_ms += options->bytes_per_ms == 0;
    options->memory_bytes_per_ms = 1 + memory_rate(scale) * bytes / scale->bytes;
    options->flat_slice_bytes = modelled(scale, SLICE_BYTES, bytes);
    options->compute_max_ns = 1;
}

/* Members of one host share memory, and all reduce by hosts. */
static void share(struct spotnik_sim_options *options, const struct spotnik_sim_scale *scale)
{
    options->flat = options->limits.hierarchy = true;
    options->flat_small_bytes = options->limits.flat_small_bytes;
    options->flat_page_bytes = 8;
    options->flat_slice_max_ns = BELL_NS;
    if (options->memory_bytes_per_ms == 0)
        options->memory_bytes_per_ms = memory_rate(scale);
    if (options->flat_slice_bytes == 0)
        options->flat_slice_bytes = SLICE_BYTES;
}

static void options_of(struct spotnik_sim_options *options, const struct spotnik_sim_scale *scale)
{
    *options = (struct spotnik_sim_options){ .seed = scale->seed,
                                             .members = scale->members,
                                             .members_min = 1,
                                             .hosts = hosts_count(scale),
                                             .processes_max = scale->members,
                                             .buckets = 1,
                                             .latency_min_ns = 50 * SPOTNIK_US,
                                             .latency_max_ns = 150 * SPOTNIK_US,
                                             .jitter_ns = 20 * SPOTNIK_US,
                                             .bytes_per_ms = 1000000,
                                             .compute_max_ns = 10 * SPOTNIK_MS,
                                             .channel_frames = 16,
                                             .dial_timeout_ns = SPOTNIK_S,
                                             .teardown_max_ns = 200 * SPOTNIK_US,
                                             .happenings_max = UINT64_MAX };
    spotnik_limits_init(&options->limits, scale->members);
    options->limits.heartbeat_ns = 200 * SPOTNIK_MS;
    options->limits.silence_floor_ns = 2 * SPOTNIK_S;
    options->limits.silence_ceiling_ns = 4 * SPOTNIK_S;
    options->limits.retry_ns = 2 * SPOTNIK_S;
    if (scale->ring)
        options->limits.choice = NULL;
    if (scale->brief_members)
        options->limits.brief_members = scale->brief_members;
    if (scale->tree)
        options->limits.tree_members = scale->tree_members;
    if (scale->bytes > 0)
        model(options, scale);
    if (host_members(scale) > 1 && !scale->ring)
        share(options, scale);
}

static void founding_view(struct sim_world *world, struct spotnik_proposal *view)
{
    uint32_t size = world->options.members;

    *view = (struct spotnik_proposal){
        .epoch = 1, .share_count = size, .entry_count = size, .entry_max = size
    };
    view->flat = world->options.flat;
    view->founding = (struct spotnik_founding){ .id = 2, .root = 1, .founded_at_ms = 1 };
    view->entry = spotnik_sim_alloc(size * sizeof(*view->entry));
    spotnik_ledger_init(&view->ledger, 0, 0);
    for (uint32_t i = 0; i < size; i++)
        view->entry[i] = (struct spotnik_entry){ .member = world->process[i]->member,
                                                 .flags = SPOTNIK_ENTRY_MEMBER,
                                                 .share = i };
}

/* Everybody installs the same founding view: RESTART of epoch 1, as from the next member on the
 * ring. */
static void found_all(struct sim_world *world)
{
    struct spotnik_proposal view;
    uint32_t size = world->options.members;

    world->founding = true;
    for (uint32_t i = 0; i < size; i++) {
        struct spotnik_event join = { .kind = SPOTNIK_EVENT_JOIN };
        spotnik_sim_core_step(world, spotnik_sim_spawn(world, host_of(world->scale, i)), &join);
    }
    founding_view(world, &view);
    for (uint32_t i = 0; i < size; i++)
        spotnik_sim_link_make(world, world->process[i], world->process[(i + 1) % size]);
    for (uint32_t i = 0; i < size; i++) {
        struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_RESTART,
                                           .epoch = 1,
                                           .proposal = &view };
        struct spotnik_event restart = { .kind = SPOTNIK_EVENT_MESSAGE,
                                         .message = { world->process[(i + 1) % size]->member,
                                                      &message } };
        spotnik_sim_core_step(world, world->process[i], &restart);
        world->process[i]->app.state = SIM_APP_IDLE;
        spotnik_sim_app_later(world, world->process[i], 0);
    }
    world->founding = false;
    free(view.entry);
}

/* Let happenings happen until every living member has committed `step`, in a view of at least
 * `epoch`. */
static void run_to(struct sim_world *world, uint64_t epoch, uint64_t step)
{
    struct spotnik_sim_happening happening;
    uint32_t next = 0; /* all before it are there */

    while (!world->over && next < world->process_count
           && spotnik_sim_queue_pop(&world->queue, &happening)) {
        world->now_ns = happening.at_ns;
        spotnik_sim_happen(world, &happening);
        while (next < world->process_count
               && (!sim_live(world->process[next])
                   || (world->process[next]->app.committed >= step
                       && world->process[next]->epoch >= epoch)))
            next++;
    }
}

static void lose(struct sim_world *world, uint32_t losses)
{
    while (losses) {
        struct sim_process *process =
            world->process[spotnik_prng_below(&world->fault, world->process_count)];
        if (!sim_live(process))
            continue;
        spotnik_sim_kill(world, process, false);
        losses--;
    }
}

/* Of an instant that each survivor has its own of (0: it has none): the first and the last. */
struct span {
    uint64_t first_ns, last_ns;
};

static void span_add(struct span *span, uint64_t at_ns)
{
    if (at_ns && (!span->first_ns || at_ns < span->first_ns))
        span->first_ns = at_ns;
    if (at_ns > span->last_ns)
        span->last_ns = at_ns;
}

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void measure_cost(struct spotnik_sim_scale *scale, const struct sim_process *process)
{
    scale->bytes_sent += process->bytes;
    scale->bytes_longest = larger(scale->bytes_longest, process->bytes_longest);
    scale->processor_ns += process->cost.all_ns;
    scale->processor_max_ns = larger(scale->processor_max_ns, process->cost.all_ns);
    scale->event_max_ns = larger(scale->event_max_ns, process->cost.longest_ns);
}

static void count_anew(struct sim_process *process)
{
    process->messages = process->bytes = process->bytes_longest = 0;
    process->cost = (struct sim_cost){ 0 };
}

/* The first to detect starts the recovery; PREPARE has come back when the first says so, its
 * initiator, and so has ACCEPT; the view is there, and the step committed, when the last survivor
 * says so. */
static void measure(struct sim_world *world, struct spotnik_sim_scale *scale, uint64_t lost_ns)
{
    struct span detected = { 0 }, reconciled = { 0 }, accepted = { 0 }, restarted = { 0 },
                committed = { 0 };

    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *process = world->process[i];
        struct spotnik_core_status status;
        if (!sim_live(process))
            continue;
        spotnik_core_status(process->core, &status);
        scale->survivors++;
        scale->messages += process->messages;
        if (process->messages > scale->messages_max)
            scale->messages_max = process->messages;
        measure_cost(scale, process);
        span_add(&detected, status.detected_ns);
        span_add(&reconciled, status.reconciled_ns);
        span_add(&accepted, status.accepted_ns);
        span_add(&restarted, status.restarted_ns);
        span_add(&committed, status.committed_ns);
    }
    scale->detect_ns = detected.first_ns - lost_ns;
    scale->reconcile_ns = reconciled.first_ns - detected.first_ns;
    scale->accept_ns = accepted.first_ns - reconciled.first_ns;
    scale->restart_ns = restarted.last_ns - accepted.first_ns;
    scale->commit_ns = committed.last_ns - restarted.last_ns;
    scale->total_ns = world->now_ns - lost_ns;
}

void spotnik_sim_scale_run(struct spotnik_sim_scale *scale)
{
    struct sim_world *world = spotnik_sim_alloc(sizeof(*world));
    struct spotnik_sim_options options;
    struct spotnik_sim_result result;

    options_of(&options, scale);
    spotnik_sim_world_start(world, &options, &result);
    world->scale = scale;
    found_all(world);
    uint32_t warm = options.flat ? WARM_STEPS : 1;
    run_to(world, 1, warm);
    uint64_t first_ns = world->now_ns;
    run_to(world, 1, warm + STEPS);
    scale->step_ns = (world->now_ns - first_ns) / STEPS;
    for (uint32_t i = 0; i < world->process_count; i++)
        count_anew(world->process[i]);
    uint64_t lost_ns = world->now_ns;
    lose(world, scale->losses);
    if (scale->losses > 0)
        run_to(world, 2, warm + STEPS + 1);
    measure(world, scale, lost_ns);
    scale->failed = result.failed;
    memcpy(scale->detail, result.detail, sizeof(scale->detail));
    spotnik_sim_world_end(world);
    free(world);
}
