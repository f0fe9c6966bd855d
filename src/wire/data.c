/* SPDX-License-Identifier: Apache-2.0 */
/* Headers of chunks; layout in docs/reference/wire-format.md. */
#include "wire/data.h"

#include <string.h>

#include "base/bytes.h"
#include "base/dtype.h"

void spotnik_chunk_encode(const struct spotnik_chunk_header *header,
                          uint8_t ret_bytes[SPOTNIK_CHUNK_BYTES])
{
    struct spotnik_writer writer;

    spotnik_writer_init(&writer, ret_bytes, SPOTNIK_CHUNK_BYTES);
    spotnik_writer_u8(&writer, header->handover);
    spotnik_writer_u8(&writer, header->dtype);
    spotnik_writer_u8(&writer, header->op);
    spotnik_writer_u8(&writer, (uint8_t)(header->sharing | header->schedule << 1));
    spotnik_writer_u32(&writer, header->bucket);
    spotnik_writer_u64(&writer, header->epoch);
    spotnik_writer_u64(&writer, header->step);
    spotnik_writer_u64(&writer, header->sequence);
    spotnik_writer_u64(&writer, header->count);
    spotnik_writer_u64(&writer, header->weight);
}

/* Buckets of more than 2^55 elements exist nowhere; up to that, count * element size (256 at most)
 * cannot overflow. */
static bool is_possible(const struct spotnik_chunk_header *header)
{
    return header->handover <= 1 && header->schedule <= SPOTNIK_SCHEDULE_TREE
           && spotnik_dtype_bytes(header->dtype) > 0 && spotnik_op_is_known(header->op)
           && header->bucket < SPOTNIK_BUCKETS_MAX && header->step > 0
           && header->count <= UINT64_C(1) << 55 && (header->handover || header->epoch > 0);
}

int spotnik_chunk_decode(const uint8_t bytes[SPOTNIK_CHUNK_BYTES],
                         struct spotnik_chunk_header *ret_header)
{
    struct spotnik_chunk_header header;
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, bytes, SPOTNIK_CHUNK_BYTES);
    header.handover = spotnik_reader_u8(&reader);
    header.dtype = spotnik_reader_u8(&reader);
    header.op = spotnik_reader_u8(&reader);
    header.sharing = spotnik_reader_u8(&reader);
    header.schedule = header.sharing >> 1;
    header.sharing &= 1;
    header.bucket = spotnik_reader_u32(&reader);
    header.epoch = spotnik_reader_u64(&reader);
    header.step = spotnik_reader_u64(&reader);
    header.sequence = spotnik_reader_u64(&reader);
    header.count = spotnik_reader_u64(&reader);
    header.weight = spotnik_reader_u64(&reader);
    if (!is_possible(&header))
        return SPOTNIK_ERR_ARGUMENT;
    *ret_header = header;
    return SPOTNIK_OK;
}

void spotnik_data_encode(const struct spotnik_chunk_header *header, uint64_t turn,
                         uint32_t element_bytes, uint8_t ret_bytes[SPOTNIK_DATA_PREFIX_BYTES])
{
    struct spotnik_frame frame = {
        .kind = SPOTNIK_FRAME_DATA,
        .payload_bytes = SPOTNIK_DATA_HEAD_BYTES + element_bytes,
        .turn = turn,
    };

    spotnik_frame_encode(&frame, ret_bytes);
    spotnik_chunk_encode(header, ret_bytes + SPOTNIK_FRAME_BYTES);
    memset(ret_bytes + SPOTNIK_DATA_ELEMENTS_TAG_AT, 0, 2 * SPOTNIK_DATA_TAG_BYTES);
}

int spotnik_data_decode(const uint8_t bytes[SPOTNIK_CHUNK_BYTES], const struct spotnik_frame *frame,
                        struct spotnik_chunk_header *ret_header, uint32_t *ret_element_bytes)
{
    struct spotnik_chunk_header header;

    if (frame->kind != SPOTNIK_FRAME_DATA || frame->payload_bytes < SPOTNIK_DATA_HEAD_BYTES)
        return SPOTNIK_ERR_ARGUMENT;
    uint32_t element_bytes = frame->payload_bytes - SPOTNIK_DATA_HEAD_BYTES;
    int rc = spotnik_chunk_decode(bytes, &header);
    if (rc != SPOTNIK_OK)
        return rc;
    uint32_t one = spotnik_dtype_bytes(header.dtype);
    if (element_bytes % one != 0 || element_bytes / one > header.count)
        return SPOTNIK_ERR_ARGUMENT;
    *ret_header = header;
    *ret_element_bytes = element_bytes;
    return SPOTNIK_OK;
}
