/* SPDX-License-Identifier: Apache-2.0 */
/* The I/O of the handshake over a socket pair: both sides come to the same verdict, whatever the
 * other side is and however the bytes arrive; and addresses in their three forms. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "link/auth.h"
#include "link/shake.h"
#include "tests.h"

static struct spotnik_credentials credentials(uint64_t number)
{
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(number);
    config.credentials.self.port = 1;
    return config.credentials;
}

static void pair_open(int pair[2])
{
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
}

static void pair_close(int pair[2])
{
    close(pair[0]);
    close(pair[1]);
}

/* Run both sides until both have a verdict. */
static void run(struct spotnik_shake *client, struct spotnik_shake *server, int pair[2],
                int *ret_client, int *ret_server)
{
    *ret_client = *ret_server = SPOTNIK_SHAKE_AGAIN;
    for (int i = 0; i < 10 && (*ret_client > 0 || *ret_server > 0); i++) {
        if (*ret_client > 0)
            *ret_client = spotnik_shake_run(client, pair[0]);
        if (*ret_server > 0)
            *ret_server = spotnik_shake_run(server, pair[1]);
    }
}

/* Two that hold the key learn who the other is and what for, and share two keys; what follows stays
 * in the socket. */
TEST(proven_both_ways)
{
    int pair[2], client_rc, server_rc;
    struct spotnik_shake client, server;
    struct spotnik_credentials a = credentials(1), b = credentials(2);
    uint8_t send_a[32], receive_a[32], send_b[32], receive_b[32];
    pair_open(pair);
    spotnik_shake_init_client(&client, &a, SPOTNIK_PURPOSE_DATA);
    spotnik_shake_init_server(&server, &b);
    run(&client, &server, pair, &client_rc, &server_rc);
    assert_int_equal(client_rc, 0);
    assert_int_equal(server_rc, 0);
    assert_true(spotnik_id_equal(client.wire.peer.id, b.self.id));
    assert_true(spotnik_id_equal(server.wire.peer.id, a.self.id));
    assert_int_equal(server.wire.purpose, SPOTNIK_PURPOSE_DATA);
    spotnik_handshake_keys(&client.wire, send_a, receive_a);
    spotnik_handshake_keys(&server.wire, send_b, receive_b);
    assert_memory_equal(send_a, receive_b, 32);
    assert_memory_equal(send_b, receive_a, 32);
    assert_memory_not_equal(send_a, send_b, 32);
    pair_close(pair);
}

/* One wrong thing: both sides name it. */
static void disagree(int expected, void (*spoil)(struct spotnik_credentials *))
{
    int pair[2], client_rc, server_rc;
    struct spotnik_shake client, server;
    struct spotnik_credentials a = credentials(1), b = credentials(2);
    spoil(&a);
    pair_open(pair);
    spotnik_shake_init_client(&client, &a, SPOTNIK_PURPOSE_CONTROL);
    spotnik_shake_init_server(&server, &b);
    run(&client, &server, pair, &client_rc, &server_rc);
    assert_int_equal(client_rc, expected);
    assert_int_equal(server_rc, expected);
    pair_close(pair);
}

static void spoil_key(struct spotnik_credentials *c)
{
    c->key[31] ^= 0x80;
}

static void spoil_job(struct spotnik_credentials *c)
{
    c->job[0] ^= 1;
}

TEST(wrong_key_and_job_are_named)
{
    disagree(SPOTNIK_ERR_KEY, spoil_key);
    disagree(SPOTNIK_ERR_JOB, spoil_job);
}

static void observe(const struct spotnik_credentials *a, enum spotnik_purpose purpose, int expected)
{
    int pair[2], client_rc, server_rc;
    struct spotnik_shake client, server;
    struct spotnik_credentials b = credentials(2);
    pair_open(pair);
    spotnik_shake_init_client(&client, a, purpose);
    spotnik_shake_init_server(&server, &b);
    run(&client, &server, pair, &client_rc, &server_rc);
    assert_int_equal(client_rc, expected);
    assert_int_equal(server_rc, expected);
    if (expected == 0)
        assert_int_equal(server.wire.purpose, SPOTNIK_PURPOSE_OBSERVE);
    pair_close(pair);
}

/* The observer key is good for one purpose, and the job key for all but that one. */
TEST(an_observer_key_asks_for_the_status_alone)
{
    struct spotnik_credentials a = credentials(1), b = credentials(2);
    a.observes = true;
    observe(&a, SPOTNIK_PURPOSE_STATUS, SPOTNIK_ERR_KEY);
    assert_true(spotnik_auth_observer_key(b.key, a.key));
    observe(&a, SPOTNIK_PURPOSE_STATUS, 0);
    a.observes = false;
    for (int purpose = SPOTNIK_PURPOSE_CONTROL; purpose < SPOTNIK_PURPOSE_OBSERVE; purpose++)
        observe(&a, (enum spotnik_purpose)purpose, SPOTNIK_ERR_KEY);
}

static void assert_says(const struct spotnik_shake *shake, const char *versions)
{
    char text[SPOTNIK_SHAKE_TEXT];
    spotnik_shake_text(shake, SPOTNIK_ERR_VERSION, text);
    assert_non_null(strstr(text, versions));
    assert_non_null(strstr(text, "install the same Spotnik on all hosts"));
    assert_true(strlen(text) + 1 < SPOTNIK_SHAKE_TEXT);
}

/* Another wire version is refused by the server, and the refusal is understood: each side names
 * both versions, and says what to do. */
TEST(wrong_version_is_named)
{
    int pair[2], client_rc, server_rc;
    struct spotnik_shake client, server;
    struct spotnik_credentials a = credentials(1), b = credentials(2);
    pair_open(pair);
    spotnik_shake_init_client(&client, &a, SPOTNIK_PURPOSE_CONTROL);
    client.out[8] ^= 0x40; /* the version, behind eight bytes of magic */
    spotnik_shake_init_server(&server, &b);
    run(&client, &server, pair, &client_rc, &server_rc);
    assert_int_equal(server_rc, SPOTNIK_ERR_VERSION);
    assert_int_equal(client_rc, SPOTNIK_ERR_VERSION);
    assert_says(&server, "speaks wire version 65, and we speak 1;");
    assert_says(&client, "speaks wire version 1, and we speak 1;");
    pair_close(pair);
}

/* An unauthenticated peer's bytes get no answer. */
TEST(garbage_is_met_with_silence)
{
    int pair[2];
    char byte, garbage[256];
    struct spotnik_shake server;
    struct spotnik_credentials b = credentials(2);
    srand(1);
    for (int round = 0; round < 200; round++) {
        for (size_t i = 0; i < sizeof garbage; i++)
            garbage[i] = (char)rand();
        pair_open(pair);
        spotnik_shake_init_server(&server, &b);
        assert_int_equal(write(pair[0], garbage, sizeof garbage), sizeof garbage);
        assert_int_equal(spotnik_shake_run(&server, pair[1]), SPOTNIK_ERR_ARGUMENT);
        assert_int_equal(recv(pair[0], &byte, 1, 0), -1);
        pair_close(pair);
    }
}

/* Bytes that come one at a time are waited for, and the end of the connection ends the wait at any
 * of them. */
TEST(slow_bytes_are_waited_for)
{
    struct spotnik_credentials a = credentials(1), b = credentials(2);
    for (size_t cut = 0; cut < SPOTNIK_HANDSHAKE_HELLO_BYTES; cut++) {
        int pair[2];
        struct spotnik_shake client, server;
        pair_open(pair);
        spotnik_shake_init_client(&client, &a, SPOTNIK_PURPOSE_STATUS);
        spotnik_shake_init_server(&server, &b);
        for (size_t i = 0; i < cut; i++) {
            assert_int_equal(write(pair[0], client.out + i, 1), 1);
            assert_int_equal(spotnik_shake_run(&server, pair[1]), SPOTNIK_SHAKE_AGAIN);
        }
        close(pair[0]);
        assert_int_equal(spotnik_shake_run(&server, pair[1]), SPOTNIK_ERR_PEERS);
        close(pair[1]);
    }
}

/* A bit changed anywhere in any message makes both sides fail, or at least the one that reads
 * it. */
TEST(altered_messages_are_refused)
{
    struct spotnik_credentials a = credentials(1), b = credentials(2);
    for (size_t at = 0; at < SPOTNIK_HANDSHAKE_ANSWER_BYTES; at++) {
        int pair[2];
        uint8_t answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES];
        struct spotnik_shake client, server;
        pair_open(pair);
        spotnik_shake_init_client(&client, &a, SPOTNIK_PURPOSE_CONTROL);
        spotnik_shake_init_server(&server, &b);
        assert_int_equal(spotnik_shake_run(&client, pair[0]), SPOTNIK_SHAKE_AGAIN);
        assert_int_equal(spotnik_shake_run(&server, pair[1]), SPOTNIK_SHAKE_AGAIN);
        assert_int_equal(recv(pair[0], answer, sizeof answer, 0), sizeof answer);
        answer[at] ^= 4;
        assert_int_equal(write(pair[1], answer, sizeof answer), sizeof answer);
        assert_true(spotnik_shake_run(&client, pair[0]) != 0);
        pair_close(pair);
    }
}

/* Text to bytes to text. */
TEST(addresses_keep_their_meaning)
{
    const char *good[] = { "127.0.0.1:80", "10.1.2.3:65535", "[::1]:7000", "[fe80::1:2]:1" };
    const char *wrong[] = { "", "1.2.3.4:70000", "1.2.3.4:", "[::1]x", "[::1", "1.2.3.4:-1" };
    char text[SPOTNIK_ADDRESS_TEXT];
    uint8_t address[16], again[16];
    struct sockaddr_storage name;
    for (unsigned i = 0; i < sizeof good / sizeof *good; i++) {
        uint16_t port = 0, port_again;
        assert_int_equal(spotnik_address_parse(good[i], address, &port), 0);
        assert_string_equal(spotnik_address_format(text, address, port), good[i]);
        spotnik_address_to_kernel(&name, address, port);
        spotnik_address_from_kernel(&name, again, &port_again);
        assert_memory_equal(address, again, 16);
        assert_int_equal(port, port_again);
    }
    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint16_t port = 0;
        assert_int_equal(spotnik_address_parse(wrong[i], address, &port), SPOTNIK_ERR_ARGUMENT);
    }
    uint16_t port = 42;
    assert_int_equal(spotnik_address_parse("0.0.0.0", address, &port), 0);
    assert_int_equal(port, 42);
    assert_true(spotnik_address_is_any(address));
    assert_false(spotnik_address_is_loopback(address));
    assert_int_equal(spotnik_address_parse("127.9.9.9", address, &port), 0);
    assert_true(spotnik_address_is_loopback(address));
}
