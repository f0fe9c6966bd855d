/* SPDX-License-Identifier: Apache-2.0 */
/* Reader and writer: the byte order on the wire, every length of truncation, and that failure
 * sticks. */
#include "base/bytes.h"

#include <string.h>

#include "tests.h"

/* One field of each kind, 1 + 2 + 4 + 8 + 16 + 3 + 2 = 36 bytes. */
static const uint8_t wire[36] = {
    0x01, 0x03, 0x02, 0x07, 0x06, 0x05, 0x04, 0x0f, 0x0e, 0x0d, 0x0c, 0x0b,
    0x0a, 0x09, 0x08, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11, 0x10, 0x1f,
    0x1e, 0x1d, 0x1c, 0x1b, 0x1a, 0x19, 0x18, 'a',  'b',  'c',  0,    0,
};

static const struct spotnik_id an_id = { UINT64_C(0x1011121314151617),
                                         UINT64_C(0x18191a1b1c1d1e1f) };

static void write_all(struct spotnik_writer *writer)
{
    spotnik_writer_u8(writer, 0x01);
    spotnik_writer_u16(writer, 0x0203);
    spotnik_writer_u32(writer, 0x04050607);
    spotnik_writer_u64(writer, UINT64_C(0x08090a0b0c0d0e0f));
    spotnik_writer_id(writer, an_id);
    spotnik_writer_bytes(writer, "abc", 3);
    spotnik_writer_skip(writer, 2);
}

TEST(writes_little_endian)
{
    uint8_t out[sizeof wire];
    struct spotnik_writer writer;

    memset(out, 0xee, sizeof out);
    spotnik_writer_init(&writer, out, sizeof out);
    write_all(&writer);
    assert_false(writer.failed);
    assert_int_equal(writer.at, sizeof wire);
    assert_memory_equal(out, wire, sizeof wire);
}

TEST(reads_what_was_written)
{
    char text[3];
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, wire, sizeof wire);
    assert_int_equal(spotnik_reader_u8(&reader), 0x01);
    assert_int_equal(spotnik_reader_u16(&reader), 0x0203);
    assert_int_equal(spotnik_reader_u32(&reader), 0x04050607);
    assert_int_equal(spotnik_reader_u64(&reader), UINT64_C(0x08090a0b0c0d0e0f));
    assert_true(spotnik_id_equal(spotnik_reader_id(&reader), an_id));
    spotnik_reader_bytes(&reader, text, 3);
    assert_memory_equal(text, "abc", 3);
    assert_int_equal(spotnik_reader_left(&reader), 2);
    assert_false(spotnik_reader_is_done(&reader));
    assert_ptr_equal(spotnik_reader_skip(&reader, 2), wire + 34);
    assert_true(spotnik_reader_is_done(&reader));
}

/* Whatever the room, the writer stays inside it, and says so when it was too small. */
TEST(writer_stays_inside_every_room)
{
    for (size_t room = 0; room <= sizeof wire; room++) {
        uint8_t out[sizeof wire + 1];
        struct spotnik_writer writer;

        memset(out, 0xee, sizeof out);
        spotnik_writer_init(&writer, out, room);
        write_all(&writer);
        assert_int_equal(writer.failed, room < sizeof wire);
        assert_true(writer.at <= room);
        assert_memory_equal(out, wire, writer.at);
        assert_int_equal(out[room], 0xee);
    }
}

static uint64_t read_all(struct spotnik_reader *reader, uint8_t tail[3])
{
    uint64_t last = spotnik_reader_u8(reader);

    last = spotnik_reader_u16(reader);
    last = spotnik_reader_u32(reader);
    last = spotnik_reader_u64(reader);
    last = spotnik_reader_id(reader).high;
    spotnik_reader_bytes(reader, tail, 3);
    spotnik_reader_skip(reader, 2);
    return last;
}

TEST(reader_fails_at_every_truncation)
{
    for (size_t size = 0; size < sizeof wire; size++) {
        uint8_t tail[3] = { 9, 9, 9 };
        struct spotnik_reader reader;

        spotnik_reader_init(&reader, wire, size);
        uint64_t high = read_all(&reader, tail);
        assert_true(reader.failed);
        assert_false(spotnik_reader_is_done(&reader));
        assert_true(reader.at <= size);
        /* 31 is where the id ends, 34 the text: what is not wholly there reads as zeros. */
        assert_true(high == (size < 31 ? 0 : an_id.high));
        assert_int_equal(tail[0], size < 34 ? 0 : 'a');
    }
}

TEST(failure_sticks)
{
    uint8_t out[4] = { 0 };
    struct spotnik_reader reader;
    struct spotnik_writer writer;

    spotnik_reader_init(&reader, wire, 4);
    assert_int_equal(spotnik_reader_u64(&reader), 0);
    assert_int_equal(spotnik_reader_u8(&reader), 0);
    assert_null(spotnik_reader_skip(&reader, 0));
    assert_true(reader.failed);

    spotnik_writer_init(&writer, out, sizeof out);
    spotnik_writer_u64(&writer, UINT64_MAX);
    spotnik_writer_u8(&writer, 0xff);
    assert_null(spotnik_writer_skip(&writer, 1));
    assert_true(writer.failed);
    assert_int_equal(writer.at, 0);
    assert_int_equal(out[0], 0);
}

TEST(sizes_near_the_limit_do_not_wrap)
{
    uint8_t out[4];
    struct spotnik_reader reader;
    struct spotnik_writer writer;

    spotnik_reader_init(&reader, wire, 4);
    spotnik_reader_u8(&reader);
    assert_null(spotnik_reader_skip(&reader, SIZE_MAX));
    assert_true(reader.failed);
    spotnik_writer_init(&writer, out, sizeof out);
    spotnik_writer_u8(&writer, 1);
    assert_null(spotnik_writer_skip(&writer, SIZE_MAX));
    assert_true(writer.failed);
}

TEST(nothing_at_all_is_fine)
{
    struct spotnik_reader reader;
    struct spotnik_writer writer;

    spotnik_reader_init(&reader, NULL, 0);
    spotnik_reader_bytes(&reader, NULL, 0);
    assert_true(spotnik_reader_is_done(&reader));
    spotnik_writer_init(&writer, NULL, 0);
    spotnik_writer_bytes(&writer, NULL, 0);
    assert_false(writer.failed);
}
