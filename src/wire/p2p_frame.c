/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of exchange connections; layout in docs/reference/wire-format.md. */
#include "wire/p2p_frame.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/dtype.h"
#include "spotnik/spotnik.h"

static size_t name_bytes(const char *name)
{
    size_t size = 0;

    while (size <= SPOTNIK_P2P_NAME_MAX && name[size] != 0)
        size++;
    return size;
}

bool spotnik_p2p_has_payload(uint8_t kind)
{
    return kind == SPOTNIK_P2P_SNAPSHOT || kind == SPOTNIK_P2P_PUSH || kind == SPOTNIK_P2P_PASS
           || kind == SPOTNIK_P2P_SHARD || kind == SPOTNIK_P2P_BLOCK;
}

bool spotnik_p2p_is_name(const char *name)
{
    size_t size = name_bytes(name);

    for (size_t i = 0; i < size; i++)
        if ((uint8_t)name[i] < ' ')
            return false;
    return size >= 1 && size <= SPOTNIK_P2P_NAME_MAX;
}

void spotnik_p2p_encode(const struct spotnik_p2p_head *head,
                        uint8_t ret_bytes[SPOTNIK_P2P_HEAD_BYTES])
{
    char name[SPOTNIK_P2P_NAME_MAX + 1] = { 0 };
    struct spotnik_writer writer;

    memcpy(name, head->name, name_bytes(head->name));
    spotnik_writer_init(&writer, ret_bytes, SPOTNIK_P2P_HEAD_BYTES);
    spotnik_writer_u8(&writer, head->kind);
    spotnik_writer_u8(&writer, head->dtype);
    spotnik_writer_u16(&writer, 0);
    spotnik_writer_u32(&writer, 0);
    spotnik_writer_u64(&writer, head->epoch);
    spotnik_writer_u64(&writer, head->version);
    spotnik_writer_u64(&writer, head->sequence);
    spotnik_writer_u64(&writer, head->offset);
    spotnik_writer_u64(&writer, head->bytes);
    spotnik_writer_id(&writer, head->owner);
    spotnik_writer_bytes(&writer, name, sizeof name);
    SPOTNIK_ASSERT(!writer.failed && writer.at == SPOTNIK_P2P_HEAD_BYTES);
}

/* Empty, or a name; zeros after its end. */
static bool is_field(const char name[SPOTNIK_P2P_NAME_MAX + 1])
{
    size_t size = name_bytes(name);

    for (size_t i = size; i <= SPOTNIK_P2P_NAME_MAX; i++)
        if (name[i] != 0)
            return false;
    return size == 0 || spotnik_p2p_is_name(name);
}

static bool speaks_of_data(uint8_t kind)
{
    switch (kind) {
    case SPOTNIK_P2P_PULL:
    case SPOTNIK_P2P_SNAPSHOT:
    case SPOTNIK_P2P_PUSH:
    case SPOTNIK_P2P_PASS:
    case SPOTNIK_P2P_FETCH:
    case SPOTNIK_P2P_SHARD:
    case SPOTNIK_P2P_HAVE:
    case SPOTNIK_P2P_TAKE:
    case SPOTNIK_P2P_BLOCK:
    case SPOTNIK_P2P_AWAIT:
    case SPOTNIK_P2P_SHARE:
        return true;
    default:
        return false;
    }
}

static bool is_possible(const struct spotnik_p2p_head *head)
{
    uint32_t one = spotnik_dtype_bytes(head->dtype);

    if (head->kind == 0 || head->kind >= SPOTNIK_P2P_KIND_COUNT || !is_field(head->name)
        || head->bytes > SPOTNIK_P2P_BYTES_MAX || head->offset > SPOTNIK_P2P_BYTES_MAX)
        return false;
    if (!speaks_of_data(head->kind))
        return head->dtype == 0 && head->bytes == 0 && head->offset == 0;
    return one != 0 && head->bytes % one == 0 && head->offset % one == 0 && head->name[0] != 0;
}

int spotnik_p2p_decode(const uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES],
                       struct spotnik_p2p_head *ret_head)
{
    struct spotnik_p2p_head head;
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, bytes, SPOTNIK_P2P_HEAD_BYTES);
    head.kind = spotnik_reader_u8(&reader);
    head.dtype = spotnik_reader_u8(&reader);
    uint16_t zero = spotnik_reader_u16(&reader);
    uint32_t zeros = spotnik_reader_u32(&reader);
    head.epoch = spotnik_reader_u64(&reader);
    head.version = spotnik_reader_u64(&reader);
    head.sequence = spotnik_reader_u64(&reader);
    head.offset = spotnik_reader_u64(&reader);
    head.bytes = spotnik_reader_u64(&reader);
    head.owner = spotnik_reader_id(&reader);
    spotnik_reader_bytes(&reader, head.name, sizeof head.name);
    if (!spotnik_reader_is_done(&reader) || zero != 0 || zeros != 0 || !is_possible(&head))
        return SPOTNIK_ERR_ARGUMENT;
    *ret_head = head;
    return SPOTNIK_OK;
}
