/* SPDX-License-Identifier: Apache-2.0 */
/* Recording: see recorder.h. The path of a step comes through here a dozen times: each time some
 * hundred bytes are stored. */
#include "record/recorder.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"
#include "record/inside.h"
#include "wire/control.h"

#define HALF_BYTES ((size_t)2 << 20) /* of records: then the other half is begun */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* What one event may bring: the largest message, or a ledger, and every action of a full queue. */
static size_t burst(const struct spotnik_limits *limits)
{
    size_t actions = (size_t)8 * limits->members_max + 4 * SPOTNIK_BUCKETS_MAX + 256;

    return spotnik_control_bytes_max(limits) + sizeof(struct spotnik_ledger)
           + actions * sizeof(struct spotnik_record) + 65536;
}

static size_t padded(size_t bytes)
{
    return (bytes + 7) & ~(size_t)7;
}

static size_t half_bytes(const struct spotnik_recorder *recorder)
{
    return (recorder->saved_bytes + recorder->room + 63) & ~(size_t)63;
}

/* Touch the pages that records will be written to before the first step. A page fault takes as long
 * as a small bucket, and the first thousands of steps would pay for them. Where the kernel cannot,
 * they do. All other pages cost nothing before they are written. */
static void half_touch(const struct spotnik_recorder *recorder, struct spotnik_half *half)
{
    size_t bytes = recorder->saved_bytes + HALF_BYTES, page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t begin = (uintptr_t)half->saved & ~(uintptr_t)(page - 1);

    (void)!madvise((void *)begin, (uintptr_t)half->saved + bytes - begin, MADV_POPULATE_WRITE);
}

static bool memory_get(struct spotnik_recorder *recorder)
{
    uint8_t *memory = mmap(NULL, SPOTNIK_DUMP_PARTS * half_bytes(recorder), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return false;
    for (uint32_t i = 0; i < SPOTNIK_DUMP_PARTS; i++) {
        recorder->half[i].saved = memory + i * half_bytes(recorder);
        recorder->half[i].records = recorder->half[i].saved + recorder->saved_bytes;
    }
    half_touch(recorder, &recorder->half[0]);
    half_touch(recorder, &recorder->half[1]);
    return true;
}

int spotnik_recorder_new(const struct spotnik_recorder_config *config,
                         struct spotnik_recorder **ret)
{
    struct spotnik_recorder *recorder = calloc(1, sizeof *recorder);

    if (recorder == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the flight recorder");
    recorder->limits = *config->limits;
    recorder->choice = config->limits->choice == NULL                      ? 0
                       : config->limits->choice == spotnik_choice_measured ? 1
                                                                           : 2;
    recorder->limits.choice = NULL;
    recorder->saved_bytes = padded(spotnik_core_saved_size(config->limits));
    recorder->room = HALF_BYTES + burst(config->limits);
    recorder->stall_ns = config->stall_ns;
    if (config->dir != NULL)
        strncpy(recorder->dir, config->dir, sizeof recorder->dir - 1);
    if (!memory_get(recorder)) {
        free(recorder);
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the flight recorder");
    }
    spotnik_recorder_enlist(recorder);
    *ret = recorder;
    return 0;
}

void spotnik_recorder_free(struct spotnik_recorder *recorder)
{
    if (recorder == NULL)
        return;
    spotnik_recorder_delist(recorder);
    spotnik_recorder_join(recorder);
    munmap(recorder->half[0].saved, SPOTNIK_DUMP_PARTS * half_bytes(recorder));
    free(recorder);
}

static struct spotnik_half *current(struct spotnik_recorder *recorder)
{
    return &recorder->half[recorder->at];
}

/* The other half begins with the core as it is, unless the core is busy: then a little later. */
static void turn(struct spotnik_recorder *recorder, const struct spotnik_core *core)
{
    struct spotnik_half *other = &recorder->half[1 - recorder->at];

    if (!spotnik_core_save(core, other->saved))
        return;
    recorder->older = current(recorder)->used != 0;
    recorder->at = 1 - recorder->at;
    other->used = 0;
    other->torn = false;
}

void spotnik_recorder_begin(struct spotnik_recorder *recorder, const struct spotnik_core *core,
                            const struct spotnik_member *self)
{
    if (recorder == NULL)
        return;
    turn(recorder, core);
    recorder->self = *self;
    recorder->sealed_ns = 0;
    recorder->members_min = 0;
}

/* ---- records ---- */

/* Room for a record with `more` bytes behind it; NULL: there is none, and the half ends here. */
static struct spotnik_record *put(struct spotnik_recorder *recorder, enum spotnik_record_what what,
                                  size_t more)
{
    struct spotnik_half *half = current(recorder);
    size_t bytes = sizeof(struct spotnik_record) + more;

    if (half->torn || half->used + bytes > recorder->room) {
        half->torn = true;
        return NULL;
    }
    struct spotnik_record *record = (struct spotnik_record *)(void *)(half->records + half->used);
    half->used += bytes;
    *record = (struct spotnik_record){ .bytes = (uint32_t)bytes,
                                       .what = (uint8_t)what,
                                       .now_ns = recorder->now_ns };
    return record;
}

static uint8_t *add(uint8_t *at, const void *bytes, size_t size)
{
    memcpy(at, bytes, size);
    return at + padded(size);
}

static const struct spotnik_ledger *ledger_of(const struct spotnik_event *event)
{
    return event->kind == SPOTNIK_EVENT_FOUND    ? event->found.ledger
           : event->kind == SPOTNIK_EVENT_RESUME ? event->resume.ledger
                                                 : NULL;
}

static const struct spotnik_founding *founding_of(const struct spotnik_event *event)
{
    return event->kind == SPOTNIK_EVENT_FOUND ? event->found.founding : NULL;
}

static uint8_t with_of(const struct spotnik_event *event)
{
    unsigned with = spotnik_event_arm_bytes(event->kind) != 0 ? SPOTNIK_WITH_ARM : 0u;

    with |= ledger_of(event) != NULL ? SPOTNIK_WITH_LEDGER : 0u;
    with |= founding_of(event) != NULL ? SPOTNIK_WITH_FOUNDING : 0u;
    with |= event->kind == SPOTNIK_EVENT_DEAL && event->deal.count != 0 ? SPOTNIK_WITH_WEIGHTS : 0u;
    with |= event->kind == SPOTNIK_EVENT_MESSAGE ? SPOTNIK_WITH_MESSAGE : 0u;
    return (uint8_t)with;
}

static size_t more_of(const struct spotnik_event *event, uint8_t with)
{
    return padded(spotnik_event_arm_bytes(event->kind))
           + (with & SPOTNIK_WITH_LEDGER ? padded(sizeof(struct spotnik_ledger)) : 0)
           + (with & SPOTNIK_WITH_FOUNDING ? padded(sizeof(struct spotnik_founding)) : 0)
           + (with & SPOTNIK_WITH_WEIGHTS
                  ? padded(event->deal.count * sizeof *event->deal.weight_of)
                  : 0)
           + (with & SPOTNIK_WITH_MESSAGE ? padded(spotnik_control_size(event->message.body)) : 0);
}

static void fill(struct spotnik_record *record, const struct spotnik_event *event)
{
    /* arms begin at one place */
    uint8_t *at = add((uint8_t *)(record + 1), &event->found, spotnik_event_arm_bytes(event->kind));

    if (record->with & SPOTNIK_WITH_LEDGER)
        at = add(at, ledger_of(event), sizeof(struct spotnik_ledger));
    if (record->with & SPOTNIK_WITH_FOUNDING)
        at = add(at, founding_of(event), sizeof(struct spotnik_founding));
    if (record->with & SPOTNIK_WITH_WEIGHTS)
        at = add(at, event->deal.weight_of, event->deal.count * sizeof *event->deal.weight_of);
    if (record->with & SPOTNIK_WITH_MESSAGE) {
        size_t size = spotnik_control_size(event->message.body);
        spotnik_control_encode(event->message.body, at, size);
        record->padding = (uint8_t)(padded(size) - size);
    }
}

static void note(struct spotnik_recorder *recorder, const struct spotnik_event *event)
{
    uint8_t with = with_of(event);
    struct spotnik_record *record = put(recorder, SPOTNIK_RECORD_EVENT, more_of(event, with));

    if (record == NULL)
        return;
    record->kind = (uint8_t)event->kind;
    record->with = with;
    record->now_ns = event->now_ns;
    fill(record, event);
}

/* Time passes for the core at least once a heartbeat: so this sees a stall while it lasts. */
static void stall_look(struct spotnik_recorder *recorder, const struct spotnik_event *event)
{
    char line[SPOTNIK_DUMP_DIR_MAX + 128];

    if (event->kind == SPOTNIK_EVENT_STEP_SEAL)
        recorder->sealed_ns = event->now_ns;
    if (event->kind != SPOTNIK_EVENT_TICK || recorder->sealed_ns == 0 || recorder->stall_ns == 0
        || event->now_ns - recorder->sealed_ns < recorder->stall_ns)
        return;
    recorder->sealed_ns = 0;
    recorder->stalls++;
    spotnik_recorder_dump(recorder, "a step stalled", false, line, sizeof line);
}

void spotnik_recorder_event(struct spotnik_recorder *recorder, const struct spotnik_core *core,
                            const struct spotnik_event *event)
{
    if (recorder == NULL)
        return;
    if (event->now_ns > recorder->now_ns)
        recorder->now_ns = event->now_ns;
    if (current(recorder)->used >= HALF_BYTES)
        turn(recorder, core);
    note(recorder, event);
    stall_look(recorder, event);
}

void spotnik_recorder_action(struct spotnik_recorder *recorder, const struct spotnik_action *action)
{
    struct spotnik_record *record =
        recorder != NULL ? put(recorder, SPOTNIK_RECORD_ACTION, 0) : NULL;

    if (record == NULL)
        return;
    const struct spotnik_member *peer = spotnik_action_peer(action);
    record->kind = (uint8_t)action->kind;
    record->number = spotnik_action_number(action);
    record->bucket = spotnik_action_bucket(action);
    record->peer = peer != NULL ? peer->id : (struct spotnik_id){ 0, 0 };
    if (action->kind == SPOTNIK_ACTION_COMMITTED || action->kind >= SPOTNIK_ACTION_EXCLUDED)
        recorder->sealed_ns = 0;
    char line[SPOTNIK_DUMP_DIR_MAX + 128];
    if (action->kind == SPOTNIK_ACTION_EXCLUDED)
        spotnik_recorder_dump(recorder, "the others went on without this member", false, line,
                              sizeof line);
    if (action->kind == SPOTNIK_ACTION_FAILED)
        spotnik_recorder_dump(recorder, "the core failed", false, line, sizeof line);
}

void spotnik_recorder_placed(struct spotnik_recorder *recorder, struct spotnik_id from,
                             const struct spotnik_chunk_header *header,
                             enum spotnik_verdict verdict)
{
    if (recorder == NULL
        || (!header->handover
            && (verdict == SPOTNIK_VERDICT_TAKE || verdict == SPOTNIK_VERDICT_WAIT)))
        return; /* it has changed nothing */
    struct spotnik_record *record = put(recorder, SPOTNIK_RECORD_PLACED, padded(sizeof *header));
    if (record == NULL)
        return;
    record->kind = (uint8_t)verdict;
    record->peer = from;
    record->with = SPOTNIK_WITH_HEADER;
    add((uint8_t *)(record + 1), header, sizeof *header);
}

void spotnik_recorder_sent(struct spotnik_recorder *recorder, struct spotnik_id to)
{
    struct spotnik_record *record = recorder != NULL ? put(recorder, SPOTNIK_RECORD_SENT, 0) : NULL;

    if (record != NULL)
        record->peer = to;
}

void spotnik_recorder_minimum(struct spotnik_recorder *recorder, uint32_t members_min)
{
    if (recorder == NULL || recorder->members_min == members_min)
        return;
    recorder->members_min = members_min;
    struct spotnik_record *record = put(recorder, SPOTNIK_RECORD_MINIMUM, 0);
    if (record != NULL)
        record->number = members_min;
}

void spotnik_recorder_bar(struct spotnik_recorder *recorder, bool barred)
{
    struct spotnik_record *record = recorder != NULL ? put(recorder, SPOTNIK_RECORD_BAR, 0) : NULL;

    if (record != NULL)
        record->number = barred;
}

uint64_t spotnik_recorder_stalls(const struct spotnik_recorder *recorder)
{
    return recorder != NULL ? recorder->stalls : 0;
}
