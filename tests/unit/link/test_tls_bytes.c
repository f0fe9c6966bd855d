/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes under TLS (link/tls.h): they come whole, and a connection ends as its kernel says. */
#include <errno.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "link/dial.h"
#include "link/duplex.h"
#include "link/seal.h"
#include "tls_ends.h"

/* ---- bytes ---- */

static int waiting(int fd)
{
    int bytes = -1;
    assert_int_equal(ioctl(fd, FIONREAD, &bytes), 0);
    return bytes;
}

/* TLS alone, without the handshake of members. */
static void tls_open(int fd[2])
{
    static const uint8_t key[32] = { 1 };
    uint8_t ignored[32];
    int rc[2] = { 1, 1 };
    pair_open(fd);
    assert_int_equal(spotnik_tls_begin(fd[0], &psk, key, false), 0);
    assert_int_equal(spotnik_tls_begin(fd[1], &psk, key, true), 0);
    while (rc[0] > 0 || rc[1] > 0)
        for (int i = 0; i < 2; i++)
            if (rc[i] > 0)
                rc[i] = spotnik_tls_shake(fd[i], key, ignored);
    assert_true(rc[0] == 0 && rc[1] == 0);
}

/* An unauthenticated connection could otherwise make us read files as often as it comes. */
TEST(a_silent_client_costs_no_tls)
{
    struct ends ends;
    pair_open(ends.fd);
    shakes_init(&ends, &psk, &psk, 0);
    ends_turn(&ends, 1);
    assert_int_equal(ends.rc[1], SPOTNIK_SHAKE_AGAIN);
    assert_false(spotnik_tls_is_on(ends.fd[1]));
    ends_turn(&ends, 0);
    ends_turn(&ends, 1);
    assert_true(spotnik_tls_is_on(ends.fd[1]));
    ends_close(&ends);
}

/* A ticket that lies unread makes the kernel say RST at a close. */
TEST(nothing_follows_the_handshake)
{
    int fd[2];
    tls_open(fd);
    assert_int_equal(waiting(fd[0]), 0);
    assert_int_equal(waiting(fd[1]), 0);
    spotnik_tls_close(fd[0]);
    spotnik_tls_close(fd[1]);
}

/* Otherwise a thread that waits for the rest never sleeps, and waits for ever. */
TEST(half_a_record_is_no_input)
{
    int fd[2];
    char bytes[2];
    static const uint8_t begun[] = { 0x17, 3, 3 };
    tls_open(fd);
    assert_int_equal(spotnik_tls_send(fd[0], "xy", 2, MSG_DONTWAIT), 2);
    assert_false(spotnik_tls_has_input(fd[1])); /* poll() shows it */
    assert_int_equal(spotnik_tls_recv(fd[1], bytes, 1, 0), 1);
    assert_true(spotnik_tls_has_input(fd[1]));
    assert_int_equal(spotnik_tls_recv(fd[1], bytes, 1, 0), 1);
    assert_int_equal(send(fd[0], begun, sizeof begun, 0), sizeof begun);
    assert_int_equal(spotnik_tls_recv(fd[1], bytes, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    assert_false(spotnik_tls_has_input(fd[1]));
    spotnik_tls_close(fd[0]);
    spotnik_tls_close(fd[1]);
}

/* Begins a record, and says nothing more. */
static void *half_answer(void *argument)
{
    char bytes[1024];
    int fd = accept(*(int *)argument, NULL, NULL);
    (void)!send(fd, "\x16\x03\x03", 3, MSG_NOSIGNAL);
    while (recv(fd, bytes, sizeof bytes, 0) > 0)
        continue;
    close(fd);
    return NULL;
}

TEST(a_dial_ends_in_time_within_a_record)
{
    struct spotnik_runtime_config config;
    struct spotnik_duplex duplex;
    struct spotnik_member peer;
    pthread_t thread;
    struct sockaddr_in name;
    int listener = listener_open(&name);
    cluster_config(&config, 1);
    config.credentials.tls = &psk;
    assert_int_equal(pthread_create(&thread, NULL, half_answer, &listener), 0);
    assert_int_equal(spotnik_net_dial(&config.credentials, config.credentials.self.address,
                                      ntohs(name.sin_port), SPOTNIK_PURPOSE_STATE, 50 * SPOTNIK_MS,
                                      &duplex, &peer),
                     SPOTNIK_ERR_PEERS);
    pthread_join(thread, NULL);
    close(listener);
}

/* A process may close our descriptors, as a child of fork() does. The number then names another
 * connection, which is bare. */
TEST(a_number_that_was_closed_has_no_tls)
{
    struct ends ends;
    int fd[2];
    tls_open(fd);
    close(fd[0]);
    close(fd[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends.fd), 0);
    assert_true(spotnik_tls_is_on(ends.fd[0]) || spotnik_tls_is_on(ends.fd[1])); /* the former */
    shakes_init(&ends, &psk, &psk, 0);
    for (int i = 0; i < 6; i++)
        ends_turn(&ends, i % 2);
    assert_int_equal(ends.rc[0], 0);
    assert_int_equal(ends.rc[1], 0);
    ends_close(&ends);
}

#define MANY (3u << 20)

/* A small buffer of the kernel: records are cut. Returns how often one was. */
static uint32_t move_many(struct ends *ends, const uint8_t *out, uint8_t *in)
{
    size_t sent = 0, got = 0;
    uint32_t cut = 0;
    for (uint32_t turn = 0; got < MANY; turn++) {
        size_t piece = turn * 7919 % 50000 + 1;
        struct iovec part[2] = { { (void *)(uintptr_t)(out + sent), 1 }, { NULL, 0 } };
        part[0].iov_len = MANY - sent < piece ? MANY - sent : piece / 3;
        part[1].iov_base = (void *)(uintptr_t)(out + sent + part[0].iov_len);
        part[1].iov_len = MANY - sent < piece ? 0 : piece - piece / 3;
        struct msghdr message = { .msg_iov = part, .msg_iovlen = 2 };
        ssize_t moved = spotnik_tls_sendmsg(ends->fd[0], &message, MSG_DONTWAIT);
        assert_true(moved >= 0 || errno == EAGAIN);
        sent += moved > 0 ? (size_t)moved : 0;
        cut += spotnik_tls_promised(ends->fd[0]) > 0;
        moved = spotnik_tls_recv(ends->fd[1], in + got, MANY - got < 9000 ? MANY - got : 9000,
                                 MSG_DONTWAIT);
        assert_true(moved > 0 || errno == EAGAIN);
        got += moved > 0 ? (size_t)moved : 0;
    }
    return cut;
}

TEST(bytes_come_whole_through_a_slow_socket_and_many_keys)
{
    struct ends ends;
    spotnik_tls_key_records = 7;
    int small = 8192;
    uint8_t *out = malloc(MANY), *in = calloc(1, MANY);
    ends_open(&ends, &psk, &psk, 0);
    setsockopt(ends.fd[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof small);
    for (size_t i = 0; i < MANY; i++)
        out[i] = (uint8_t)(i * 31 >> 5);
    assert_true(move_many(&ends, out, in) > 0);
    assert_memory_equal(in, out, MANY);
    assert_int_equal(spotnik_tls_promised(ends.fd[0]), 0);
    spotnik_tls_key_records = UINT64_C(1) << 23;
    free(out);
    free(in);
    ends_close(&ends);
}

/* Bulk under TLS has no tags of ours. */
TEST(under_tls_seals_are_bare)
{
    struct ends ends;
    struct spotnik_duplex duplex;
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(spotnik_duplex_init(&duplex, ends.fd[0], &ends.shake[0].wire), 0);
    assert_true(duplex.send.bare && duplex.receive.bare);
    assert_false(spotnik_duplex_is_local(&duplex));
    ends_close(&ends);
}

/* ---- the end ---- */

static ssize_t heard(const struct ends *ends)
{
    char byte;
    ssize_t got;
    do
        got = spotnik_tls_recv(ends->fd[1], &byte, 1, MSG_DONTWAIT);
    while (got < 0 && errno == EAGAIN);
    return got;
}

TEST(a_close_is_fin_and_nothing_else)
{
    struct ends ends;
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(spotnik_tls_send(ends.fd[0], "x", 1, MSG_DONTWAIT), 1);
    assert_int_equal(heard(&ends), 1);
    spotnik_tls_close(ends.fd[0]);
    char byte;
    assert_int_equal(recv(ends.fd[1], &byte, 1, MSG_PEEK), 0); /* no close_notify */
    assert_int_equal(heard(&ends), 0);
    spotnik_tls_close(ends.fd[1]);
}

/* The kernel tells of RST once, and of FIN afterwards. */
TEST(a_reset_stays_a_reset)
{
    struct ends ends;
    struct linger reset = { .l_onoff = 1 };
    ends_open(&ends, &psk, &psk, 0);
    setsockopt(ends.fd[0], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    spotnik_tls_close(ends.fd[0]);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(heard(&ends), -1);
        assert_int_equal(errno, ECONNRESET);
    }
    spotnik_tls_close(ends.fd[1]);
}

TEST(fin_within_a_record_is_no_end)
{
    static const uint8_t begun[] = { 0x17, 3, 3, 0, 80, 1, 2, 3 };
    for (size_t size = 1; size <= sizeof begun; size++) {
        struct ends ends;
        ends_open(&ends, &psk, &psk, 0);
        assert_int_equal(send(ends.fd[0], begun, size, 0), size);
        spotnik_tls_close(ends.fd[0]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(heard(&ends), -1);
        spotnik_tls_close(ends.fd[1]);
    }
}

/* What stands before it arrives. OpenSSL's errors do not stay in the thread: Python's own TLS would
 * take them for its own. */
TEST(a_foreign_record_is_counted_and_ends_it)
{
    struct ends ends;
    uint64_t before = spotnik_seal_failures();
    uint8_t foreign[5 + 40] = { 0x17, 3, 3, 0, 40 }, bytes[4];
    ends_open(&ends, &psk, &psk, 0);
    assert_int_equal(spotnik_tls_send(ends.fd[0], "xy", 2, MSG_DONTWAIT), 2);
    assert_int_equal(send(ends.fd[0], foreign, sizeof foreign, 0), sizeof foreign);
    assert_int_equal(spotnik_tls_recv(ends.fd[1], bytes, sizeof bytes, 0), 2);
    assert_int_equal(ERR_peek_error(), 0);
    assert_int_equal(heard(&ends), -1);
    assert_int_equal(errno, EBADMSG);
    assert_int_equal(heard(&ends), -1);
    assert_int_equal(spotnik_seal_failures(), before + 1);
    ends_close(&ends);
}
