/* SPDX-License-Identifier: Apache-2.0 */
/* See bytes.h. One bounds check per direction (`take`), through which every access goes; compilers
 * turn the byte loops into single loads and stores on little-endian machines. */
#include "base/bytes.h"

#include <string.h>

static const uint8_t *take(struct spotnik_reader *reader, size_t size)
{
    if (reader->failed || size > reader->size - reader->at) {
        reader->failed = true;
        return NULL;
    }
    const uint8_t *at = reader->data + reader->at;
    reader->at += size;
    return at;
}

static uint64_t get(struct spotnik_reader *reader, size_t size)
{
    const uint8_t *at = take(reader, size);
    uint64_t value = 0;

    for (size_t i = 0; at && i < size; i++)
        value |= (uint64_t)at[i] << (8 * i);
    return value;
}

void spotnik_reader_init(struct spotnik_reader *reader, const void *data, size_t size)
{
    *reader = (struct spotnik_reader){ .data = data, .size = size };
}

uint8_t spotnik_reader_u8(struct spotnik_reader *reader)
{
    return (uint8_t)get(reader, 1);
}

uint16_t spotnik_reader_u16(struct spotnik_reader *reader)
{
    return (uint16_t)get(reader, 2);
}

uint32_t spotnik_reader_u32(struct spotnik_reader *reader)
{
    return (uint32_t)get(reader, 4);
}

uint64_t spotnik_reader_u64(struct spotnik_reader *reader)
{
    return get(reader, 8);
}

struct spotnik_id spotnik_reader_id(struct spotnik_reader *reader)
{
    uint64_t high = get(reader, 8);
    uint64_t low = get(reader, 8);

    /* Half an id is no id. */
    return reader->failed ? (struct spotnik_id){ 0 }
                          : (struct spotnik_id){ .high = high, .low = low };
}

void spotnik_reader_bytes(struct spotnik_reader *reader, void *out, size_t size)
{
    const uint8_t *at = take(reader, size);

    if (size == 0)
        return;
    if (at)
        memcpy(out, at, size);
    else
        memset(out, 0, size);
}

const uint8_t *spotnik_reader_skip(struct spotnik_reader *reader, size_t size)
{
    return take(reader, size);
}

void spotnik_writer_init(struct spotnik_writer *writer, void *data, size_t size)
{
    *writer = (struct spotnik_writer){ .data = data, .size = size };
}

static uint8_t *make_room(struct spotnik_writer *writer, size_t size)
{
    if (writer->failed || size > writer->size - writer->at) {
        writer->failed = true;
        return NULL;
    }
    uint8_t *at = writer->data + writer->at;
    writer->at += size;
    return at;
}

static void put(struct spotnik_writer *writer, uint64_t value, size_t size)
{
    uint8_t *at = make_room(writer, size);

    for (size_t i = 0; at && i < size; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

void spotnik_writer_u8(struct spotnik_writer *writer, uint8_t value)
{
    put(writer, value, 1);
}

void spotnik_writer_u16(struct spotnik_writer *writer, uint16_t value)
{
    put(writer, value, 2);
}

void spotnik_writer_u32(struct spotnik_writer *writer, uint32_t value)
{
    put(writer, value, 4);
}

void spotnik_writer_u64(struct spotnik_writer *writer, uint64_t value)
{
    put(writer, value, 8);
}

void spotnik_writer_id(struct spotnik_writer *writer, struct spotnik_id value)
{
    put(writer, value.high, 8);
    put(writer, value.low, 8);
}

void spotnik_writer_bytes(struct spotnik_writer *writer, const void *bytes, size_t size)
{
    uint8_t *at = make_room(writer, size);

    if (at && size > 0)
        memcpy(at, bytes, size);
}

uint8_t *spotnik_writer_skip(struct spotnik_writer *writer, size_t size)
{
    uint8_t *at = make_room(writer, size);

    if (at && size > 0)
        memset(at, 0, size);
    return at;
}
