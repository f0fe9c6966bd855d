/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, start and dispatch of the core: one switch from event to its file. No rule of the
 * protocol is here. */
#include "core/core.h"

#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "core/route.h"
#include "core/vote.h"

_Static_assert(SPOTNIK_STEP_BUCKETS == SPOTNIK_BUCKETS_MAX,
               "the step holds every bucket of the core");

#define BRIEF_MEMBERS 64 /* up to here a message is short anyhow */

void spotnik_limits_init(struct spotnik_limits *limits, uint32_t members_max)
{
    *limits = (struct spotnik_limits){
        .members_max = members_max,
        .warm_count = 32,
        .chunk_bytes = 256 * 1024,
        .flat_small_bytes = 32 * 1024,
        .heartbeat_ns = 50 * SPOTNIK_MS,
        .silence_floor_ns = 250 * SPOTNIK_MS,
        .silence_ceiling_ns = 2 * SPOTNIK_S,
        .stagger_ns = 2 * SPOTNIK_MS,
        .retry_ns = 100 * SPOTNIK_MS,
        .enter_wait_ns = 50 * SPOTNIK_MS,
        .brief_members = BRIEF_MEMBERS,
        .choice = spotnik_choice_measured,
        .fan = SPOTNIK_TREE_FAN_MAX,
    };
}

/* Carves arrays out of the caller's memory; with base NULL it only adds up. */
struct carver {
    unsigned char *base;
    size_t used, saved; /* without the queue */
};

static void *carve(struct carver *carver, size_t bytes)
{
    size_t at = (carver->used + 15) & ~(size_t)15;
    carver->used = at + bytes;
    return carver->base ? carver->base + at : NULL;
}

/* When only sizes are wanted, pointers go to `scratch` and are thrown away. */
static struct vote *lay_out_vote(struct carver *carver, uint32_t members, uint32_t entries)
{
    struct vote scratch, *real = carve(carver, sizeof(*real)), *vote = real ? real : &scratch;

    vote->peer_max = entries;
    vote->accepted.entry_max = vote->token.accepted.entry_max = entries;
    vote->accepted.entry = carve(carver, entries * sizeof(*vote->accepted.entry));
    vote->token.accepted.entry = carve(carver, entries * sizeof(*vote->accepted.entry));
    vote->token.report = carve(carver, members * sizeof(*vote->token.report));
    vote->book = carve(carver, members * sizeof(*vote->book));
    vote->doubt.answer = carve(carver, members * sizeof(*vote->doubt.answer));
    vote->covered = carve(carver, members * sizeof(*vote->covered));
    vote->rumoured = carve(carver, members * sizeof(*vote->rumoured));
    vote->quiet_until_ns = carve(carver, members * sizeof(*vote->quiet_until_ns));
    vote->quiet_by = carve(carver, members * sizeof(*vote->quiet_by));
    vote->deaf = carve(carver, members * sizeof(*vote->deaf));
    vote->fenced = carve(carver, members * sizeof(*vote->fenced));
    vote->peer = carve(carver, vote->peer_max * sizeof(*vote->peer));
    return real;
}

static struct route *lay_out_route(struct carver *carver, uint32_t members, uint32_t entries)
{
    struct route scratch, *real = carve(carver, sizeof(*real)), *route = real ? real : &scratch;

    route->holder = carve(carver, members * sizeof(*route->holder));
    route->scratch = carve(carver, 4 * (size_t)members * sizeof(*route->scratch));
    route->consumed = carve(carver, members * sizeof(*route->consumed));
    for (int i = 0; i < 4; i++)
        route->carried[i >> 1][i & 1] = carve(carver, 2 * members * sizeof(uint64_t));
    route->flat.max = entries;
    route->flat.peer = carve(carver, route->flat.max * sizeof(*route->flat.peer));
    for (int i = 0; i < 2; i++)
        route->flat.carried[i] = carve(carver, 2 * members * sizeof(bool));
    return real;
}

static struct spotnik_core *lay_out(struct carver *carver, const struct spotnik_limits *limits)
{
    uint32_t members = limits->members_max, entries = 2 * members + SPOTNIK_JOINERS_MAX;
    struct spotnik_core scratch, *real = carve(carver, sizeof(*real)),
                                 *core = real ? real : &scratch;

    core->queue_max = 8 * members + 4 * SPOTNIK_BUCKETS_MAX + 256;
    core->chosen.entry_max = entries;
    core->view.entry = carve(carver, entries * sizeof(*core->view.entry));
    core->chosen.entry = carve(carver, entries * sizeof(*core->chosen.entry));
    core->vote = lay_out_vote(carver, members, entries);
    core->route = lay_out_route(carver, members, entries);
    carver->saved = carver->used;
    /* last: between events it is empty, and is not saved */
    core->queue = carve(carver, core->queue_max * sizeof(*core->queue));
    return real;
}

size_t spotnik_core_size(const struct spotnik_limits *limits)
{
    struct carver carver = { .base = NULL };
    lay_out(&carver, limits);
    return carver.used;
}

size_t spotnik_core_saved_size(const struct spotnik_limits *limits)
{
    struct carver carver = { .base = NULL };
    lay_out(&carver, limits);
    return carver.saved;
}

bool spotnik_core_save(const struct spotnik_core *core, void *bytes)
{
    if (core->queue_count == 0)
        memcpy(bytes, core, spotnik_core_saved_size(&core->limits));
    return core->queue_count == 0;
}

struct spotnik_core *spotnik_core_load(void *memory, const struct spotnik_limits *limits,
                                       const void *bytes)
{
    struct carver carver = { .base = memory };

    memcpy(memory, bytes, spotnik_core_saved_size(limits));
    /* its pointers are those of another place */
    struct spotnik_core *core = lay_out(&carver, limits);
    core->limits = *limits;
    core->outgoing = (struct spotnik_message){ .epoch = 0 };
    core->queue_head = core->queue_count = 0;
    return core;
}

struct spotnik_core *spotnik_core_init(void *memory, const struct spotnik_limits *limits,
                                       const struct spotnik_member *self, uint32_t members_min,
                                       uint64_t ledger_samples, uint64_t ledger_batch)
{
    memset(memory, 0, spotnik_core_saved_size(limits));
    return spotnik_core_init_blank(memory, limits, self, members_min, ledger_samples, ledger_batch);
}

struct spotnik_core *spotnik_core_init_blank(void *memory, const struct spotnik_limits *limits,
                                             const struct spotnik_member *self,
                                             uint32_t members_min, uint64_t ledger_samples,
                                             uint64_t ledger_batch)
{
    struct carver carver = { .base = memory };

    SPOTNIK_ASSERT(limits->members_max >= 1);
    SPOTNIK_ASSERT(limits->chunk_bytes >= 8 && limits->chunk_bytes % 8 == 0);
    SPOTNIK_ASSERT(spotnik_choice_members(limits->choice, 0) <= SPOTNIK_SMALL_MEMBERS_MAX);
    SPOTNIK_ASSERT(limits->fan >= 1 && limits->fan <= SPOTNIK_TREE_FAN_MAX);
    SPOTNIK_ASSERT(!spotnik_id_is_none(self->id));
    struct spotnik_core *core = lay_out(&carver, limits);
    core->limits = *limits;
    core->self = *self;
    spotnik_core_members_min_set(core, members_min);
    core->rank = SPOTNIK_NO_RANK;
    core->vote->initiate_ns = core->vote->retry_ns = core->vote->enter_until_ns =
        core->vote->enter_limit_ns = SPOTNIK_NEVER;
    core->vote->leave_ns = core->vote->enter_ns = core->vote->heartbeat_ns =
        core->vote->doubt.until_ns = core->vote->visit.until_ns = SPOTNIK_NEVER;
    spotnik_ledger_init(&core->ledger, ledger_samples, ledger_batch);
    spotnik_transaction_init(&core->step, 0);
    return core;
}

void spotnik_core_members_min_set(struct spotnik_core *core, uint32_t members_min)
{
    core->members_min = members_min ? members_min : 1;
}

static void dispatch(struct spotnik_core *core, const struct spotnik_event *event)
{
    switch (event->kind) {
    case SPOTNIK_EVENT_FOUND:
        on_found(core, &event->found);
        break;
    case SPOTNIK_EVENT_RESUME:
        on_resume(core, &event->resume);
        break;
    case SPOTNIK_EVENT_JOIN:
        on_join(core, &event->join);
        break;
    case SPOTNIK_EVENT_LINK_UP:
        on_link_up(core, &event->link_up);
        break;
    case SPOTNIK_EVENT_LINK_DOWN:
        on_link_down(core, &event->ended);
        break;
    case SPOTNIK_EVENT_DIAL_FAILED:
        on_dial_failed(core, &event->ended);
        break;
    case SPOTNIK_EVENT_DEATH:
        on_death(core, &event->death);
        break;
    case SPOTNIK_EVENT_LANE_DOWN:
        on_lane_down(core, &event->peer);
        break;
    case SPOTNIK_EVENT_PATH_DOWN:
        on_path_down(core, &event->peer);
        break;
    case SPOTNIK_EVENT_KERNEL:
        on_kernel(core, &event->peer);
        break;
    case SPOTNIK_EVENT_MESSAGE:
        on_message(core, &event->message);
        break;
    case SPOTNIK_EVENT_TICK:
        on_tick(core);
        break;
    case SPOTNIK_EVENT_WITNESS:
        on_witness(core, &event->witness);
        break;
    case SPOTNIK_EVENT_WOKEN:
        doubt_begin(core);
        break;
    case SPOTNIK_EVENT_STEP_BEGIN:
        on_step_begin(core);
        break;
    case SPOTNIK_EVENT_WEIGHT:
        on_weight(core, event->weight);
        break;
    case SPOTNIK_EVENT_DECLINE:
        on_decline(core);
        break;
    case SPOTNIK_EVENT_BUCKET_START:
        on_bucket_start(core, &event->start);
        break;
    case SPOTNIK_EVENT_STEP_SEAL:
        on_step_seal(core);
        break;
    case SPOTNIK_EVENT_DEAL:
        on_deal(core, &event->deal);
        break;
    case SPOTNIK_EVENT_LEAVE:
        on_leave(core);
        break;
    case SPOTNIK_EVENT_ENTER_READY:
        on_enter_ready(core, &event->peer);
        break;
    case SPOTNIK_EVENT_CHUNK_DONE:
        on_chunk_done(core, &event->chunk.header);
        break;
    case SPOTNIK_EVENT_SHARED:
        on_shared(core, &event->shared);
        break;
    case SPOTNIK_EVENT_FLAT_DONE:
        on_flat_done(core, &event->flat);
        break;
    case SPOTNIK_EVENT_FLAT_FAILED:
        on_flat_failed(core, &event->failure);
        break;
    case SPOTNIK_EVENT_RESULT:
        on_result(core, &event->result);
        break;
    }
}

static bool may_change_who_is_in(enum spotnik_event_kind kind)
{
    return kind < SPOTNIK_EVENT_STEP_BEGIN || kind == SPOTNIK_EVENT_LEAVE;
}

void spotnik_core_step(struct spotnik_core *core, const struct spotnik_event *event)
{
    if (event->now_ns > core->now_ns)
        core->now_ns = event->now_ns;
    if (core->now_ns > core->vote->heartbeat_ns)
        doubt_if_late(core);
    if (core->role > SPOTNIK_ROLE_MEMBER)
        return; /* EXCLUDED, LEFT, FAILED: the driver is about to take us down */
    dispatch(core, event);
    if (core->vote->doubt.ask_due)
        doubt_ask_all(core);
    if (may_change_who_is_in(event->kind))
        invariants_check(core);
}

uint64_t spotnik_core_deadline(const struct spotnik_core *core)
{
    if (core->role != SPOTNIK_ROLE_MEMBER && core->role != SPOTNIK_ROLE_JOINER)
        return SPOTNIK_NEVER;
    uint64_t due = spotnik_time_min(core->vote->initiate_ns, core->vote->retry_ns);
    due = spotnik_time_min(due, spotnik_time_min(core->vote->enter_until_ns, core->vote->leave_ns));
    due = spotnik_time_min(due, spotnik_time_min(core->vote->doubt.until_ns,
                                                 core->vote->visit.until_ns));
    return spotnik_time_min(due, spotnik_time_min(core->vote->enter_ns, core->vote->heartbeat_ns));
}

const struct spotnik_view *spotnik_core_view(const struct spotnik_core *core)
{
    return &core->view;
}

const struct spotnik_ledger *spotnik_core_ledger(const struct spotnik_core *core)
{
    return &core->ledger;
}

bool spotnik_core_ledger_known(const struct spotnik_core *core, uint64_t committed)
{
    return core->role == SPOTNIK_ROLE_MEMBER && core->ledger_known
           && core->step.committed == committed;
}

bool spotnik_core_plant(struct spotnik_core *core, uint32_t bugs)
{
#ifdef SPOTNIK_PLANTED
    core->bugs = bugs;
    return true;
#else
    (void)core, (void)bugs;
    return false;
#endif
}

void spotnik_core_status(const struct spotnik_core *core, struct spotnik_core_status *ret)
{
    *ret = core->status;
    ret->role = core->role;
    ret->epoch = core->view.epoch;
    ret->committed = core->step.committed;
    ret->begun = core->step.committed + core->step.begun;
    ret->stable = step_stable(core);
    ret->frozen = core->frozen;
    ret->parked = core->vote->parked;
    ret->rank = core->role == SPOTNIK_ROLE_MEMBER ? core->rank : SPOTNIK_NO_RANK;
    ret->size = core->view.size;
    ret->detour = core->view.detour;
}
