/* SPDX-License-Identifier: Apache-2.0 */
#include "queue.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/assert.h"

struct record {
    uint8_t from, to, kind, is_control;
    uint32_t size;
};

struct frame {
    struct spotnik_chunk_header header;
    uint64_t value;
};

static size_t whole(const struct record *record)
{
    return sizeof *record + ((record->size + 7u) & ~7u);
}

static struct record *record_at(uint32_t at)
{
    return (struct record *)(void *)(world.wire + at);
}

/* Offset of the first record of this kind from `at` on; wire_used: none. */
static uint32_t next(uint32_t from, uint32_t to, bool control, uint32_t at)
{
    for (; at < world.wire_used; at += (uint32_t)whole(record_at(at))) {
        struct record *record = record_at(at);
        if (record->from == from && record->to == to && record->is_control == control)
            break;
    }
    return at;
}

unsigned char *queue_put(uint32_t from, uint32_t to, enum item_kind kind, size_t size)
{
    struct record record = { (uint8_t)from, (uint8_t)to, (uint8_t)kind, kind != ITEM_FRAME,
                             (uint32_t)size };
    unsigned char *at = world.wire + world.wire_used;

    SPOTNIK_ASSERT(world.wire_used + whole(&record) <= WIRE_BYTES);
    memset(at, 0, whole(&record));
    memcpy(at, &record, sizeof record);
    world.wire_used += (uint32_t)whole(&record);
    return at + sizeof record;
}

void queue_end(uint32_t from, uint32_t to, enum spotnik_proof proof)
{
    *queue_put(from, to, ITEM_END, 1) = (unsigned char)proof;
}

/* Field by field: bytes between fields are to be zero. */
void queue_frame(uint32_t from, uint32_t to, const struct spotnik_chunk_header *header,
                 uint64_t value)
{
    struct frame *frame = (struct frame *)(void *)queue_put(from, to, ITEM_FRAME, sizeof *frame);

    frame->header.handover = header->handover;
    frame->header.dtype = header->dtype;
    frame->header.op = header->op;
    frame->header.sharing = header->sharing;
    frame->header.schedule = header->schedule;
    frame->header.bucket = header->bucket;
    frame->header.epoch = header->epoch;
    frame->header.step = header->step;
    frame->header.sequence = header->sequence;
    frame->header.count = header->count;
    frame->header.weight = header->weight;
    frame->value = value;
}

bool queue_has(uint32_t from, uint32_t to, bool control)
{
    return next(from, to, control, 0) < world.wire_used;
}

static void cut_out(uint32_t at)
{
    uint32_t size = (uint32_t)whole(record_at(at));

    memmove(world.wire + at, world.wire + at + size, world.wire_used - at - size);
    world.wire_used -= size;
}

enum item_kind queue_take(uint32_t from, uint32_t to, bool control, unsigned char *ret_bytes,
                          size_t *ret_size)
{
    uint32_t at = next(from, to, control, 0);

    SPOTNIK_ASSERT(at < world.wire_used);
    enum item_kind kind = record_at(at)->kind;
    *ret_size = record_at(at)->size;
    memcpy(ret_bytes, record_at(at) + 1, *ret_size);
    cut_out(at);
    return kind;
}

bool queue_frame_next(uint32_t from, uint32_t to, struct spotnik_chunk_header *ret_header,
                      uint64_t *ret_value)
{
    uint32_t at = next(from, to, false, 0);

    if (at >= world.wire_used)
        return false;
    const struct frame *frame = (const void *)(record_at(at) + 1);
    *ret_header = frame->header;
    *ret_value = frame->value;
    return true;
}

void queue_frame_drop(uint32_t from, uint32_t to)
{
    cut_out(next(from, to, false, 0));
}

void queue_clear(uint32_t from, uint32_t to)
{
    for (int control = 0; control < 2; control++)
        for (uint32_t at; (at = next(from, to, control, 0)) < world.wire_used;)
            cut_out(at);
}

uint64_t queue_hash(void)
{
    uint64_t hash = world.wire_used;

    for (uint32_t pair = 0; pair < 2 * NODES * NODES; pair++) {
        uint32_t from = pair / 2 / NODES, to = pair / 2 % NODES;
        for (uint32_t at = next(from, to, pair & 1, 0); at < world.wire_used;
             at = next(from, to, pair & 1, at + (uint32_t)whole(record_at(at))))
            hash = XXH3_64bits_withSeed(record_at(at), whole(record_at(at)), hash);
    }
    return hash;
}
