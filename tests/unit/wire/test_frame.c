/* SPDX-License-Identifier: Apache-2.0 */
/* The envelope: every header that is not exactly ours is refused before its payload is looked
 * at. */
#include "wire/frame.h"

#include <string.h>

#include "base/prng.h"
#include "sample.h"
#include "wire/control.h"
#include "wire/data.h"
#include "tests.h"

_Static_assert(SPOTNIK_FRAME_BYTES == 24, "docs/reference/wire-format.md");
_Static_assert(SPOTNIK_CHUNK_BYTES == 48, "docs/reference/wire-format.md");
_Static_assert(SPOTNIK_DATA_PREFIX_BYTES == 104, "docs/reference/wire-format.md");

static const uint8_t known[SPOTNIK_FRAME_BYTES] = {
    'S', 1, 1, 0, 0x34, 0x12, 0, 0, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25,
};

TEST(lies_as_documented)
{
    struct spotnik_frame frame = { .kind = SPOTNIK_FRAME_CONTROL, .payload_bytes = 0x1234 };
    uint8_t bytes[SPOTNIK_FRAME_BYTES];

    for (uint8_t i = 0; i < SPOTNIK_FRAME_TAG_BYTES; i++)
        frame.tag[i] = (uint8_t)(10 + i);
    spotnik_frame_encode(&frame, bytes);
    assert_memory_equal(bytes, known, sizeof known);
}

static bool same(const struct spotnik_frame *a, const struct spotnik_frame *b)
{
    return a->kind == b->kind && a->payload_bytes == b->payload_bytes
           && memcmp(a->tag, b->tag, sizeof a->tag) == 0 && a->turn == b->turn;
}

TEST(goes_there_and_back)
{
    struct spotnik_limits limits = spotnik_sample_limits();
    static const uint32_t sizes[][2] = {
        { SPOTNIK_FRAME_CONTROL, 0 },      { SPOTNIK_FRAME_CONTROL, 20000 },
        { SPOTNIK_FRAME_GOODBYE, 8 },      { SPOTNIK_FRAME_DATA, 80 },
        { SPOTNIK_FRAME_DATA, 80 + 4096 }, { SPOTNIK_FRAME_PLACES, 36 },
    };

    for (uint32_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct spotnik_frame frame = { .kind = (enum spotnik_frame_kind)sizes[i][0],
                                       .payload_bytes = sizes[i][1] };
        struct spotnik_frame decoded = { .turn = 0 };
        uint8_t bytes[SPOTNIK_FRAME_BYTES];
        if (spotnik_frame_is_tagged(frame.kind))
            memset(frame.tag, 0x5a, sizeof frame.tag);
        else
            frame.turn = UINT64_C(0x0102030405060708) + i;
        spotnik_frame_encode(&frame, bytes);
        assert_int_equal(spotnik_frame_decode(bytes, &limits, &decoded), SPOTNIK_OK);
        assert_true(same(&frame, &decoded));
    }
}

static void assert_refused(const uint8_t *bytes, int expected)
{
    struct spotnik_limits limits = spotnik_sample_limits();
    struct spotnik_frame frame = { .payload_bytes = 77 };

    assert_int_equal(spotnik_frame_decode(bytes, &limits, &frame), expected);
    assert_int_equal(frame.payload_bytes, 77);
}

TEST(every_other_head_is_refused)
{
    uint8_t bytes[SPOTNIK_FRAME_BYTES];

    for (uint32_t value = 0; value < 256; value++) {
        memcpy(bytes, known, sizeof bytes);
        bytes[0] = (uint8_t)value;
        if (value != 'S')
            assert_refused(bytes, SPOTNIK_ERR_ARGUMENT);
        memcpy(bytes, known, sizeof bytes);
        bytes[1] = (uint8_t)value;
        if (value != SPOTNIK_WIRE_VERSION)
            assert_refused(bytes, SPOTNIK_ERR_VERSION);
        memcpy(bytes, known, sizeof bytes);
        bytes[2] = (uint8_t)value;
        if (value == 0 || value >= SPOTNIK_FRAME_KIND_COUNT)
            assert_refused(bytes, SPOTNIK_ERR_ARGUMENT);
        memcpy(bytes, known, sizeof bytes);
        bytes[3] = (uint8_t)value;
        if (value != 0)
            assert_refused(bytes, SPOTNIK_ERR_ARGUMENT);
    }
}

static void assert_length(enum spotnik_frame_kind kind, uint32_t payload_bytes, int expected)
{
    struct spotnik_limits limits = spotnik_sample_limits();
    struct spotnik_frame frame = { .kind = kind, .payload_bytes = payload_bytes };
    uint8_t bytes[SPOTNIK_FRAME_BYTES];

    spotnik_frame_encode(&frame, bytes);
    assert_int_equal(spotnik_frame_decode(bytes, &limits, &frame), expected);
}

TEST(lengths_are_held_to_the_limits)
{
    struct spotnik_limits limits = spotnik_sample_limits();
    uint32_t control = spotnik_control_bytes_max(&limits),
             data = SPOTNIK_DATA_HEAD_BYTES + limits.chunk_bytes;

    assert_length(SPOTNIK_FRAME_CONTROL, control, SPOTNIK_OK);
    assert_length(SPOTNIK_FRAME_CONTROL, control + 1, SPOTNIK_ERR_LIMIT);
    assert_length(SPOTNIK_FRAME_CONTROL, UINT32_MAX, SPOTNIK_ERR_LIMIT);
    assert_length(SPOTNIK_FRAME_GOODBYE, 7, SPOTNIK_ERR_ARGUMENT);
    assert_length(SPOTNIK_FRAME_GOODBYE, 9, SPOTNIK_ERR_LIMIT);
    assert_length(SPOTNIK_FRAME_PLACES, 35, SPOTNIK_ERR_ARGUMENT);
    assert_length(SPOTNIK_FRAME_PLACES, 37, SPOTNIK_ERR_LIMIT);
    assert_length(SPOTNIK_FRAME_DATA, SPOTNIK_DATA_HEAD_BYTES - 1, SPOTNIK_ERR_ARGUMENT);
    assert_length(SPOTNIK_FRAME_DATA, data, SPOTNIK_OK);
    assert_length(SPOTNIK_FRAME_DATA, data + 1, SPOTNIK_ERR_LIMIT);
}

TEST(data_frames_have_a_turn_for_the_tag)
{
    struct spotnik_frame frame = {
        .kind = SPOTNIK_FRAME_DATA, .payload_bytes = 80, .tag = { 1 }, .turn = 0x0304
    };
    uint8_t bytes[SPOTNIK_FRAME_BYTES];

    spotnik_frame_encode(&frame, bytes);
    assert_int_equal(bytes[8], 4);
    assert_int_equal(bytes[9], 3);
    for (uint32_t i = 16; i < SPOTNIK_FRAME_BYTES; i++) {
        bytes[i] = 1;
        assert_refused(bytes, SPOTNIK_ERR_ARGUMENT);
        bytes[i] = 0;
    }
}

/* What the tag covers differs with everything that is in a header, and with the sequence number. */
TEST(the_tag_covers_sequence_and_head)
{
    struct spotnik_frame frame = { .kind = SPOTNIK_FRAME_CONTROL, .payload_bytes = 5 };
    uint8_t input[SPOTNIK_FRAME_TAG_INPUT_BYTES], other[SPOTNIK_FRAME_TAG_INPUT_BYTES];
    static const uint8_t expected[] = { 8, 7, 6, 5, 4, 3, 2, 1, 'S', 1, 1, 0, 5, 0, 0, 0 };

    spotnik_frame_tag_input(&frame, UINT64_C(0x0102030405060708), input);
    assert_memory_equal(input, expected, sizeof input);
    spotnik_frame_tag_input(&frame, UINT64_C(0x0102030405060709), other);
    assert_memory_not_equal(input, other, sizeof input);
    frame.kind = SPOTNIK_FRAME_GOODBYE;
    spotnik_frame_tag_input(&frame, UINT64_C(0x0102030405060708), other);
    assert_memory_not_equal(input, other, sizeof input);
}

TEST(places_go_there_and_back)
{
    struct spotnik_places places = { .local_port = 0x1234, .remote_port = 0xfedc }, decoded;
    uint8_t payload[SPOTNIK_PLACES_BYTES];

    memset(places.local, 0x11, sizeof places.local);
    memset(places.remote, 0x22, sizeof places.remote);
    spotnik_places_encode(&places, payload);
    spotnik_places_decode(payload, &decoded);
    assert_memory_equal(&places, &decoded, sizeof places);
    assert_int_equal(payload[0], 0x11);
    assert_int_equal(payload[16], 0x22);
    assert_int_equal(payload[32] | payload[33] << 8, 0x1234);
}

TEST(goodbyes_have_known_reasons)
{
    uint8_t payload[SPOTNIK_GOODBYE_BYTES] = { 0 };
    enum spotnik_goodbye reason;

    for (uint32_t value = 0; value < 256; value++) {
        bool known_reason = value >= 1 && value < SPOTNIK_GOODBYE_COUNT;
        payload[0] = (uint8_t)value;
        assert_int_equal(spotnik_goodbye_decode(payload, &reason),
                         known_reason ? 0 : SPOTNIK_ERR_ARGUMENT);
        if (!known_reason)
            continue;
        uint8_t again[SPOTNIK_GOODBYE_BYTES];
        assert_int_equal(reason, value);
        spotnik_goodbye_encode(reason, again);
        assert_memory_equal(payload, again, sizeof again);
    }
    payload[0] = 1;
    payload[7] = 1;
    assert_int_equal(spotnik_goodbye_decode(payload, &reason), SPOTNIK_ERR_ARGUMENT);
}

TEST(equality_sees_every_byte)
{
    uint8_t a[32] = { 0 }, b[32] = { 0 };

    assert_true(spotnik_wire_equal(a, b, 32));
    for (uint32_t i = 0; i < 256; i++) {
        b[i / 8] ^= (uint8_t)(1u << i % 8);
        assert_false(spotnik_wire_equal(a, b, 32));
        b[i / 8] = 0;
    }
}
