/* SPDX-License-Identifier: Apache-2.0 */
/* Time and the loop: build the world a seed describes, let happenings happen in order, heal
 * everything after the safety phase, and have every checker say its word. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "sim/check.h"
#include "sim/world.h"

void *spotnik_sim_alloc(size_t size)
{
    void *memory = calloc(1, size);
    SPOTNIK_ASSERT(memory != NULL);
    return memory;
}

void spotnik_sim_push(struct sim_world *world, enum sim_kind kind, uint64_t delay_ns,
                      uint32_t process, uint64_t number, void *object)
{
    struct spotnik_sim_happening happening = { .at_ns = world->now_ns + delay_ns,
                                               .kind = kind,
                                               .process = process,
                                               .number = number,
                                               .object = object };
    spotnik_sim_queue_push(&world->queue, happening);
}

void spotnik_sim_mix(struct sim_world *world, uint64_t value)
{
    uint64_t x = world->digest ^ value;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    world->digest = x ^ (x >> 29);
}

void spotnik_sim_fail(struct sim_world *world, const char *promise, const char *format, ...)
{
    struct spotnik_sim_result *result = world->result;
    va_list list;

    world->over = true;
    if (result->failed)
        return; /* the first one counts */
    result->failed = true;
    result->failed_ns = world->now_ns;
    snprintf(result->promise, sizeof(result->promise), "%s", promise);
    va_start(list, format);
    vsnprintf(result->detail, sizeof(result->detail), format, list);
    va_end(list);
    spotnik_sim_story(world, "%s is broken: %s", promise, result->detail);
}

/* -- Processes -- */

static void identify(struct sim_world *world, struct sim_process *process)
{
    struct spotnik_member *member = &process->member;

    member->id.high = spotnik_prng_next(&world->net) | 1;
    member->id.low = spotnik_prng_next(&world->net);
    member->host = process->host + 1;
    member->address[10] = member->address[11] = 0xff;
    member->address[12] = (uint8_t)(process->index >> 24);
    member->address[13] = (uint8_t)(process->index >> 16);
    member->address[14] = (uint8_t)(process->index >> 8);
    member->address[15] = (uint8_t)process->index;
    member->port = 1;
}

/* Of a core for many members most pages are never touched, if nobody writes zeros to them. Of one
 * for few a third needs no zeros. */
static void core_make(const struct sim_world *world, struct sim_process *process)
{
    const struct spotnik_sim_options *options = &world->options;
    bool blank = options->limits.members_max > SIM_MEMBERS_MAX;
    size_t bytes = spotnik_core_size(&options->limits);
    void *memory = blank ? calloc(1, bytes) : malloc(bytes);

    SPOTNIK_ASSERT(memory != NULL);
    process->core =
        (blank ? spotnik_core_init_blank
               : spotnik_core_init)(memory, &options->limits, &process->member,
                                    options->members_min, options->samples, options->batch);
}

struct sim_process *spotnik_sim_spawn(struct sim_world *world, uint32_t host)
{
    const struct spotnik_sim_options *options = &world->options;

    if (world->process_count == options->processes_max || world->host_dead[host])
        return NULL;
    struct sim_process *process = spotnik_sim_alloc(sizeof(*process));
    process->index = world->process_count;
    process->host = host;
    process->inbox_end = &process->inbox;
    process->tick_at_ns = SPOTNIK_NEVER;
    process->last_waits = world->waits;
    process->dial = spotnik_sim_alloc(options->processes_max * sizeof(*process->dial));
    identify(world, process);
    core_make(world, process);
    SPOTNIK_ASSERT(spotnik_core_plant(process->core, options->bugs) || options->bugs == 0);
    world->process[world->process_count++] = process;
    spotnik_sim_app_init(world, process);
    spotnik_sim_flat_init(world, process);
    spotnik_sim_story(world, "%u starts on host %u", process->index, host);
    return process;
}

void spotnik_sim_process_free(struct sim_process *process)
{
    spotnik_sim_app_free(process);
    spotnik_sim_flat_free(process);
    while (process->inbox) {
        struct sim_item *item = process->inbox;
        process->inbox = item->next;
        free(item);
    }
    free(process->core);
    free(process->dial);
    free(process);
}

static void found(struct sim_world *world)
{
    struct sim_process *process = spotnik_sim_spawn(world, 0);
    struct spotnik_ledger ledger;
    struct spotnik_founding founding = { .id = world->options.witnessed ? 1 : 2,
                                         .root = 1,
                                         .founded_at_ms = 1 };
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FOUND, .found.founding = &founding };

    if (world->options.per_member) {
        spotnik_ledger_init_per_member(&ledger, world->options.samples, world->options.batch);
        event.found.ledger = &ledger;
    }
    process->app.state = SIM_APP_IDLE;
    spotnik_sim_core_step(world, process, &event);
    spotnik_sim_app_later(world, process, 0);
}

static void spawn_joiner(struct sim_world *world, uint32_t host)
{
    struct sim_process *process = spotnik_sim_spawn(world, host);
    if (!process)
        return;
    process->join = SIM_JOIN_SEEK;
    spotnik_sim_push(world, SIM_JOINER, 0, process->index, ++process->join_serial, NULL);
}

/* -- The world -- */

static void draw_latencies(struct sim_world *world)
{
    const struct spotnik_sim_options *options = &world->options;
    size_t pairs = (size_t)options->hosts * options->hosts;

    world->latency_ns = spotnik_sim_alloc(pairs * sizeof(uint64_t));
    world->slow_ns = spotnik_sim_alloc(pairs * sizeof(uint64_t));
    world->blocked = spotnik_sim_alloc(pairs * sizeof(uint32_t));
    world->host_dead = spotnik_sim_alloc(options->hosts);
    world->card_free_ns = spotnik_sim_alloc(options->hosts * sizeof(uint64_t));
    for (size_t i = 0; i < pairs; i++)
        world->latency_ns[i] =
            spotnik_prng_between(&world->net, options->latency_min_ns, options->latency_max_ns);
}

static bool is_clean(const struct spotnik_sim_options *options)
{
    for (int i = SPOTNIK_SIM_KILL_HOST; i < SPOTNIK_SIM_LEAVE; i++)
        if (options->weight[i])
            return false;
    return true;
}

void spotnik_sim_world_start(struct sim_world *world, const struct spotnik_sim_options *options,
                             struct spotnik_sim_result *result)
{
    memset(world, 0, sizeof(*world));
    memset(result, 0, sizeof(*result));
    world->options = *options;
    world->result = result;
    spotnik_prng_seed(&world->net, options->seed);
    spotnik_prng_seed(&world->app, options->seed + UINT64_C(0x1000000000));
    spotnik_prng_seed(&world->fault, options->seed + UINT64_C(0x2000000000));
    spotnik_prng_seed(&world->memory, options->seed + UINT64_C(0x3000000000));
    world->process = spotnik_sim_alloc(options->processes_max * sizeof(*world->process));
    world->link = spotnik_sim_alloc((size_t)options->processes_max * options->processes_max
                                    * sizeof(*world->link));
    draw_latencies(world);
    spotnik_sim_buckets_draw(world);
    world->clean = is_clean(options);
    world->clean &= options->forged == 0 && options->pairs == 0;
    result->calm = world->clean && !options->lost_with_death;
    world->storage =
        spotnik_wire_storage_init(spotnik_sim_alloc(spotnik_wire_storage_size(&options->limits)),
                                  &options->limits);
    spotnik_check_start(world);
}

void spotnik_sim_world_end(struct sim_world *world)
{
    struct spotnik_sim_happening happening;

    while (spotnik_sim_queue_pop(&world->queue, &happening))
        if (happening.kind == SIM_ITEM || happening.kind == SIM_FRAME)
            free(happening.object);
    spotnik_sim_queue_free(&world->queue);
    spotnik_check_free(world);
    for (uint32_t i = 0; i < world->process_count; i++)
        spotnik_sim_process_free(world->process[i]);
    spotnik_sim_links_free(world);
    spotnik_sim_channels_free(world);
    free(world->process);
    free(world->link);
    free(world->latency_ns);
    free(world->slow_ns);
    free(world->blocked);
    free(world->host_dead);
    free(world->witness.owner);
    free(world->card_free_ns);
    free(world->plan);
    free(world->storage);
}

/* A new start of a process when a new start is due, and as many as the job needs to go on. */
static void keep_enough(struct sim_world *world)
{
    uint32_t live = 0;
    for (uint32_t i = 0; i < world->process_count; i++)
        live += sim_live(world->process[i]);
    for (uint32_t host = 0; host < world->options.hosts && live < world->options.members_min;
         host++)
        if (!world->host_dead[host]) {
            spawn_joiner(world, host);
            live++;
        }
}

static void probe(struct sim_world *world)
{
    if (!world->healing)
        spotnik_sim_faults_heal_all(world);
    keep_enough(world);
    spotnik_check_progress_probe(world);
}

static void happen_to_process(struct sim_world *world,
                              const struct spotnik_sim_happening *happening)
{
    struct sim_process *process = world->process[happening->process];

    if (process->stopped && (happening->kind == SIM_DIAL_OVER || happening->kind == SIM_SEARCH))
        spotnik_sim_push(world, (enum sim_kind)happening->kind, 5 * SPOTNIK_MS, happening->process,
                         happening->number, NULL);
    if (happening->kind == SIM_SHARE && process->stopped)
        spotnik_sim_push(world, SIM_SHARE, 5 * SPOTNIK_MS, happening->process, happening->number,
                         NULL);
    if (happening->kind == SIM_FLAT) {
        spotnik_sim_flat_work(world, process);
        return;
    }
    if (process->stopped && happening->kind != SIM_CONTINUE)
        return; /* taken up again by spotnik_sim_continue() */
    if (happening->kind == SIM_TICK && process->tick_at_ns == happening->number)
        spotnik_sim_tick(world, process);
    else if (happening->kind == SIM_CONTINUE)
        spotnik_sim_continue(world, process);
    else if (happening->kind == SIM_APP && sim_live(process)
             && process->app.serial == happening->number)
        spotnik_sim_app_happens(world, process);
    else if (happening->kind == SIM_JOINER && sim_live(process)
             && process->join_serial == happening->number)
        spotnik_sim_joiner_happens(world, process);
    else if (happening->kind == SIM_SHARE)
        spotnik_sim_flat_share(world, process, (uint32_t)happening->number);
    else if (happening->kind == SIM_SEARCH)
        spotnik_sim_search(world, process);
    else if (happening->kind == SIM_PUMP)
        spotnik_sim_pump(world, process);
    else if (happening->kind == SIM_DIAL_OVER)
        spotnik_sim_dial_over(world, process, happening->number);
}

void spotnik_sim_happen(struct sim_world *world, const struct spotnik_sim_happening *happening)
{
    switch ((enum sim_kind)happening->kind) {
    case SIM_TICK:
    case SIM_APP:
    case SIM_JOINER:
    case SIM_PUMP:
    case SIM_SEARCH:
    case SIM_CONTINUE:
    case SIM_DIAL_OVER:
    case SIM_SHARE:
    case SIM_FLAT:
        happen_to_process(world, happening);
        break;
    case SIM_ITEM:
        spotnik_sim_item_arrives(world, happening->object);
        break;
    case SIM_FLUSH:
        spotnik_sim_link_flush(world, happening->object, (int)happening->number);
        break;
    case SIM_TEARDOWN:
        spotnik_sim_links_torn_down(world, world->process[happening->process]);
        break;
    case SIM_FRAME:
        spotnik_sim_channel_frame(world, happening->object);
        break;
    case SIM_PAYLOAD:
        spotnik_sim_channel_payload(world, happening->object, happening->number);
        break;
    case SIM_LANE_OPEN:
        spotnik_sim_channel_opens(world, happening->object);
        break;
    case SIM_FAULT:
        spotnik_sim_fault_happens(world, (uint32_t)happening->number);
        break;
    case SIM_CHURN:
        spotnik_sim_churn_happens(world, (uint32_t)happening->number);
        break;
    case SIM_PATH:
        spotnik_sim_path(world, happening->number, happening->process);
        break;
    case SIM_FORGE:
        spotnik_sim_ends_forged(world, happening->number);
        break;
    case SIM_HEAL:
        spotnik_sim_fault_heals(world, (uint32_t)happening->number);
        break;
    case SIM_SPAWN:
        spawn_joiner(world, happening->process);
        break;
    case SIM_WITNESS:
        if (happening->process == SIM_NOBODY)
            world->witness.removed = true;
        else
            spotnik_sim_witness_happens(world, world->process[happening->process],
                                        happening->number);
        break;
    case SIM_PROBE:
        probe(world);
        break;
    }
}

void spotnik_sim_loop(struct sim_world *world)
{
    struct spotnik_sim_happening happening;

    while (!world->over && spotnik_sim_queue_pop(&world->queue, &happening)) {
        SPOTNIK_ASSERT(happening.at_ns >= world->now_ns);
        world->now_ns = happening.at_ns;
        spotnik_sim_happen(world, &happening);
        if (++world->result->happenings > world->options.happenings_max)
            spotnik_sim_fail(world, "P6", "a livelock: %llu happenings",
                             (unsigned long long)world->result->happenings);
    }
    world->result->virtual_ns = world->now_ns;
}

void spotnik_sim_run(const struct spotnik_sim_options *options, struct spotnik_sim_result *ret)
{
    struct sim_world *world = spotnik_sim_alloc(sizeof(*world));

    spotnik_sim_world_start(world, options, ret);
    spotnik_sim_push(world, SIM_PROBE, options->safety_ns, 0, 0, NULL);
    spotnik_sim_faults_plan(world);
    spotnik_sim_witness_start(world);
    found(world);
    for (uint32_t i = 1; i < options->members; i++)
        spotnik_sim_push(world, SIM_SPAWN, spotnik_prng_below(&world->net, 30 * SPOTNIK_MS),
                         i % options->hosts, 0, NULL);
    spotnik_sim_loop(world);
    if (!ret->failed)
        spotnik_check_end(world);
    ret->digest = world->digest;
    ret->steps = world->facts->steps_max;
    spotnik_sim_world_end(world);
    free(world);
}
