/* SPDX-License-Identifier: Apache-2.0 */
/* One process drives its core: hands it events, does its actions at once and in order, keeps its
 * clock. What src/runtime does with epoll, by the numbered contract in core.h. And how a process
 * ends. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

#define SEARCH_NS (200 * SPOTNIK_MS)

static void send(struct sim_world *world, struct sim_process *process,
                 const struct spotnik_action *action)
{
    enum spotnik_message_kind kind = action->send.message->kind;
    struct sim_process *to = sim_process_of(world, &action->send.to);

    if (world->founding && kind == SPOTNIK_MESSAGE_VIEW_ASK)
        return; /* answers to all would fill the memory */
    if (kind == SPOTNIK_MESSAGE_ACCEPT || kind == SPOTNIK_MESSAGE_ACCEPTED)
        process->voted_epoch = action->send.message->epoch + 1;
    spotnik_check_sent(world, process, to, action->send.message);
    spotnik_sim_send(world, process, to, action->send.message);
    spotnik_sim_aimed(world, process, kind, true);
    spotnik_sim_said(world, process, to, kind);
}

static void act(struct sim_world *world, struct sim_process *process,
                const struct spotnik_action *action)
{
    spotnik_sim_story_action(world, process, action);
    spotnik_sim_mix(world, (uint64_t)action->kind << 32 | spotnik_action_number(action) << 8
                               | spotnik_action_bucket(action));
    switch (action->kind) {
    case SPOTNIK_ACTION_DIAL:
        spotnik_sim_dial(world, process, sim_process_of(world, &action->peer));
        break;
    case SPOTNIK_ACTION_HANG_UP:
        spotnik_sim_hang_up(world, process, sim_process_of(world, &action->peer));
        break;
    case SPOTNIK_ACTION_SEND:
        send(world, process, action);
        break;
    case SPOTNIK_ACTION_VIEW:
        process->voted_epoch = spotnik_core_view(process->core)->epoch;
        process->view_serial++;
        spotnik_sim_channels_doubt(process);
        spotnik_check_view(world, process, action->epoch);
        spotnik_sim_flat_view(world, process);
        spotnik_sim_joiner_entered(world, process);
        break;
    case SPOTNIK_ACTION_FROZEN:
        process->view_serial++;
        spotnik_sim_flat_cut(world, process);
        break;
    case SPOTNIK_ACTION_PARKED:
        world->result->parked++;
        if (!process->searching)
            spotnik_sim_push(world, SIM_SEARCH, SEARCH_NS, process->index, 0, NULL);
        process->searching = true;
        break;
    case SPOTNIK_ACTION_WITNESS:
        spotnik_sim_witness_ask(world, process, action->epoch);
        break;
    case SPOTNIK_ACTION_STEP_BEGUN:
        spotnik_sim_app_begun(world, process, action);
        break;
    case SPOTNIK_ACTION_SCALE:
        spotnik_sim_memory_scale(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_COPY_OWN:
        spotnik_sim_memory_own(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_OFFER:
        spotnik_sim_memory_offer(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_SUM:
        spotnik_sim_memory_sum(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_GATHER:
        spotnik_sim_memory_gather(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_FLAT_LATE:
        spotnik_sim_flat_late(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_FLAT:
        spotnik_sim_flat_start(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_SPREAD:
        spotnik_sim_flat_spread(world, process, &action->work);
        break;
    case SPOTNIK_ACTION_DEAL:
        process->deal_due = true;
        break;
    case SPOTNIK_ACTION_COMMITTED:
        if (!spotnik_sim_flat_committed(world, process, action->step)) {
            spotnik_sim_exclude(world, process);
            break;
        }
        spotnik_sim_app_committed(world, process, action->step);
        spotnik_sim_joiner_committed(world, process);
        break;
    case SPOTNIK_ACTION_LINK_EXPECT:
        spotnik_sim_channel_expect(world, process, sim_process_of(world, &action->peer));
        break;
    case SPOTNIK_ACTION_EXCLUDED:
    case SPOTNIK_ACTION_LEFT:
        spotnik_check_exit(world, process, action->kind == SPOTNIK_ACTION_LEFT);
        spotnik_sim_exit(world, process);
        break;
    case SPOTNIK_ACTION_FAILED:
        spotnik_sim_fail(world, "driver", "%u: the core fails with error %d", process->index,
                         action->error);
        break;
    }
}

static void keep_clock(struct sim_world *world, struct sim_process *process)
{
    uint64_t deadline = spotnik_core_deadline(process->core);

    if (deadline >= process->tick_at_ns)
        return;
    uint64_t late = world->options.tick_late_ns
                        ? spotnik_prng_below(&world->net, world->options.tick_late_ns)
                        : 0;
    uint64_t at = deadline > world->now_ns ? deadline : world->now_ns;
    process->tick_at_ns = at;
    spotnik_sim_push(world, SIM_TICK, at + late - world->now_ns, process->index, at, NULL);
}

static bool poll(struct sim_world *world, struct sim_process *process,
                 struct spotnik_action *action)
{
    uint64_t begun_ns = spotnik_sim_cost_begin(world);
    bool any = spotnik_core_poll(process->core, action);

    spotnik_sim_cost_end(world, process, begun_ns);
    return any;
}

/* Do what the core wants, but for the answer that it waits for. */
static bool drain_once(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_action action;
    bool any = false;

    while (sim_live(process) && !world->over && poll(world, process, &action)) {
        any = true;
        act(world, process, &action);
        spotnik_sim_struck(world, process, &action);
    }
    if (sim_live(process) && !world->over)
        spotnik_sim_channels_renew(world, process);
    return any;
}

/* Do what the core wants. Returns true when there was anything. */
static bool drain(struct sim_world *world, struct sim_process *process)
{
    bool any = drain_once(world, process);

    while (process->deal_due && sim_live(process) && !world->over) {
        process->deal_due = false;
        spotnik_sim_app_deal(world, process);
        drain_once(world, process);
    }
    return any;
}

void spotnik_sim_core_drain(struct sim_world *world, struct sim_process *process)
{
    drain(world, process);
    process->pumped = false;
    if (sim_live(process))
        keep_clock(world, process);
}

/* After which frames that were left waiting are placed again, whether there was an action or
 * not. */
static bool is_callers(enum spotnik_event_kind kind)
{
    return (kind >= SPOTNIK_EVENT_STEP_BEGIN && kind <= SPOTNIK_EVENT_ENTER_READY)
           || kind == SPOTNIK_EVENT_FLAT_DONE;
}

/* Its core goes on elsewhere, from bytes; nothing of the old one is left. */
static void reload(struct sim_world *world, struct sim_process *process)
{
    const struct spotnik_limits *limits = &world->options.limits;

    if (world->options.reload == 0 || ++process->events < world->options.reload)
        return;
    size_t size = (spotnik_core_size(limits) + 15) & ~(size_t)15;
    void *bytes = spotnik_sim_alloc(spotnik_core_saved_size(limits)),
         *memory = aligned_alloc(16, size);
    SPOTNIK_ASSERT(memory != NULL && spotnik_core_save(process->core, bytes));
    memset(process->core, 0xa5, spotnik_core_size(limits));
    memset(memory, 0x5a, size);
    free(process->core);
    process->core = spotnik_core_load(memory, limits, bytes);
    free(bytes);
    process->events = 0;
}

/* Which chunk, or which bucket, as the digest of the run has it. */
static uint64_t number_of(const struct spotnik_event *event)
{
    if (event->kind == SPOTNIK_EVENT_CHUNK_DONE)
        return event->chunk.header.sequence << 8;
    return event->kind == SPOTNIK_EVENT_BUCKET_START ? event->start.bucket : 0;
}

void spotnik_sim_core_step(struct sim_world *world, struct sim_process *process,
                           struct spotnik_event *event)
{
    SPOTNIK_ASSERT(!process->in_core);
    if (!sim_live(process) || process->stopped || world->over)
        return;
    event->now_ns = world->now_ns;
    reload(world, process);
    spotnik_sim_story_event(world, process, event);
    spotnik_sim_mix(world, (uint64_t)event->kind << 40 | (uint64_t)process->index << 32
                               | number_of(event));
    spotnik_sim_mix(world, world->now_ns);
    process->in_core = true;
    uint64_t begun_ns = spotnik_sim_cost_begin(world);
    spotnik_core_step(process->core, event);
    spotnik_sim_cost_end(world, process, begun_ns);
    spotnik_sim_story_moves(world, process);
    bool any = drain(world, process);
    process->cost.event_ns = 0;
    process->in_core = false;
    if (!sim_live(process) || world->over)
        return;
    keep_clock(world, process);
    process->pumped = false;
    spotnik_sim_pump(world, process);
    if (any || is_callers(event->kind))
        spotnik_sim_channels_retry(world, process);
    spotnik_check_process(world, process);
}

/* Of a process that is stopped on a machine that runs, as far as anything gets through between
 * them. */
static bool kernel_answers(const struct sim_world *world, const struct sim_process *asking,
                           const struct sim_process *asked)
{
    return sim_live(asked) && asked->stopped && !asked->machine_stopped
           && asked->host != asking->host
           && !spotnik_sim_is_blocked(world, asking->host, asked->host)
           && !spotnik_sim_is_blocked(world, asked->host, asking->host);
}

static void kernels_ask(struct sim_world *world, struct sim_process *process)
{
    for (uint32_t i = 0; i < world->process_count && !world->scale; i++) {
        struct sim_process *asked = world->process[i];
        if (!kernel_answers(world, process, asked)
            || !spotnik_core_is_quiet(process->core, asked->member.id, world->now_ns))
            continue;
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_KERNEL, .peer = asked->member };
        spotnik_sim_core_step(world, process, &event);
    }
}

void spotnik_sim_tick(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_TICK };

    process->tick_at_ns = SPOTNIK_NEVER;
    if (!sim_live(process) || process->stopped)
        return;
    if (spotnik_core_deadline(process->core) > world->now_ns) {
        keep_clock(world, process);
        return;
    }
    kernels_ask(world, process);
    process->ticks_in_a_row =
        process->core_now_ns == world->now_ns ? process->ticks_in_a_row + 1 : 0;
    process->core_now_ns = world->now_ns;
    if (process->ticks_in_a_row > 100)
        spotnik_sim_fail(world, "driver", "%u wants to be ticked without end", process->index);
    spotnik_sim_core_step(world, process, &event);
}

/* One at a time: the core, which knows nothing of it, may want the same peer. */
static bool search_dials(const struct sim_world *world, const struct sim_process *process)
{
    for (uint32_t i = 0; i < world->process_count; i++)
        if (process->search_dial && process->dial[i] == process->search_dial)
            return true;
    return false;
}

/* As long as a process is parked it looks for the job where new members would look (src/discovery),
 * and links to members that it finds: the others may have gone on, and all members it knows may be
 * gone. */
void spotnik_sim_search(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_core_status status;
    struct sim_process *found = NULL;
    uint32_t seen = 0;

    process->searching = false;
    if (!sim_live(process))
        return;
    spotnik_core_status(process->core, &status);
    if (!status.parked || status.role != SPOTNIK_ROLE_MEMBER)
        return;
    for (uint32_t i = 0; i < world->process_count; i++)
        if (i != process->index && sim_live(world->process[i])
            && world->process[i]->epoch > process->epoch
            && spotnik_prng_below(&world->net, ++seen) == 0)
            found = world->process[i];
    if (found && !search_dials(world, process)) {
        if (!spotnik_sim_is_linked(world, process, found) && !process->dial[found->index])
            spotnik_sim_dial(world, process, found);
        process->search_dial = process->dial[found->index];
    }
    process->searching = true;
    spotnik_sim_push(world, SIM_SEARCH, SEARCH_NS, process->index, 0, NULL);
}

/* -- Ends -- */

static void release(struct sim_world *world, struct sim_process *process)
{
    while (process->inbox) {
        struct sim_item *item = process->inbox;
        process->inbox = item->next;
        free(item);
    }
    process->inbox_end = &process->inbox;
    for (struct sim_channel *channel = world->channels; channel; channel = channel->all)
        if (channel->from == process->index || channel->to == process->index)
            spotnik_sim_channel_close(world, channel);
    memset(process->dial, 0, world->options.processes_max * sizeof(*process->dial));
}

static void certify(struct sim_world *world, const struct sim_process *dead)
{
    for (uint32_t i = 0; i < world->process_count; i++) {
        const struct sim_process *other = world->process[i];
        if (other != dead && sim_live(other) && other->host == dead->host)
            spotnik_sim_note(world, SIM_ITEM_DEATH, dead->index, i, 200 * SPOTNIK_US);
    }
}

void spotnik_sim_kill(struct sim_world *world, struct sim_process *process, bool silent)
{
    if (!sim_live(process) || spotnik_fact_is_forged(world, process))
        return;
    spotnik_sim_story(world, "%u is killed%s", process->index, silent ? " with its host" : "");
    world->result->kills++;
    process->life = SIM_DEAD;
    process->died_ns = world->now_ns;
    process->silent_death = silent;
    release(world, process);
    spotnik_check_death(world, process);
    if (silent)
        return;
    uint64_t teardown = spotnik_prng_below(&world->net, 1 + world->options.teardown_max_ns);
    spotnik_sim_push(world, SIM_TEARDOWN, teardown, process->index, 0, NULL);
    if (world->options.certificates)
        certify(world, process);
}

/* Excluded or left: says goodbye. An excluded one starts anew as another member of the same
 * host. */
void spotnik_sim_exit(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_core_status status;

    spotnik_core_status(process->core, &status);
    bool again = status.role == SPOTNIK_ROLE_EXCLUDED;

    spotnik_sim_links_goodbye(world, process);
    process->life = SIM_EXITED;
    process->died_ns = world->now_ns;
    release(world, process);
    if (again)
        spotnik_sim_push(world, SIM_SPAWN, 1 + spotnik_prng_below(&world->net, 10 * SPOTNIK_MS),
                         process->host, 0, NULL);
}

/* It has found out by itself that the others have gone on. */
void spotnik_sim_exclude(struct sim_world *world, struct sim_process *process)
{
    spotnik_sim_story(world, "%u sees that it is excluded", process->index);
    spotnik_sim_exit(world, process);
    spotnik_sim_push(world, SIM_SPAWN, 1 + spotnik_prng_below(&world->net, 10 * SPOTNIK_MS),
                     process->host, 0, NULL);
}

void spotnik_sim_stop(struct sim_world *world, struct sim_process *process, uint64_t for_ns)
{
    if (!sim_live(process) || process->stopped)
        return;
    spotnik_sim_story(world, "%u is stopped for %.1f ms", process->index, (double)for_ns / 1e6);
    process->stopped = true;
    process->machine_stopped = for_ns / 1024 % 2;
    process->stopped_ns = world->now_ns;
    spotnik_sim_push(world, SIM_CONTINUE, for_ns, process->index, 0, NULL);
}

/* All that came in meanwhile is there at once, before the process notices that time has passed. */
void spotnik_sim_continue(struct sim_world *world, struct sim_process *process)
{
    if (!process->stopped)
        return;
    process->stopped = false;
    if (!sim_live(process))
        return;
    spotnik_sim_story(world, "%u goes on", process->index);
    spotnik_check_woken(world, process, world->now_ns - process->stopped_ns);
    struct sim_item *item = process->inbox;
    process->inbox = NULL;
    process->inbox_end = &process->inbox;
    while (item) {
        struct sim_item *next = item->next;
        spotnik_sim_item_deliver(world, item);
        item = next;
    }
    if (!sim_live(process))
        return;
    for (struct sim_channel *channel = process->channel_in, *next; channel; channel = next) {
        next = channel->next_in;
        spotnik_sim_channel_serve(world, channel);
    }
    spotnik_sim_pump(world, process);
    process->tick_at_ns = SPOTNIK_NEVER;
    keep_clock(world, process);
    if (process->app.state != SIM_APP_OFF)
        spotnik_sim_app_resume(world, process);
    spotnik_sim_flat_later(world, process);
    spotnik_sim_push(world, SIM_JOINER, 0, process->index, ++process->join_serial, NULL);
}
