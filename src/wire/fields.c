/* SPDX-License-Identifier: Apache-2.0 */
/* Fields that several kinds of message share; layout in docs/reference/wire-format.md. */
#include "wire/fields.h"

void spotnik_wire_member_write(struct spotnik_writer *writer, const struct spotnik_member *member)
{
    spotnik_writer_id(writer, member->id);
    spotnik_writer_u64(writer, member->host);
    spotnik_writer_bytes(writer, member->address, sizeof member->address);
    spotnik_writer_u16(writer, member->port);
    spotnik_writer_skip(writer, 6);
}

bool spotnik_wire_member_read(struct spotnik_reader *reader, struct spotnik_member *ret_member)
{
    ret_member->id = spotnik_reader_id(reader);
    ret_member->host = spotnik_reader_u64(reader);
    spotnik_reader_bytes(reader, ret_member->address, sizeof ret_member->address);
    ret_member->port = spotnik_reader_u16(reader);
    return spotnik_wire_zeros_read(reader, 6) && !spotnik_id_is_none(ret_member->id);
}

bool spotnik_wire_zeros_read(struct spotnik_reader *reader, size_t size)
{
    const uint8_t *bytes = spotnik_reader_skip(reader, size);

    for (size_t i = 0; bytes && i < size; i++)
        if (bytes[i] != 0)
            return false;
    return bytes != NULL;
}

void spotnik_wire_founding_write(struct spotnik_writer *writer,
                                 const struct spotnik_founding *founding)
{
    spotnik_writer_u64(writer, founding->id);
    spotnik_writer_u64(writer, founding->root);
    spotnik_writer_u64(writer, founding->founded_at_ms);
    spotnik_writer_u64(writer, founding->generation);
}

void spotnik_wire_founding_read(struct spotnik_reader *reader, struct spotnik_founding *ret)
{
    ret->id = spotnik_reader_u64(reader);
    ret->root = spotnik_reader_u64(reader);
    ret->founded_at_ms = spotnik_reader_u64(reader);
    ret->generation = spotnik_reader_u64(reader);
}
