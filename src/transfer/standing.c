/* SPDX-License-Identifier: Apache-2.0 */
/* The packet VIEW as bytes. */
#include "transfer/standing.h"

#include "base/error.h"
#include "spotnik/spotnik.h"

#define MEMBER_BYTES 42
#define FIXED_BYTES (1 + 1 + 8 + 8 + 8 + 8 + 4)

size_t spotnik_standing_size(const struct spotnik_standing *answer,
                             const struct spotnik_registry *registry)
{
    return FIXED_BYTES + (size_t)answer->member_count * MEMBER_BYTES
           + spotnik_registry_schema_size(registry);
}

void spotnik_standing_write(const struct spotnik_standing *answer,
                            const struct spotnik_registry *registry, struct spotnik_writer *writer)
{
    spotnik_writer_u8(writer, answer->serving);
    spotnik_writer_u8(writer, answer->waiting);
    spotnik_writer_u64(writer, answer->epoch);
    spotnik_writer_u64(writer, answer->committed);
    spotnik_writer_u64(writer, answer->step_ns);
    spotnik_writer_u64(writer, answer->bytes);
    spotnik_writer_u32(writer, answer->member_count);
    for (uint32_t i = 0; i < answer->member_count; i++) {
        spotnik_writer_id(writer, answer->member[i].id);
        spotnik_writer_u64(writer, answer->member[i].host);
        spotnik_writer_bytes(writer, answer->member[i].address, 16);
        spotnik_writer_u16(writer, answer->member[i].port);
    }
    spotnik_registry_schema_write(registry, writer);
}

int spotnik_standing_read(struct spotnik_standing *ret, const struct spotnik_registry *registry,
                          struct spotnik_reader *reader)
{
    ret->serving = spotnik_reader_u8(reader) == 1;
    ret->waiting = spotnik_reader_u8(reader) == 1;
    ret->epoch = spotnik_reader_u64(reader);
    ret->committed = spotnik_reader_u64(reader);
    ret->step_ns = spotnik_reader_u64(reader);
    ret->bytes = spotnik_reader_u64(reader);
    ret->member_count = spotnik_reader_u32(reader);
    if (reader->failed || ret->member_count > SPOTNIK_STANDING_MEMBERS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a member's answer about the job cannot be read");
    for (uint32_t i = 0; i < ret->member_count; i++) {
        ret->member[i].id = spotnik_reader_id(reader);
        ret->member[i].host = spotnik_reader_u64(reader);
        spotnik_reader_bytes(reader, ret->member[i].address, 16);
        ret->member[i].port = spotnik_reader_u16(reader);
    }
    if (reader->failed)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a member's answer about the job cannot be read");
    return ret->serving ? spotnik_registry_schema_check(registry, reader) : 0;
}
