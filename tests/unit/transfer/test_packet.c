/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a packet of a STATE connection counts only as its sender said it, in its order. A machine
 * in between, without the key, flips each bit of each packet, and drops, repeats, swaps and makes
 * up packets: its reader fails, and the failure is counted. */
#include "transfer/packet.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "spotnik/spotnik.h"
#include "tests.h"

#define FRONT_BYTES 21
#define RAW_MAX 256

static const uint8_t key[2][32] = { { 1 }, { 2 } };

/* A sender whose bytes stop at us, and a reader that gets what we say. */
struct ends {
    struct spotnik_duplex sender, reader;
    int from, to;
};

static void sealed(struct spotnik_duplex *duplex, int fd, bool server)
{
    *duplex = (struct spotnik_duplex){ .fd = fd };
    assert_int_equal(spotnik_seal_init(&duplex->send, key[server]), 0);
    assert_int_equal(spotnik_seal_init(&duplex->receive, key[!server]), 0);
}

static void ends_open(struct ends *ends)
{
    int one[2], two[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, one), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two), 0);
    sealed(&ends->sender, one[0], false);
    sealed(&ends->reader, two[1], true);
    ends->from = one[1];
    ends->to = two[0];
}

static void ends_close(struct ends *ends)
{
    spotnik_duplex_close(&ends->sender);
    spotnik_duplex_close(&ends->reader);
    close(ends->from);
    close(ends->to);
}

/* The bytes of one packet, as they leave its sender. */
static size_t take(struct ends *ends, enum spotnik_packet_kind kind, const char *body,
                   uint8_t ret_raw[RAW_MAX])
{
    size_t size = FRONT_BYTES + strlen(body);
    assert_int_equal(spotnik_packet_send(&ends->sender, kind, body, strlen(body), NULL, 0), 0);
    assert_int_equal(recv(ends->from, ret_raw, RAW_MAX, 0), (ssize_t)size);
    return size;
}

static void expect_refused(struct ends *ends)
{
    struct spotnik_packet packet = { 0 };
    uint64_t before = spotnik_seal_failures();
    assert_int_equal(shutdown(ends->to, SHUT_WR), 0); /* a longer body than came ends here */
    assert_int_equal(spotnik_packet_receive(&ends->reader, &packet, RAW_MAX), SPOTNIK_ERR_PEERS);
    bool cut = strstr(spotnik_last_error(), "closed by the other side") != NULL;
    assert_true(cut || spotnik_seal_failures() == before + 1);
    spotnik_packet_done(&packet);
}

static void give(struct ends *ends, const uint8_t *raw, size_t size)
{
    assert_int_equal(send(ends->to, raw, size, 0), (ssize_t)size);
}

static void expect_good(struct ends *ends, enum spotnik_packet_kind kind, const char *body)
{
    struct spotnik_packet packet = { 0 };
    assert_int_equal(spotnik_packet_receive(&ends->reader, &packet, RAW_MAX), 0);
    assert_int_equal(packet.kind, kind);
    assert_memory_equal(packet.body, body, strlen(body));
    spotnik_packet_done(&packet);
}

static void flip(enum spotnik_packet_kind kind, size_t bit)
{
    struct ends ends;
    uint8_t raw[RAW_MAX];
    ends_open(&ends);
    size_t size = take(&ends, kind, "a body", raw);
    raw[bit / 8] ^= (uint8_t)(1u << bit % 8);
    give(&ends, raw, size);
    expect_refused(&ends);
    ends_close(&ends);
}

TEST(one_flipped_bit_is_noticed)
{
    for (int kind = SPOTNIK_PACKET_ASK; kind <= SPOTNIK_PACKET_DROPPED; kind++)
        for (size_t bit = 0; bit < 8 * (FRONT_BYTES + 6); bit++)
            flip((enum spotnik_packet_kind)kind, bit);
}

TEST(packets_keep_their_order)
{
    struct ends ends;
    uint8_t first[RAW_MAX], second[RAW_MAX];
    for (int attack = 0; attack < 3; attack++) {
        ends_open(&ends);
        size_t one = take(&ends, SPOTNIK_PACKET_PIECE, "one", first),
               two = take(&ends, SPOTNIK_PACKET_PIECE, "second", second);
        if (attack > 0) { /* else dropped, or moved behind the second */
            give(&ends, first, one);
            expect_good(&ends, SPOTNIK_PACKET_PIECE, "one");
        }
        if (attack == 1) /* repeated */
            give(&ends, first, one);
        if (attack == 2) /* made up, with a tag that was good once */
            give(&ends, first, FRONT_BYTES);
        give(&ends, second, two);
        expect_refused(&ends);
        ends_close(&ends);
    }
}

TEST(nothing_comes_back_to_its_author)
{
    struct ends ends;
    struct spotnik_packet packet = { 0 };
    uint8_t raw[RAW_MAX];
    ends_open(&ends);
    size_t size = take(&ends, SPOTNIK_PACKET_ACK, "12345678", raw);
    assert_int_equal(send(ends.from, raw, size, 0), (ssize_t)size);
    assert_int_equal(spotnik_packet_receive(&ends.sender, &packet, RAW_MAX), SPOTNIK_ERR_PEERS);
    assert_non_null(strstr(spotnik_last_error(), "altered on its way"));
    spotnik_packet_done(&packet);
    ends_close(&ends);
}
