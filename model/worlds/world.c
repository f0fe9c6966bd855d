/* SPDX-License-Identifier: Apache-2.0 */
/* The moves of a small world, and its state as a value; see world.h. */
#include "world.h"

#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"
#include "base/time.h"
#include "member.h"
#include "queue.h"
#include "wire/control.h"

#define HEARTBEAT_NS (1000 * SPOTNIK_S)

struct world world;
struct bounds bounds;
struct spotnik_core *world_core_of[NODES];
size_t world_core_bytes;
bool world_tells;

static struct spotnik_limits limits;
static struct spotnik_wire_storage *storage;
static unsigned char *scratch; /* one core, saved */
static bool assembles;

struct spotnik_core *world_core(uint32_t node)
{
    return world_core_of[node];
}

struct spotnik_core_status world_status(uint32_t node)
{
    struct spotnik_core_status status;
    spotnik_core_status(world_core_of[node], &status);
    return status;
}

struct spotnik_member world_member(uint32_t node)
{
    return (struct spotnik_member){ .id = { 0, node + 1 }, .port = (uint16_t)(1000 + node) };
}

uint32_t world_index(struct spotnik_id id)
{
    for (uint32_t i = 0; i < bounds.members; i++)
        if (spotnik_id_equal(world_member(i).id, id))
            return i;
    return NODES;
}

void world_tell(bool told)
{
    world_tells = told;
}

void world_tidy(uint32_t index)
{
    if (!world.node[index].alive)
        return;
    SPOTNIK_ASSERT(spotnik_core_save(world_core_of[index], scratch));
    world_core_of[index] = spotnik_core_load(world_core_of[index], &limits, scratch);
}

/* ---- moves ---- */

static void take_message(uint32_t from, uint32_t to)
{
    static unsigned char bytes[WIRE_BYTES];
    struct spotnik_message message;
    size_t size;
    enum item_kind kind = queue_take(from, to, true, bytes, &size);

    if (kind == ITEM_MESSAGE) {
        SPOTNIK_ASSERT(spotnik_control_decode(bytes, size, storage, &message) == 0);
        member_hears(to, (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                                 .message = { world_member(from), &message } });
        return;
    }
    world.node[to].linked[from] = false;
    member_hears(to, (struct spotnik_event){
                         .kind = SPOTNIK_EVENT_LINK_DOWN,
                         .ended = { world_member(from), (enum spotnik_proof)bytes[0] } });
}

static void combine(struct node *node, const struct spotnik_chunk_header *header,
                    struct spotnik_placement at, uint64_t value)
{
    if (header->bucket != 0 || at.count == 0)
        return;
    if (at.kind != SPOTNIK_RING_COPY && at.weight)
        value = (header->weight ? value : 0) + at.weight * node->in;
    node->out[header->step & 1] = value;
}

/* False: it stays where it is. */
static bool take_frame(uint32_t from, uint32_t to)
{
    struct spotnik_chunk_header header;
    uint64_t value;

    if (!queue_frame_next(from, to, &header, &value))
        return false;
    struct spotnik_placement at =
        spotnik_core_place(world_core_of[to], world_member(from).id, &header);
    if (at.verdict == SPOTNIK_VERDICT_WAIT)
        return false;
    queue_frame_drop(from, to);
    if (at.verdict == SPOTNIK_VERDICT_TAKE)
        combine(&world.node[to], &header, at, value);
    if (member_polled(to) && at.verdict == SPOTNIK_VERDICT_TAKE)
        member_hears(to, (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHUNK_DONE,
                                                 .chunk = { world_member(from), header } });
    return true;
}

static void link_up(uint32_t a, uint32_t b)
{
    world.up[a][b] = world.node[a].linked[b] = true;
    member_hears(a,
                 (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP, .peer = world_member(b) });
}

static void answer(uint32_t a, uint32_t b)
{
    world.node[a].dialling[b] = false;
    if (!world.node[b].alive || world.cut[a][b]) {
        enum spotnik_proof proof = world.cut[a][b] ? SPOTNIK_PROOF_NONE : SPOTNIK_PROOF_GONE;
        member_hears(a, (struct spotnik_event){ .kind = SPOTNIK_EVENT_DIAL_FAILED,
                                                .ended = { world_member(b), proof } });
        return;
    }
    world.node[b].dialling[a] = false;
    world.up[a][b] = world.up[b][a] = true;
    link_up(a, b);
    if (!world.node[a].alive)
        return;
    uint32_t dies = world.dies_at;
    world.dies_at = 0; /* of a */
    link_up(b, a);
    member_goes_on(b);
    world.dies_at = dies;
}

static void break_link(uint32_t a, uint32_t b)
{
    world.breaks--;
    queue_clear(a, b);
    queue_clear(b, a);
    world.up[a][b] = world.up[b][a] = false;
    world.cut[a][b] = world.cut[b][a] = bounds.for_good;
    queue_end(a, b, bounds.in_order ? SPOTNIK_PROOF_END : SPOTNIK_PROOF_NONE);
    queue_end(b, a, bounds.in_order ? SPOTNIK_PROOF_END : SPOTNIK_PROOF_NONE);
}

static uint64_t deadline(void)
{
    uint64_t next_ns = SPOTNIK_NEVER;

    for (uint32_t i = 0; i < bounds.members; i++)
        if (world.node[i].alive)
            next_ns = spotnik_time_min(next_ns, spotnik_core_deadline(world_core_of[i]));
    return next_ns;
}

/* Until the next heartbeat nothing is due but what a recovery, a leave or a retry waits for. */
static bool may_tick(void)
{
    uint64_t rest_ns = spotnik_time_since(deadline(), world.now_ns);
    return world.ticks > 0 && (assembles || rest_ns < HEARTBEAT_NS / 2);
}

static void tick(void)
{
    uint64_t next_ns = deadline();

    world.ticks--;
    world.now_ns = next_ns > world.now_ns ? next_ns : world.now_ns;
    for (uint32_t i = 0; i < bounds.members; i++)
        if (world.node[i].alive && spotnik_core_deadline(world_core_of[i]) <= world.now_ns) {
            member_hears(i, (struct spotnik_event){ .kind = SPOTNIK_EVENT_TICK });
            member_goes_on(i);
        }
}

void world_move(const struct move *move)
{
    uint32_t mover = move->kind == MOVE_MESSAGE || move->kind == MOVE_FRAME ? move->b : move->a;

    world.actions = 0;
    world.dies_at = move->dies_at;
    world.deaths -= move->dies_at != 0;
    switch ((enum move_kind)move->kind) {
    case MOVE_MESSAGE:
        take_message(move->a, move->b);
        break;
    case MOVE_FRAME:
        take_frame(move->a, move->b);
        break;
    case MOVE_ANSWER:
        answer(move->a, move->b);
        break;
    case MOVE_KILL:
        world.deaths--;
        member_die(move->a);
        break;
    case MOVE_BREAK:
        break_link(move->a, move->b);
        break;
    case MOVE_LEAVE:
        world.leaves--;
        world.node[move->a].asked_to_leave = true;
        member_hears(move->a, (struct spotnik_event){ .kind = SPOTNIK_EVENT_LEAVE });
        break;
    case MOVE_TICK:
        tick();
        break;
    }
    if (move->kind != MOVE_TICK && move->kind != MOVE_BREAK && world.node[mover].alive)
        member_goes_on(mover);
    world.dies_at = 0;
}

/* A frame that its receiver does not want yet is no move. */
static bool takes_frame(uint32_t from, uint32_t to)
{
    struct spotnik_chunk_header header;
    uint64_t value;

    return queue_frame_next(from, to, &header, &value)
           && spotnik_core_place(world_core_of[to], world_member(from).id, &header).verdict
                  != SPOTNIK_VERDICT_WAIT;
}

uint32_t world_moves(struct move *move, uint32_t max)
{
    uint32_t count = 0;
#define MAY(...)                                                                                   \
    do {                                                                                           \
        SPOTNIK_ASSERT(count < max);                                                               \
        move[count++] = (struct move){ __VA_ARGS__ };                                              \
    } while (0)
    for (uint8_t a = 0; a < bounds.members; a++)
        for (uint8_t b = 0; b < bounds.members; b++) {
            if (a == b)
                continue;
            if (world.node[b].alive && queue_has(a, b, true))
                MAY(MOVE_MESSAGE, a, b, 0);
            if (world.node[b].alive && takes_frame(a, b))
                MAY(MOVE_FRAME, a, b, 0);
            /* the old link is read to its end first */
            if (world.node[a].alive && world.node[a].dialling[b] && !queue_has(b, a, true)
                && !queue_has(a, b, true))
                MAY(MOVE_ANSWER, a, b, 0);
            if (a < b && world.breaks && world.up[a][b])
                MAY(MOVE_BREAK, a, b, 0);
        }
    uint32_t quiet = count;
    for (uint8_t a = 0; a < bounds.members; a++) {
        if (world.deaths && world.node[a].alive)
            MAY(MOVE_KILL, a, a, 0);
        if (world.leaves && world.node[a].alive && !world.node[a].asked_to_leave
            && !world.node[a].excluded)
            MAY(MOVE_LEAVE, a, a, 0);
    }
    if (quiet == 0 && may_tick())
        MAY(MOVE_TICK, 0, 0, 0);
#undef MAY
    return count;
}

/* ---- the state as a value ---- */

size_t world_bytes_max(void)
{
    return sizeof world + NODES * world_core_bytes;
}

size_t world_bytes(void)
{
    return offsetof(struct world, wire) + world.wire_used + bounds.members * world_core_bytes;
}

void world_keep(unsigned char *bytes)
{
    size_t head = offsetof(struct world, wire) + world.wire_used;

    memcpy(bytes, &world, head);
    for (uint32_t i = 0; i < bounds.members; i++)
        memcpy(bytes + head + i * world_core_bytes, world_core_of[i], world_core_bytes);
}

void world_restore(const unsigned char *bytes)
{
    memcpy(&world, bytes, offsetof(struct world, wire));
    size_t head = offsetof(struct world, wire) + world.wire_used;

    memcpy(world.wire, bytes + offsetof(struct world, wire), world.wire_used);
    for (uint32_t i = 0; i < bounds.members; i++)
        memcpy(world_core_of[i], bytes + head + i * world_core_bytes, world_core_bytes);
}

uint64_t world_hash(void)
{
    uint64_t hash = queue_hash();

    world.actions = 0;
    hash = XXH3_64bits_withSeed(&world, offsetof(struct world, wire_used), hash);
    for (uint32_t i = 0; i < bounds.members; i++)
        hash = XXH3_64bits_withSeed(world_core_of[i], world_core_bytes, hash);
    return hash;
}

/* ---- the beginning ---- */

static void limits_make(void)
{
    spotnik_limits_init(&limits, bounds.members);
    limits.choice = NULL;
    limits.chunk_bytes = 8;
    if (bounds.tree)
        limits.tree_members = limits.brief_members = 1;
    /* silence is not by time here, but by links that break */
    limits.heartbeat_ns = HEARTBEAT_NS;
    limits.silence_floor_ns = limits.silence_ceiling_ns = 1000 * HEARTBEAT_NS;
}

static bool together(uint32_t members)
{
    for (uint32_t i = 0; i < members; i++)
        if (world_status(i).size != members)
            return false;
    return true;
}

/* Until these stand in one view and nothing is on its way. */
static void settle(uint32_t members)
{
    struct move move[64];

    for (uint32_t count; (count = world_moves(move, 64)) > 0;) {
        if (move[0].kind == MOVE_TICK && together(members))
            return;
        world_move(&move[0]);
    }
}

static void nodes_make(void)
{
    world_core_bytes = (spotnik_core_saved_size(&limits) + 15) & ~(size_t)15;
    size_t whole = (spotnik_core_size(&limits) + 15) & ~(size_t)15;
    scratch = malloc(world_core_bytes);
    storage = spotnik_wire_storage_init(aligned_alloc(16, (spotnik_wire_storage_size(&limits) + 15)
                                                              & ~(size_t)15),
                                        &limits);
    for (uint32_t i = 0; i < bounds.members; i++) {
        struct spotnik_member self = world_member(i);
        world.node[i].alive = true;
        void *memory = aligned_alloc(16, whole);
        SPOTNIK_ASSERT(memory && scratch && storage);
        memset(memory, 0, whole);
        world_core_of[i] = spotnik_core_init(memory, &limits, &self, 1, 0, 0);
    }
}

void world_make(const struct bounds *wanted)
{
    struct spotnik_founding founding = { .id = 2, .root = 2, .founded_at_ms = 1 };

    bounds = *wanted;
    bounds.steps = 0; /* not yet */
    memset(&world, 0, sizeof world);
    world.now_ns = SPOTNIK_S;
    world.ticks = 64;
    assembles = true;
    limits_make();
    nodes_make();
    member_hears(0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_FOUND,
                                            .found.founding = &founding });
    for (uint32_t i = 1; i < bounds.members; i++) {
        member_hears(i, (struct spotnik_event){ .kind = SPOTNIK_EVENT_JOIN });
        member_hears(i, (struct spotnik_event){ .kind = SPOTNIK_EVENT_ENTER_READY,
                                                .peer = world_member(0) });
        settle(i + 1);
    }
    assembles = false;
    bounds = *wanted;
    for (uint32_t i = 0; i < bounds.members; i++) {
        SPOTNIK_ASSERT(world_status(i).size == bounds.members);
        SPOTNIK_ASSERT(spotnik_core_plant(world_core_of[i], bounds.bugs) || bounds.bugs == 0);
    }
    world.ticks = bounds.ticks;
    world.deaths = bounds.deaths;
    world.breaks = bounds.breaks;
    world.leaves = bounds.leaves;
    for (uint32_t i = 0; i < bounds.members; i++)
        member_goes_on(i);
}

void world_free(void)
{
    for (uint32_t i = 0; i < bounds.members; i++)
        free(world_core_of[i]);
    free(storage);
    free(scratch);
}
