/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian reader and writer over memory the caller owns. They decide where numbers lie in a
 * frame, never what they mean. The first access past the end sets `failed`, and it stays set: a
 * decoder reads all its fields, then asks once. After a failure a reader yields zeros and a writer
 * writes nothing, so no result depends on bytes that are not there. Pure: no allocation, no system
 * call, no assumption about alignment. */
#ifndef SPOTNIK_BASE_BYTES_H
#define SPOTNIK_BASE_BYTES_H

#include "base/id.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Invariant: at <= size. */
struct spotnik_reader {
    const uint8_t *data;
    size_t size, at;
    bool failed;
};

struct spotnik_writer {
    uint8_t *data;
    size_t size, at;
    bool failed;
};

/* `data` is borrowed; it may be NULL when `size` is 0. */
void spotnik_reader_init(struct spotnik_reader *reader, const void *data, size_t size);

uint8_t spotnik_reader_u8(struct spotnik_reader *reader);
uint16_t spotnik_reader_u16(struct spotnik_reader *reader);
uint32_t spotnik_reader_u32(struct spotnik_reader *reader);
uint64_t spotnik_reader_u64(struct spotnik_reader *reader);
struct spotnik_id spotnik_reader_id(struct spotnik_reader *reader);

/* Copy `size` bytes to `out`; zeros after a failure. */
void spotnik_reader_bytes(struct spotnik_reader *reader, void *out, size_t size);

/* Pass over `size` bytes and return where they begin, NULL after a failure. */
const uint8_t *spotnik_reader_skip(struct spotnik_reader *reader, size_t size);

static inline size_t spotnik_reader_left(const struct spotnik_reader *reader)
{
    return reader->size - reader->at;
}

/* True when everything asked for was there and nothing is left over. */
static inline bool spotnik_reader_is_done(const struct spotnik_reader *reader)
{
    return !reader->failed && reader->at == reader->size;
}

void spotnik_writer_init(struct spotnik_writer *writer, void *data, size_t size);

void spotnik_writer_u8(struct spotnik_writer *writer, uint8_t value);
void spotnik_writer_u16(struct spotnik_writer *writer, uint16_t value);
void spotnik_writer_u32(struct spotnik_writer *writer, uint32_t value);
void spotnik_writer_u64(struct spotnik_writer *writer, uint64_t value);
void spotnik_writer_id(struct spotnik_writer *writer, struct spotnik_id value);
void spotnik_writer_bytes(struct spotnik_writer *writer, const void *bytes, size_t size);

/* Leave `size` zero bytes and return where they begin, NULL after a failure: for lengths known only
 * later. */
uint8_t *spotnik_writer_skip(struct spotnik_writer *writer, size_t size);

#endif
