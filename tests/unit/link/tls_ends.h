/* SPDX-License-Identifier: Apache-2.0 */
/* The two ends of a connection over loopback, and their handshake, with or without TLS. */
#ifndef SPOTNIK_TESTS_LINK_TLS_ENDS_H
#define SPOTNIK_TESTS_LINK_TLS_ENDS_H

#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/clock.h"
#include "base/time.h"
#include "link/shake.h"
#include "link/tls_session.h"
#include "tests.h"

static const struct spotnik_tls_settings psk = { .mode = SPOTNIK_TLS_PSK };

struct ends {
    int fd[2];
    int rc[2];
    struct spotnik_shake shake[2];
};

static inline int listener_open(struct sockaddr_in *ret_name)
{
    socklen_t size = sizeof *ret_name;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    *ret_name =
        (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    assert_int_equal(bind(listener, (struct sockaddr *)ret_name, size), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)ret_name, &size), 0);
    return listener;
}

static inline void pair_open(int pair[2])
{
    struct sockaddr_in name;
    int listener = listener_open(&name);
    pair[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(pair[0], (struct sockaddr *)&name, sizeof name), 0);
    pair[1] = accept(listener, NULL, NULL);
    assert_true(pair[1] >= 0);
    close(listener);
}

/* Goes on with one side, until it has a verdict. */
static inline void ends_turn(struct ends *ends, int which)
{
    if (ends->rc[which] > 0)
        ends->rc[which] = spotnik_shake_run(&ends->shake[which], ends->fd[which]);
    if (ends->rc[which] < 0) /* as its owners do */
        shutdown(ends->fd[which], SHUT_WR);
}

static inline void shakes_init(struct ends *ends, const struct spotnik_tls_settings *client,
                               const struct spotnik_tls_settings *server, uint8_t key_bits)
{
    struct spotnik_runtime_config config;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    config.credentials.self.port = 1;
    config.credentials.tls = client;
    spotnik_shake_init_client(&ends->shake[0], &config.credentials, SPOTNIK_PURPOSE_DATA);
    config.credentials.self.id = cluster_id(2);
    config.credentials.tls = server;
    config.credentials.key[0] ^= key_bits;
    spotnik_shake_init_server(&ends->shake[1], &config.credentials);
    ends->rc[0] = ends->rc[1] = SPOTNIK_SHAKE_AGAIN;
}

static inline bool is_decided(const struct ends *ends, uint64_t until_ns)
{
    return (ends->rc[0] <= 0 && ends->rc[1] <= 0) || spotnik_clock_ns() >= until_ns;
}

static inline void ends_decide(struct ends *ends)
{
    uint64_t until_ns = spotnik_clock_ns() + 10 * SPOTNIK_S;
    for (int i = 0; !is_decided(ends, until_ns); i++)
        ends_turn(ends, i % 2);
}

static inline void ends_open(struct ends *ends, const struct spotnik_tls_settings *client,
                             const struct spotnik_tls_settings *server, uint8_t key_bits)
{
    pair_open(ends->fd);
    shakes_init(ends, client, server, key_bits);
    ends_decide(ends);
}

static inline void ends_close(struct ends *ends)
{
    spotnik_tls_close(ends->fd[0]);
    spotnik_tls_close(ends->fd[1]);
}

static inline void assert_text(const struct ends *ends, int which, int error, const char *part)
{
    char text[SPOTNIK_SHAKE_TEXT];
    assert_int_equal(ends->rc[which], error);
    spotnik_shake_text(&ends->shake[which], error, text);
    if (strstr(text, part) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", text, part);
    assert_true(strlen(text) + 1 < SPOTNIK_SHAKE_TEXT);
}

static inline void assert_good(const struct spotnik_tls_settings *client,
                               const struct spotnik_tls_settings *server)
{
    struct ends ends;
    uint8_t key[4][32];
    ends_open(&ends, client, server, 0);
    assert_int_equal(ends.rc[0], 0);
    assert_int_equal(ends.rc[1], 0);
    assert_true(spotnik_tls_is_on(ends.fd[0]) && spotnik_tls_is_on(ends.fd[1]));
    spotnik_handshake_keys(&ends.shake[0].wire, key[0], key[1]);
    spotnik_handshake_keys(&ends.shake[1].wire, key[2], key[3]);
    assert_memory_equal(key[0], key[3], 32);
    assert_memory_equal(key[1], key[2], 32);
    ends_close(&ends);
}

#endif
