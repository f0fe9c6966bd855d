/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a dump: each part loads the core that was saved at its head and gives it what it was given.
 * Every action is compared with the one that was recorded, so a core that has been changed since
 * shows where it goes another way. */
#include "replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sim/tell.h"
#include "spotnik/spotnik.h"
#include "wire/control.h"

#define NAMES_MAX 4096

struct player {
    const struct dump *dump;
    struct replay *replay;
    struct spotnik_limits limits;
    struct spotnik_core *core;
    struct spotnik_wire_storage *storage;
    void *core_memory, *storage_memory;
    struct spotnik_teller teller;
    struct spotnik_id name[NAMES_MAX]; /* a process is called by its place here */
    unsigned names;
    uint64_t first_ns, now_ns; /* the caller's events have no time of their own */
};

/* ---- reading ---- */

static bool complain(char *why, size_t size, const char *what)
{
    snprintf(why, size, "%s", what);
    return false;
}

static bool is_ours(const struct spotnik_dump_head *head)
{
    struct spotnik_limits limits = head->limits;

    if (head->event_bytes != sizeof(struct spotnik_event)
        || head->record_bytes != sizeof(struct spotnik_record)
        || head->entry_bytes != sizeof(struct spotnik_entry) || limits.members_max < 1
        || limits.members_max > 65536)
        return false;
    return head->saved_bytes == ((spotnik_core_saved_size(&limits) + 7) & ~(size_t)7);
}

static unsigned char *whole(const char *path, size_t *ret_size)
{
    FILE *file = fopen(path, "re");
    unsigned char *bytes = NULL;
    long size;

    if (file && !fseek(file, 0, SEEK_END) && (size = ftell(file)) > 0
        && (bytes = malloc((size_t)size))) {
        rewind(file);
        *ret_size = fread(bytes, 1, (size_t)size, file);
    }
    if (file)
        fclose(file);
    return bytes;
}

bool dump_read(const char *path, struct dump *ret, char *ret_why, size_t size)
{
    *ret = (struct dump){ .size = 0 };
    ret->bytes = whole(path, &ret->size);
    if (!ret->bytes)
        return complain(ret_why, size, "cannot be read");
    if (ret->size < sizeof ret->head || memcmp(ret->bytes, SPOTNIK_DUMP_MAGIC, 8) != 0)
        return complain(ret_why, size, "is no dump of Spotnik's flight recorder");
    memcpy(&ret->head, ret->bytes, sizeof ret->head);
    ret->head.version[sizeof ret->head.version - 1] =
        ret->head.reason[sizeof ret->head.reason - 1] = 0;
    if (!is_ours(&ret->head)) {
        snprintf(ret_why, size,
                 "is of another build of Spotnik (%s): replay it with the command of that build",
                 ret->head.version);
        return false;
    }
    if (ret->head.choice == 2)
        return complain(
            ret_why, size,
            "is of a program with a table of ways of its own, which the dump does not hold");
    return true;
}

void dump_done(struct dump *dump)
{
    free(dump->bytes);
    dump->bytes = NULL;
}

/* ---- names ---- */

static unsigned name_of(void *context, struct spotnik_id id)
{
    struct player *player = context;
    unsigned i = 0;

    while (i < player->names && !spotnik_id_equal(player->name[i], id))
        i++;
    if (i < player->names || player->names == NAMES_MAX)
        return i;
    player->name[player->names++] = id;
    return i;
}

/* ---- running ---- */

static bool differ(struct player *player, const char *format, ...)
{
    char *text = player->replay->differs;
    size_t size = sizeof player->replay->differs;
    va_list list;

    int length =
        snprintf(text, size, "at %.3f ms, after %" PRIu64 " events: ",
                 (double)(player->now_ns - player->first_ns) / 1e6, player->replay->events);
    va_start(list, format);
    vsnprintf(text + length, size - (size_t)length, format, list);
    va_end(list);
    return false;
}

/* What stands behind the record, piece by piece. */
static const void *take(const unsigned char **at, size_t bytes)
{
    const void *piece = *at;

    *at += (bytes + 7) & ~(size_t)7;
    return piece;
}

/* Its arm, and what the pointers in it mean here. */
static const unsigned char *arm_of(const struct spotnik_record *record, struct spotnik_event *event,
                                   struct spotnik_message *message)
{
    const unsigned char *at = (const unsigned char *)(record + 1);
    const void *ledger, *founding, *weights;

    if (record->with & SPOTNIK_WITH_ARM) {
        size_t bytes = spotnik_event_arm_bytes(event->kind);
        memcpy(&event->found, take(&at, bytes), bytes); /* arms begin at one place */
    }
    ledger = record->with & SPOTNIK_WITH_LEDGER ? take(&at, sizeof(struct spotnik_ledger)) : NULL;
    founding =
        record->with & SPOTNIK_WITH_FOUNDING ? take(&at, sizeof(struct spotnik_founding)) : NULL;
    weights = record->with & SPOTNIK_WITH_WEIGHTS
                  ? take(&at, event->deal.count * sizeof *event->deal.weight_of)
                  : NULL;
    if (event->kind == SPOTNIK_EVENT_FOUND)
        event->found = (struct spotnik_event_found){ ledger, founding };
    if (event->kind == SPOTNIK_EVENT_RESUME)
        event->resume.ledger = ledger;
    if (event->kind == SPOTNIK_EVENT_DEAL)
        event->deal.weight_of = weights;
    if (event->kind == SPOTNIK_EVENT_MESSAGE)
        event->message.body = message;
    return at;
}

static bool event_of(struct player *player, const struct spotnik_record *record,
                     struct spotnik_event *event, struct spotnik_message *message)
{
    const unsigned char *end = (const unsigned char *)record + record->bytes;

    if (record->bytes
        < sizeof *record + spotnik_event_arm_bytes((enum spotnik_event_kind)record->kind))
        return false;
    *event = (struct spotnik_event){ .kind = (enum spotnik_event_kind)record->kind,
                                     .now_ns = record->now_ns };
    const unsigned char *at = arm_of(record, event, message);
    if (at > end || (event->kind == SPOTNIK_EVENT_DEAL && event->deal.count > record->bytes))
        return false;
    if (!(record->with & SPOTNIK_WITH_MESSAGE))
        return event->kind != SPOTNIK_EVENT_MESSAGE;
    size_t bytes = (size_t)(end - at) - record->padding;
    return record->padding < 8 && bytes <= (size_t)(end - at)
           && spotnik_control_decode(at, bytes, player->storage, message) == 0;
}

static bool play_event(struct player *player, const struct spotnik_record *record)
{
    struct spotnik_message message;
    struct spotnik_event event;
    struct spotnik_action left;

    if (record->kind >= SPOTNIK_EVENT_KINDS)
        return differ(player, "a record is damaged: there is no event %u", (unsigned)record->kind);
    if (!event_of(player, record, &event, &message))
        return differ(player, "the record of \"%s\" is damaged",
                      spotnik_event_name((enum spotnik_event_kind)record->kind));
    if (spotnik_core_poll(player->core, &left))
        return differ(player, "this core wants \"%s\", which the record does not have",
                      spotnik_action_name(left.kind));
    if (!player->replay->quiet)
        spotnik_tell_event(&player->teller, player->now_ns - player->first_ns, 0, &event);
    spotnik_core_step(player->core, &event);
    struct spotnik_move move;
    while (!player->replay->quiet && spotnik_core_move(player->core, &move))
        spotnik_tell_move(&player->teller, 0, &move);
    player->replay->events++;
    return true;
}

static bool play_action(struct player *player, const struct spotnik_record *record)
{
    enum spotnik_action_kind kind = (enum spotnik_action_kind)record->kind;
    struct spotnik_action action;

    if (record->kind >= SPOTNIK_ACTION_KINDS)
        return differ(player, "a record is damaged: there is no action %u", (unsigned)record->kind);
    if (!spotnik_core_poll(player->core, &action))
        return differ(player, "the core wanted \"%s\", and this one nothing",
                      spotnik_action_name(kind));
    const struct spotnik_member *peer = spotnik_action_peer(&action);
    if (action.kind != kind || spotnik_action_number(&action) != record->number
        || spotnik_action_bucket(&action) != record->bucket
        || !spotnik_id_equal(peer ? peer->id : (struct spotnik_id){ 0, 0 }, record->peer))
        return differ(player,
                      "the core wanted \"%s\" of step %" PRIu64
                      ", and this one \"%s\" of step %" PRIu64,
                      spotnik_action_name(kind), record->number, spotnik_action_name(action.kind),
                      spotnik_action_number(&action));
    if (!player->replay->quiet)
        spotnik_tell_action(&player->teller, 0, player->core, &action);
    player->replay->checked++;
    return true;
}

static bool play_placed(struct player *player, const struct spotnik_record *record)
{
    if (record->bytes < sizeof *record + sizeof(struct spotnik_chunk_header))
        return differ(player, "a record is damaged: it has no frame");
    const struct spotnik_chunk_header *header = (const struct spotnik_chunk_header *)(record + 1);
    return spotnik_core_place(player->core, record->peer, header).verdict
               == (enum spotnik_verdict)record->kind
           || differ(player, "a frame from %u is judged otherwise", name_of(player, record->peer));
}

static bool play(struct player *player, const struct spotnik_record *record)
{
    struct spotnik_transfer transfer;

    switch ((enum spotnik_record_what)record->what) {
    case SPOTNIK_RECORD_EVENT:
        return play_event(player, record);
    case SPOTNIK_RECORD_ACTION:
        return play_action(player, record);
    case SPOTNIK_RECORD_PLACED:
        return play_placed(player, record);
    case SPOTNIK_RECORD_SENT:
        return spotnik_core_send_next(player->core, record->peer, &transfer)
               || differ(player, "this core has nothing to send to %u",
                         name_of(player, record->peer));
    case SPOTNIK_RECORD_MINIMUM:
        spotnik_core_members_min_set(player->core, (uint32_t)record->number);
        return true;
    case SPOTNIK_RECORD_BAR:
        spotnik_core_bar(player->core, record->number != 0);
        return true;
    }
    return differ(player, "a record is of an unknown kind");
}

/* Where the next part begins; NULL: this one is damaged or went another way. */
static const unsigned char *play_part(struct player *player, const unsigned char *at)
{
    const unsigned char *end = player->dump->bytes + player->dump->size;
    struct spotnik_dump_part part;

    if ((size_t)(end - at) < sizeof part + player->dump->head.saved_bytes)
        return NULL;
    memcpy(&part, at, sizeof part);
    at += sizeof part;
    player->core = spotnik_core_load(player->core_memory, &player->limits, at);
    at += player->dump->head.saved_bytes;
    if (part.bytes > (size_t)(end - at))
        return NULL;
    player->replay->torn |= part.torn != 0;
    for (end = at + part.bytes; at < end;) {
        const struct spotnik_record *record = (const struct spotnik_record *)(const void *)at;
        if ((size_t)(end - at) < sizeof *record || record->bytes < sizeof *record
            || record->bytes > (size_t)(end - at) || record->bytes % 8)
            return NULL;
        if (!player->first_ns)
            player->first_ns = player->now_ns = record->now_ns;
        if (record->now_ns > player->now_ns)
            player->now_ns = record->now_ns;
        if (!play(player, record))
            return NULL;
        at += record->bytes;
    }
    return end;
}

static bool play_all(struct player *player)
{
    const unsigned char *at = player->dump->bytes + sizeof player->dump->head;

    for (uint32_t i = 0; i < player->dump->head.parts && i < SPOTNIK_DUMP_PARTS; i++) {
        if (i && !player->replay->quiet)
            fputs("[             ] the second half of the record begins with the core as it was "
                  "saved\n",
                  player->teller.out);
        at = play_part(player, at);
        if (!at && !player->replay->differs[0])
            snprintf(player->replay->differs, sizeof player->replay->differs,
                     "the file is damaged or cut off");
        if (!at)
            return false;
    }
    return true;
}

bool dump_replay(const struct dump *dump, struct replay *replay)
{
    struct player *player = calloc(1, sizeof *player);
    bool same = false;

    if (!player)
        return false;
    player->dump = dump;
    player->replay = replay;
    player->limits = dump->head.limits;
    player->limits.choice = dump->head.choice ? spotnik_choice_measured : NULL;
    player->core_memory =
        aligned_alloc(64, (spotnik_core_size(&player->limits) + 63) & ~(size_t)63);
    player->storage_memory =
        aligned_alloc(64, (spotnik_wire_storage_size(&player->limits) + 63) & ~(size_t)63);
    player->teller = (struct spotnik_teller){
        .out = replay->out, .data = replay->data, .number = name_of, .context = player
    };
    if (player->core_memory && player->storage_memory) {
        player->storage = spotnik_wire_storage_init(player->storage_memory, &player->limits);
        name_of(player, dump->head.self.id);
        same = play_all(player);
    }
    for (unsigned i = 0; !replay->quiet && i < player->names; i++)
        fprintf(replay->out, "%s%u is %016" PRIx64 "%016" PRIx64 "%s\n", i ? "" : "\n", i,
                player->name[i].high, player->name[i].low, i ? "" : ", whose record this is");
    free(player->core_memory);
    free(player->storage_memory);
    free(player);
    return same;
}
