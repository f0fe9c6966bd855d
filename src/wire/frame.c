/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope; layout and rules are in frame.h. */
#include "wire/frame.h"

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/control.h"
#include "wire/data.h"

#define MAGIC 'S'
#define TURN_BYTES 8

uint32_t spotnik_frame_payload_max(enum spotnik_frame_kind kind,
                                   const struct spotnik_limits *limits)
{
    switch (kind) {
    case SPOTNIK_FRAME_CONTROL:
        return spotnik_control_bytes_max(limits);
    case SPOTNIK_FRAME_GOODBYE:
        return SPOTNIK_GOODBYE_BYTES;
    case SPOTNIK_FRAME_DATA:
        return SPOTNIK_DATA_HEAD_BYTES + limits->chunk_bytes;
    case SPOTNIK_FRAME_PLACES:
        return SPOTNIK_PLACES_BYTES;
    case SPOTNIK_FRAME_KIND_COUNT:
        break;
    }
    return 0;
}

/* The least payload of a frame; the decoder of control messages checks theirs. */
static uint32_t payload_min(enum spotnik_frame_kind kind)
{
    if (kind == SPOTNIK_FRAME_DATA)
        return SPOTNIK_DATA_HEAD_BYTES;
    if (kind == SPOTNIK_FRAME_PLACES)
        return SPOTNIK_PLACES_BYTES;
    return kind == SPOTNIK_FRAME_GOODBYE ? SPOTNIK_GOODBYE_BYTES : 0;
}

static void head_write(const struct spotnik_frame *frame, struct spotnik_writer *writer)
{
    spotnik_writer_u8(writer, MAGIC);
    spotnik_writer_u8(writer, SPOTNIK_WIRE_VERSION);
    spotnik_writer_u8(writer, (uint8_t)frame->kind);
    spotnik_writer_u8(writer, 0);
    spotnik_writer_u32(writer, frame->payload_bytes);
}

void spotnik_frame_encode(const struct spotnik_frame *frame, uint8_t ret_bytes[SPOTNIK_FRAME_BYTES])
{
    struct spotnik_writer writer;

    SPOTNIK_ASSERT(frame->kind >= SPOTNIK_FRAME_CONTROL && frame->kind < SPOTNIK_FRAME_KIND_COUNT);
    spotnik_writer_init(&writer, ret_bytes, SPOTNIK_FRAME_BYTES);
    head_write(frame, &writer);
    if (spotnik_frame_is_tagged(frame->kind))
        spotnik_writer_bytes(&writer, frame->tag, SPOTNIK_FRAME_TAG_BYTES);
    else {
        spotnik_writer_u64(&writer, frame->turn);
        spotnik_writer_skip(&writer, SPOTNIK_FRAME_TAG_BYTES - TURN_BYTES);
    }
}

static bool is_zero(const uint8_t *bytes, uint32_t size)
{
    uint8_t any = 0;

    for (uint32_t i = 0; i < size; i++)
        any |= bytes[i];
    return any == 0;
}

int spotnik_frame_decode(const uint8_t bytes[SPOTNIK_FRAME_BYTES],
                         const struct spotnik_limits *limits, struct spotnik_frame *ret_frame)
{
    struct spotnik_frame frame = { .turn = 0 };
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, bytes, SPOTNIK_FRAME_BYTES);
    if (spotnik_reader_u8(&reader) != MAGIC)
        return SPOTNIK_ERR_ARGUMENT;
    if (spotnik_reader_u8(&reader) != SPOTNIK_WIRE_VERSION)
        return SPOTNIK_ERR_VERSION;
    uint8_t kind = spotnik_reader_u8(&reader);
    uint8_t flags = spotnik_reader_u8(&reader);
    if (kind == 0 || kind >= SPOTNIK_FRAME_KIND_COUNT || flags != 0)
        return SPOTNIK_ERR_ARGUMENT;
    frame.kind = (enum spotnik_frame_kind)kind;
    frame.payload_bytes = spotnik_reader_u32(&reader);
    if (frame.payload_bytes > spotnik_frame_payload_max(frame.kind, limits))
        return SPOTNIK_ERR_LIMIT;
    if (frame.payload_bytes < payload_min(frame.kind))
        return SPOTNIK_ERR_ARGUMENT;
    if (spotnik_frame_is_tagged(frame.kind)) {
        spotnik_reader_bytes(&reader, frame.tag, SPOTNIK_FRAME_TAG_BYTES);
    } else {
        frame.turn = spotnik_reader_u64(&reader);
        if (!is_zero(bytes + SPOTNIK_FRAME_BYTES - SPOTNIK_FRAME_TAG_BYTES + TURN_BYTES,
                     SPOTNIK_FRAME_TAG_BYTES - TURN_BYTES))
            return SPOTNIK_ERR_ARGUMENT;
    }
    *ret_frame = frame;
    return SPOTNIK_OK;
}

void spotnik_frame_tag_input(const struct spotnik_frame *frame, uint64_t sequence,
                             uint8_t ret_input[SPOTNIK_FRAME_TAG_INPUT_BYTES])
{
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, ret_input, SPOTNIK_FRAME_TAG_INPUT_BYTES);
    spotnik_writer_u64(&writer, sequence);
    head_write(frame, &writer);
}

void spotnik_goodbye_encode(enum spotnik_goodbye reason, uint8_t ret_payload[SPOTNIK_GOODBYE_BYTES])
{
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, ret_payload, SPOTNIK_GOODBYE_BYTES);
    spotnik_writer_u64(&writer, (uint64_t)reason);
}

int spotnik_goodbye_decode(const uint8_t payload[SPOTNIK_GOODBYE_BYTES],
                           enum spotnik_goodbye *ret_reason)
{
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, payload, SPOTNIK_GOODBYE_BYTES);
    uint64_t reason = spotnik_reader_u64(&reader);
    if (reason == 0 || reason >= SPOTNIK_GOODBYE_COUNT)
        return SPOTNIK_ERR_ARGUMENT;
    *ret_reason = (enum spotnik_goodbye)reason;
    return SPOTNIK_OK;
}

void spotnik_places_encode(const struct spotnik_places *places,
                           uint8_t ret_payload[SPOTNIK_PLACES_BYTES])
{
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, ret_payload, SPOTNIK_PLACES_BYTES);
    spotnik_writer_bytes(&writer, places->local, sizeof places->local);
    spotnik_writer_bytes(&writer, places->remote, sizeof places->remote);
    spotnik_writer_u16(&writer, places->local_port);
    spotnik_writer_u16(&writer, places->remote_port);
}

void spotnik_places_decode(const uint8_t payload[SPOTNIK_PLACES_BYTES],
                           struct spotnik_places *ret_places)
{
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, payload, SPOTNIK_PLACES_BYTES);
    spotnik_reader_bytes(&reader, ret_places->local, sizeof ret_places->local);
    spotnik_reader_bytes(&reader, ret_places->remote, sizeof ret_places->remote);
    ret_places->local_port = spotnik_reader_u16(&reader);
    ret_places->remote_port = spotnik_reader_u16(&reader);
}

bool spotnik_wire_equal(const uint8_t *a, const uint8_t *b, uint32_t size)
{
    volatile uint8_t differs = 0;

    for (uint32_t i = 0; i < size; i++)
        differs = (uint8_t)(differs | (a[i] ^ b[i]));
    return differs == 0;
}
