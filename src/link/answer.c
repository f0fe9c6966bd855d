/* SPDX-License-Identifier: Apache-2.0 */
/* Answers to one that looks for the job. See answer.h. */
#include "link/answer.h"

#include <string.h>

#include "base/bytes.h"

#define ANSWER_VERSION 1

static void member_write(struct spotnik_writer *writer, const struct spotnik_member *member)
{
    spotnik_writer_id(writer, member->id);
    spotnik_writer_bytes(writer, member->address, sizeof member->address);
    spotnik_writer_u16(writer, member->port);
    spotnik_writer_u64(writer, member->host);
}

static void member_read(struct spotnik_reader *reader, struct spotnik_member *member)
{
    member->id = spotnik_reader_id(reader);
    spotnik_reader_bytes(reader, member->address, sizeof member->address);
    member->port = spotnik_reader_u16(reader);
    member->host = spotnik_reader_u64(reader);
}

void spotnik_answer_encode(const struct spotnik_answer *answer,
                           uint8_t ret_bytes[SPOTNIK_ANSWER_BYTES])
{
    struct spotnik_writer writer;
    memset(ret_bytes, 0, SPOTNIK_ANSWER_BYTES);
    spotnik_writer_init(&writer, ret_bytes, SPOTNIK_ANSWER_BYTES);
    spotnik_writer_u64(&writer, answer->epoch);
    spotnik_writer_u16(&writer, (uint16_t)answer->size);
    spotnik_writer_u8(&writer, ANSWER_VERSION);
    spotnik_writer_u8(&writer, answer->parked);
    member_write(&writer, &answer->self);
    member_write(&writer, &answer->vote);
}

bool spotnik_answer_decode(const uint8_t bytes[SPOTNIK_ANSWER_BYTES],
                           struct spotnik_answer *ret_answer)
{
    struct spotnik_reader reader;
    struct spotnik_answer answer = { 0 };
    spotnik_reader_init(&reader, bytes, SPOTNIK_ANSWER_BYTES);
    answer.epoch = spotnik_reader_u64(&reader);
    answer.size = spotnik_reader_u16(&reader);
    uint8_t version = spotnik_reader_u8(&reader);
    uint8_t parked = spotnik_reader_u8(&reader);
    member_read(&reader, &answer.self);
    member_read(&reader, &answer.vote);
    if (reader.failed || version != ANSWER_VERSION || parked > 1
        || spotnik_id_is_none(answer.self.id))
        return false;
    answer.parked = parked != 0;
    *ret_answer = answer;
    return true;
}
