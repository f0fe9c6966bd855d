/* SPDX-License-Identifier: Apache-2.0 */
/* Chunk headers: there and back, and nothing that cannot be true gets through. */
#include "wire/data.h"

#include <string.h>

#include "sample.h"
#include "tests.h"

static bool same(const struct spotnik_chunk_header *a, const struct spotnik_chunk_header *b)
{
    return a->handover == b->handover && a->sharing == b->sharing && a->schedule == b->schedule
           && a->dtype == b->dtype && a->op == b->op && a->bucket == b->bucket
           && a->epoch == b->epoch && a->step == b->step && a->sequence == b->sequence
           && a->count == b->count && a->weight == b->weight;
}

TEST(lies_as_documented)
{
    struct spotnik_chunk_header header = {
        .handover = 1,
        .dtype = SPOTNIK_F64,
        .op = SPOTNIK_MEAN,
        .bucket = 0x99,
        .epoch = 3,
        .step = 4,
        .sequence = 5,
        .count = 6,
        .weight = 7,
    };
    static const uint8_t expected[SPOTNIK_DATA_PREFIX_BYTES] = {
        'S', 1, 3, 0, 0x60, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
        1,   2, 2, 0, 0x99, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0,
        5,   0, 0, 0, 0,    0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0,
    };
    uint8_t bytes[SPOTNIK_DATA_PREFIX_BYTES];

    spotnik_data_encode(&header, 9, 16, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
}

static uint64_t turn_seen; /* by the last call of data_decode() */

static int data_decode(const uint8_t *bytes, struct spotnik_chunk_header *ret, uint32_t *ret_bytes)
{
    struct spotnik_limits limits = spotnik_sample_limits();
    struct spotnik_frame frame;
    int rc = spotnik_frame_decode(bytes, &limits, &frame);

    if (rc == SPOTNIK_OK)
        turn_seen = frame.turn;
    return rc ? rc : spotnik_data_decode(bytes + SPOTNIK_FRAME_BYTES, &frame, ret, ret_bytes);
}

TEST(goes_there_and_back)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 1);
    for (uint32_t i = 0; i < 2000; i++) {
        struct spotnik_chunk_header header = spotnik_sample_chunk(&prng), decoded;
        uint8_t bytes[SPOTNIK_DATA_PREFIX_BYTES];
        uint32_t size = 8 * (uint32_t)spotnik_prng_below(&prng, 513), decoded_size;
        spotnik_data_encode(&header, i, size, bytes);
        assert_int_equal(data_decode(bytes, &decoded, &decoded_size), SPOTNIK_OK);
        assert_int_equal(turn_seen, i);
        assert_true(same(&header, &decoded));
        assert_int_equal(size, decoded_size);
    }
}

/* Whatever passes is canonical: it encodes to the bytes it came from. */
TEST(flipped_bits_are_refused_or_mean_themselves)
{
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, 2);
    for (uint32_t i = 0; i < 200; i++) {
        struct spotnik_chunk_header header = spotnik_sample_chunk(&prng), decoded;
        uint8_t bytes[SPOTNIK_DATA_PREFIX_BYTES], again[SPOTNIK_DATA_PREFIX_BYTES];
        uint32_t size;
        spotnik_data_encode(&header, 0, 64, bytes);
        for (uint32_t bit = 0; bit < 8 * sizeof bytes; bit++) {
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            if (data_decode(bytes, &decoded, &size) == SPOTNIK_OK) {
                spotnik_data_encode(&decoded, turn_seen, size, again);
                assert_memory_equal(bytes, again, SPOTNIK_DATA_ELEMENTS_TAG_AT);
            }
            bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        }
    }
}

static void assert_verdict(const struct spotnik_chunk_header *header, int expected)
{
    struct spotnik_chunk_header decoded = { .weight = 77 };
    uint8_t bytes[SPOTNIK_CHUNK_BYTES];

    spotnik_chunk_encode(header, bytes);
    assert_int_equal(spotnik_chunk_decode(bytes, &decoded), expected);
    if (expected != SPOTNIK_OK)
        assert_int_equal(decoded.weight, 77);
}

#define WITH(field, value, expected)                                                               \
    do {                                                                                           \
        struct spotnik_chunk_header changed_ = header;                                             \
        changed_.field = (value);                                                                  \
        assert_verdict(&changed_, (expected));                                                     \
    } while (0)

TEST(impossible_headers_are_refused)
{
    struct spotnik_chunk_header header = {
        .dtype = SPOTNIK_F32,
        .op = SPOTNIK_SUM,
        .epoch = 1,
        .step = 1,
        .count = 10,
    };

    assert_verdict(&header, SPOTNIK_OK);
    WITH(handover, 2, SPOTNIK_ERR_ARGUMENT);
    WITH(sharing, 1, SPOTNIK_OK);
    WITH(schedule, SPOTNIK_SCHEDULE_TREE, SPOTNIK_OK);
    WITH(schedule, SPOTNIK_SCHEDULE_TREE + 1, SPOTNIK_ERR_ARGUMENT);
    WITH(dtype, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(dtype, SPOTNIK_U64, SPOTNIK_OK);
    WITH(dtype, SPOTNIK_Q8, SPOTNIK_OK);
    WITH(dtype, SPOTNIK_Q8 + 1, SPOTNIK_ERR_ARGUMENT);
    WITH(op, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(op, SPOTNIK_PRODUCT, SPOTNIK_OK);
    WITH(op, SPOTNIK_PRODUCT + 1, SPOTNIK_ERR_ARGUMENT);
    WITH(bucket, SPOTNIK_BUCKETS_MAX - 1, SPOTNIK_OK);
    WITH(bucket, SPOTNIK_BUCKETS_MAX, SPOTNIK_ERR_ARGUMENT);
    WITH(epoch, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(step, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(count, 0, SPOTNIK_OK);
    WITH(count, UINT64_C(1) << 55, SPOTNIK_OK);
    WITH(count, (UINT64_C(1) << 55) + 1, SPOTNIK_ERR_ARGUMENT);
    header.handover = 1;
    WITH(epoch, 0, SPOTNIK_OK); /* a joiner's donor need not know */
}

TEST(payloads_are_whole_elements_of_the_bucket)
{
    struct spotnik_chunk_header header = {
        .dtype = SPOTNIK_F64,
        .op = SPOTNIK_SUM,
        .epoch = 1,
        .step = 1,
        .count = 10,
    };
    struct spotnik_chunk_header decoded;
    uint8_t bytes[SPOTNIK_DATA_PREFIX_BYTES];

    for (uint32_t size = 0; size <= 100; size++) {
        uint32_t decoded_size;
        int expected = size % 8 == 0 && size <= 80 ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
        spotnik_data_encode(&header, 0, size, bytes);
        assert_int_equal(data_decode(bytes, &decoded, &decoded_size), expected);
    }
}

TEST(only_data_frames_are_data)
{
    struct spotnik_frame frame = { .kind = SPOTNIK_FRAME_CONTROL, .payload_bytes = 80 };
    struct spotnik_chunk_header header = {
        .dtype = SPOTNIK_U8, .op = SPOTNIK_MIN, .epoch = 1, .step = 1
    };
    uint8_t bytes[SPOTNIK_CHUNK_BYTES];
    uint32_t size;

    spotnik_chunk_encode(&header, bytes);
    assert_int_equal(spotnik_data_decode(bytes, &frame, &header, &size), SPOTNIK_ERR_ARGUMENT);
    frame.kind = SPOTNIK_FRAME_DATA;
    assert_int_equal(spotnik_data_decode(bytes, &frame, &header, &size), SPOTNIK_OK);
    frame.payload_bytes = 79;
    assert_int_equal(spotnik_data_decode(bytes, &frame, &header, &size), SPOTNIK_ERR_ARGUMENT);
}
