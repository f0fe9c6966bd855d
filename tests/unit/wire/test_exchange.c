/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of exchange connections: there and back, where they lie, and nothing that cannot be true
 * gets through. */
#include "wire/p2p_frame.h"

#include <string.h>

#include "spotnik/spotnik.h"
#include "tests.h"

static struct spotnik_p2p_head sample(enum spotnik_p2p_kind kind)
{
    return (struct spotnik_p2p_head){
        .kind = (uint8_t)kind,
        .dtype = SPOTNIK_F64,
        .name = "model",
        .owner = { .high = 8, .low = 9 },
        .epoch = 3,
        .version = 4,
        .sequence = 5,
        .offset = 16,
        .bytes = 24,
    };
}

TEST(lies_as_documented)
{
    static const uint8_t expected[64] = {
        2, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0,  0, 0, 0, 0, 0, 4, 0, 0,  0, 0, 0,
        0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 16, 0, 0, 0, 0, 0, 0, 0, 24, 0, 0, 0,
        0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0,  0, 9, 0, 0, 0, 0, 0, 0,  0,
    };
    struct spotnik_p2p_head head = sample(SPOTNIK_P2P_SNAPSHOT);
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES], name[64] = "model";

    spotnik_p2p_encode(&head, bytes);
    assert_memory_equal(bytes, expected, sizeof expected);
    assert_memory_equal(bytes + 64, name, sizeof name);
}

static int again(const struct spotnik_p2p_head *head)
{
    struct spotnik_p2p_head ret;
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES], twice[SPOTNIK_P2P_HEAD_BYTES];

    spotnik_p2p_encode(head, bytes);
    int rc = spotnik_p2p_decode(bytes, &ret);
    if (rc == 0) {
        spotnik_p2p_encode(&ret, twice);
        assert_memory_equal(bytes, twice, sizeof bytes);
    }
    return rc;
}

static bool has_data(int kind)
{
    static const char data[] = "pp....ppppp.pp...p.p";

    _Static_assert(sizeof data == SPOTNIK_P2P_KIND_COUNT, "a letter for each");
    return data[kind - 1] != '.';
}

TEST(goes_there_and_back)
{
    for (int kind = 1; kind < SPOTNIK_P2P_KIND_COUNT; kind++) {
        struct spotnik_p2p_head head = sample((enum spotnik_p2p_kind)kind);
        assert_int_equal(again(&head), has_data(kind) ? 0 : SPOTNIK_ERR_ARGUMENT);
        head.dtype = 0;
        head.bytes = head.offset = 0;
        assert_int_equal(again(&head), has_data(kind) ? SPOTNIK_ERR_ARGUMENT : 0);
        memset(head.name, 0, sizeof head.name);
        assert_int_equal(again(&head), has_data(kind) ? SPOTNIK_ERR_ARGUMENT : 0);
    }
}

TEST(refuses_what_cannot_be)
{
    struct spotnik_p2p_head good = sample(SPOTNIK_P2P_SNAPSHOT), head;
    uint8_t bytes[SPOTNIK_P2P_HEAD_BYTES];

#define WITH(change) (head = good, head.change, again(&head))
    assert_int_equal(WITH(kind = 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(kind = SPOTNIK_P2P_KIND_COUNT), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(dtype = 99), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(bytes = 25), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(offset = 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(bytes = SPOTNIK_P2P_BYTES_MAX + 8), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(bytes = SPOTNIK_P2P_BYTES_MAX), 0);
    assert_int_equal(WITH(name[1] = '\n'), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(WITH(name[0] = 0), SPOTNIK_ERR_ARGUMENT);
    for (size_t at = 0; at < sizeof bytes; at++) { /* padding, and what follows a name */
        spotnik_p2p_encode(&good, bytes);
        bytes[at] ^= 0x80;
        bool padding = (at >= 2 && at < 8) || at >= 64 + 6;
        if (padding)
            assert_int_equal(spotnik_p2p_decode(bytes, &head), SPOTNIK_ERR_ARGUMENT);
    }
}
