/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: what passes between members of two hosts in EXCHANGE counts only as its sender said it, in
 * its order. A machine in between, without the key, flips each bit of a head, a payload and their
 * tags, and drops, repeats and makes up messages: the reader fails, and the failure is counted. */
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "p2p/pipe.h"
#include "spotnik/spotnik.h"
#include "tests.h"

#define PAYLOAD_BYTES 24
#define RAW_BYTES (SPOTNIK_P2P_HEAD_BYTES + PAYLOAD_BYTES + 2 * SPOTNIK_SEAL_BYTES)

static const uint8_t payload[PAYLOAD_BYTES] = "twenty-four bytes of it";
static struct spotnik_p2p_head head = { .kind = SPOTNIK_P2P_SNAPSHOT,
                                        .dtype = SPOTNIK_U8,
                                        .version = 7,
                                        .bytes = PAYLOAD_BYTES,
                                        .name = "model" };

struct ends {
    struct spotnik_duplex sender, reader;
    struct spotnik_pipe out, in;
    int from, to;
};

static struct spotnik_pipe sealed(struct spotnik_duplex *duplex, int fd, bool server)
{
    static const uint8_t key[2][32] = { { 1 }, { 2 } };
    *duplex = (struct spotnik_duplex){ .fd = fd };
    assert_int_equal(spotnik_seal_init(&duplex->send, key[server]), 0);
    assert_int_equal(spotnik_seal_init(&duplex->receive, key[!server]), 0);
    return (struct spotnik_pipe){ .duplex = duplex,
                                  .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                  .silence_ns = 20 * SPOTNIK_S,
                                  .until_ns = SPOTNIK_NEVER };
}

static void ends_open(struct ends *ends)
{
    int one[2], two[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, one), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
    ends->out = sealed(&ends->sender, one[0], false);
    ends->in = sealed(&ends->reader, two[1], true);
    ends->from = one[1];
    ends->to = two[0];
}

static void ends_close(struct ends *ends)
{
    spotnik_duplex_close(&ends->sender);
    spotnik_duplex_close(&ends->reader);
    close(ends->out.wake_fd);
    close(ends->in.wake_fd);
    close(ends->from);
    close(ends->to);
}

/* A head and its payload, as they leave their sender. */
static void take(struct ends *ends, uint8_t ret_raw[RAW_BYTES])
{
    assert_int_equal(spotnik_pipe_write(&ends->out, &head, payload), 0);
    assert_int_equal(recv(ends->from, ret_raw, RAW_BYTES, MSG_WAITALL), RAW_BYTES);
}

static void give(struct ends *ends, const uint8_t *raw, size_t size)
{
    assert_int_equal(send(ends->to, raw, size, 0), (ssize_t)size);
}

static int read_one(struct ends *ends)
{
    struct spotnik_p2p_head found;
    uint8_t bytes[PAYLOAD_BYTES];
    int rc = spotnik_pipe_read_head(&ends->in, &found);
    if (rc == 0)
        rc = spotnik_pipe_read(&ends->in, bytes, sizeof bytes);
    if (rc == 0) {
        assert_int_equal(found.version, 7);
        assert_memory_equal(bytes, payload, sizeof bytes);
    }
    return rc;
}

static void expect_refused(struct ends *ends)
{
    uint64_t before = spotnik_seal_failures();
    assert_int_equal(read_one(ends), SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "altered on their way"));
    assert_int_equal(spotnik_seal_failures(), before + 1);
}

static void flip_each_bit(void)
{
    uint8_t raw[RAW_BYTES];
    for (size_t bit = 0; bit < 8 * sizeof raw; bit++) {
        struct ends ends;
        ends_open(&ends);
        take(&ends, raw);
        raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
        give(&ends, raw, sizeof raw);
        expect_refused(&ends);
        ends_close(&ends);
    }
}

TEST(one_flipped_bit_is_noticed)
{
    static const uint8_t kinds[] = { SPOTNIK_P2P_PUSH, SPOTNIK_P2P_PASS, SPOTNIK_P2P_SHARD,
                                     SPOTNIK_P2P_BLOCK, SPOTNIK_P2P_SNAPSHOT };
    for (size_t i = 0; i < sizeof kinds; i++) {
        head.kind = kinds[i];
        head.dtype = kinds[i] == SPOTNIK_P2P_BLOCK ? SPOTNIK_U8 : SPOTNIK_F32;
        flip_each_bit();
    }
}

TEST(messages_keep_their_order)
{
    uint8_t first[RAW_BYTES], second[RAW_BYTES];
    for (int attack = 0; attack < 3; attack++) {
        struct ends ends;
        ends_open(&ends);
        take(&ends, first);
        take(&ends, second);
        if (attack > 0) { /* else dropped */
            give(&ends, first, sizeof first);
            assert_int_equal(read_one(&ends), 0);
        }
        if (attack == 1) /* repeated */
            give(&ends, first, sizeof first);
        if (attack == 2) /* a payload in the place of another */
            memcpy(second + SPOTNIK_P2P_HEAD_BYTES + SPOTNIK_SEAL_BYTES,
                   first + SPOTNIK_P2P_HEAD_BYTES + SPOTNIK_SEAL_BYTES,
                   PAYLOAD_BYTES + SPOTNIK_SEAL_BYTES);
        give(&ends, second, sizeof second);
        expect_refused(&ends);
        ends_close(&ends);
    }
}

/* A payload that is passed over counts in the order of tags. */
TEST(a_skipped_payload_is_counted)
{
    struct spotnik_p2p_head found;
    struct ends ends;
    uint8_t raw[RAW_BYTES];
    ends_open(&ends);
    take(&ends, raw);
    give(&ends, raw, sizeof raw);
    take(&ends, raw);
    give(&ends, raw, sizeof raw);
    assert_int_equal(spotnik_pipe_read_head(&ends.in, &found), 0);
    assert_int_equal(spotnik_pipe_skip(&ends.in, found.bytes), 0);
    assert_int_equal(read_one(&ends), 0);
    ends_close(&ends);
}
