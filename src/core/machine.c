/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, start and dispatch of the core: an event goes to membership or to all-reduce, and actions
 * come out. No rule of the protocol is here. */
#include "core/core.h"

#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "core/meet.h"
#include "core/phases.h"

_Static_assert(SPOTNIK_STEP_BUCKETS == SPOTNIK_BUCKETS_MAX,
               "the step holds every bucket of the core");

#define BRIEF_MEMBERS 64 /* up to here a message is short anyhow */
#define TREE_MEMBERS 256 /* up to here two passes round the ring take less than 60 ms */

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
        .tree_members = TREE_MEMBERS,
        .choice = spotnik_choice_measured,
        .fan = SPOTNIK_TREE_FAN_MAX,
    };
}

static struct spotnik_core *lay_out(struct carver *carver, const struct spotnik_limits *limits)
{
    uint32_t members = limits->members_max, entries = 2 * members + SPOTNIK_JOINERS_MAX;
    struct spotnik_core scratch, *real = carve(carver, sizeof(*real)),
                                 *core = real ? real : &scratch;

    core->queue.max = 8 * members + 4 * SPOTNIK_BUCKETS_MAX + 256;
    core->chosen.entry_max = entries;
    core->view.entry = core->view_entry = carve(carver, entries * sizeof(*core->view_entry));
    core->chosen.entry = carve(carver, entries * sizeof(*core->chosen.entry));
    core->membership = membership_lay_out(carver, members, entries);
    core->allreduce = allreduce_lay_out(carver, members, entries);
    carver->saved = carver->used;
    /* last: between events it is empty, and is not saved */
    core->queue.slot = carve(carver, core->queue.max * sizeof(*core->queue.slot));
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
    if (core->queue.count == 0)
        memcpy(bytes, core, spotnik_core_saved_size(&core->limits));
    return core->queue.count == 0;
}

struct spotnik_core *spotnik_core_load(void *memory, const struct spotnik_limits *limits,
                                       const void *bytes)
{
    struct carver carver = { .base = memory };

    memcpy(memory, bytes, spotnik_core_saved_size(limits));
    /* its pointers are those of another place */
    struct spotnik_core *core = lay_out(&carver, limits);
    core->limits = *limits;
    if (core->chosen.entry_count == core->view.size)
        core->view.entry = core->chosen.entry;
    core->outgoing = (struct spotnik_message){ .epoch = 0 };
    core->queue.head = core->queue.count = 0;
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
    membership_init(core);
    spotnik_ledger_init(&core->ledger, ledger_samples, ledger_batch);
    spotnik_transaction_init(&core->step, 0);
    return core;
}

void spotnik_core_members_min_set(struct spotnik_core *core, uint32_t members_min)
{
    core->members_min = members_min ? members_min : 1;
}

void spotnik_core_step(struct spotnik_core *core, const struct spotnik_event *event)
{
    if (event->now_ns > core->now_ns)
        core->now_ns = event->now_ns;
    membership_before(core);
    if (core->role > SPOTNIK_ROLE_MEMBER)
        return; /* EXCLUDED, LEFT, FAILED: the driver is about to take us down */
    bool taken = membership_take(core, event) || allreduce_take(core, event);
    SPOTNIK_ASSERT(taken);
    membership_hear(core);
    membership_after(core, event->kind);
}

void spotnik_core_bar(struct spotnik_core *core, bool barred)
{
    step_bar(core, barred);
    membership_hear(core);
}

bool spotnik_core_poll(struct spotnik_core *core, struct spotnik_action *ret)
{
    while (core->queue.count) {
        const struct queued_action *slot = &core->queue.slot[core->queue.head];
        core->queue.head = (core->queue.head + 1) % core->queue.max;
        core->queue.count--;
        if (core->queue.count == 0)
            core->queue.head = 0; /* most of its pages are never touched */
        *ret = slot->action;
        if (ret->kind != SPOTNIK_ACTION_SEND || membership_speak(core, slot, ret))
            return true;
    }
    return false;
}

static const struct phases *const tables[] = { [PHASES_OF_ROLE] = &phases_of_role,
                                               [PHASES_OF_BALLOT] = &phases_of_ballot,
                                               [PHASES_OF_STEP] = &phases_of_step };

bool spotnik_core_move(struct spotnik_core *core, struct spotnik_move *ret)
{
    if (core->moves.count - core->moves.told > MOVES_KEPT)
        core->moves.told = core->moves.count - MOVES_KEPT;
    if (core->moves.told == core->moves.count)
        return false;
    struct phase_move move = core->moves.kept[core->moves.told++ % MOVES_KEPT];
    const struct phases *phases = tables[move.table];
    *ret = (struct spotnik_move){ .of = phases->of,
                                  .from = phases->name[move.from],
                                  .to = phases->name[move.to] };
    return true;
}

uint64_t spotnik_core_deadline(const struct spotnik_core *core)
{
    bool runs = core->role == SPOTNIK_ROLE_MEMBER || core->role == SPOTNIK_ROLE_JOINER;
    return runs ? membership_deadline(core) : SPOTNIK_NEVER;
}

const struct spotnik_view *spotnik_core_view(const struct spotnik_core *core)
{
    return &core->view;
}

const struct spotnik_bucket *spotnik_core_bucket(struct spotnik_core *core, uint64_t step,
                                                 uint32_t number)
{
    return spotnik_transaction_bucket(&core->step, step, number);
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
    ret->parked = membership_is_parked(core);
    ret->rank = core->role == SPOTNIK_ROLE_MEMBER ? core->rank : SPOTNIK_NO_RANK;
    ret->size = core->view.size;
}
