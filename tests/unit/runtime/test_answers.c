/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: what a process says to one that looks for the job, or asks for its status, is believed
 * only as it said it. A machine in between, which has no key, flips a bit of each byte, or cuts the
 * end off: the asker notices. An epoch of 0 would let it found the job a second time. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster.h"
#include "link/address.h"
#include "link/auth.h"
#include "link/dial.h"
#include "link/socket.h"
#include "wire/handshake.h"
#include "tests.h"

#define SECOND UINT64_C(1000000000)
#define REPLY_BYTES (SPOTNIK_ANSWER_BYTES + SPOTNIK_AUTH_BYTES)

static struct spotnik_runtime *runtime;

/* The machine in between: one connection after the other. */
static struct {
    int listener;
    uint16_t port;
    /* of what the runtime says after its handshake; the thread may still read it for the connection
     * before */
    _Atomic size_t flip, end;
    pthread_t thread;
} between;

static int dial_runtime(void)
{
    const struct spotnik_member *self = &spotnik_runtime_credentials(runtime)->self;
    struct sockaddr_storage name;
    socklen_t size = spotnik_address_to_kernel(&name, self->address, self->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&name, size), 0);
    return fd;
}

/* Hands over what came; false: it is the end. */
static bool pass(int from, int to, size_t *seen)
{
    uint8_t bytes[4096];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    size_t start = SPOTNIK_HANDSHAKE_ANSWER_BYTES, at = seen != NULL ? *seen : 0;
    if (got <= 0)
        return false;
    size_t keep = (size_t)got;
    if (seen != NULL && start + between.flip >= at && start + between.flip < at + keep)
        bytes[start + between.flip - at] ^= 1;
    if (seen != NULL && at + keep > start + between.end)
        keep = start + between.end - at;
    if (keep > 0)
        (void)!send(to, bytes, keep, MSG_NOSIGNAL);
    if (seen != NULL)
        *seen += (size_t)got;
    return true;
}

static void relay(int asker)
{
    size_t seen = 0;
    int there = dial_runtime();
    struct pollfd end[2] = { { .fd = asker, .events = POLLIN }, { .fd = there, .events = POLLIN } };
    while (poll(end, 2, -1) > 0) {
        if (end[0].revents != 0 && !pass(asker, there, NULL))
            break;
        if (end[1].revents != 0 && !pass(there, asker, &seen))
            break;
    }
    close(there);
    close(asker);
}

static void *between_main(void *context)
{
    int fd;
    (void)context;
    while ((fd = accept4(between.listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
        relay(fd);
    return NULL;
}

static int start(void **state)
{
    struct spotnik_runtime_config config;
    (void)state;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
    spotnik_runtime_found(runtime, NULL, NULL);
    assert_int_equal(spotnik_socket_listen(config.credentials.self.address, &between.port,
                                           &between.listener),
                     0);
    assert_int_equal(fcntl(between.listener, F_SETFL, 0), 0); /* its thread waits */
    assert_int_equal(pthread_create(&between.thread, NULL, between_main, NULL), 0);
    return 0;
}

static int end(void **state)
{
    (void)state;
    shutdown(between.listener, SHUT_RDWR);
    pthread_join(between.thread, NULL);
    close(between.listener);
    spotnik_runtime_free(runtime, true);
    return 0;
}

static int ask(size_t flip, size_t keep, struct spotnik_answer *answer)
{
    struct spotnik_credentials asker = *spotnik_runtime_credentials(runtime);
    asker.self.id = cluster_id(2);
    between.flip = flip;
    between.end = keep;
    return spotnik_net_ask(&asker, asker.self.address, between.port, 20 * SECOND, answer, NULL);
}

TEST_WITH(no_altered_answer_is_believed, start, end)
{
    struct spotnik_answer answer;
    assert_int_equal(ask(SIZE_MAX / 2, REPLY_BYTES, &answer), 0);
    assert_int_equal(answer.epoch, 1);
    for (size_t i = 0; i < REPLY_BYTES; i++) {
        assert_int_equal(ask(i, REPLY_BYTES, &answer), SPOTNIK_ERR_PEERS);
        assert_non_null(strstr(spotnik_last_error(), "altered on its way"));
    }
    for (size_t keep = 0; keep < REPLY_BYTES; keep += 31)
        assert_int_equal(ask(SIZE_MAX / 2, keep, &answer), SPOTNIK_ERR_PEERS);
}

static int question(size_t flip, char **ret_text, size_t *ret_size)
{
    struct spotnik_credentials asker = *spotnik_runtime_credentials(runtime);
    asker.self.id = cluster_id(2);
    between.flip = flip;
    between.end = SIZE_MAX / 2;
    return spotnik_net_question(&asker, asker.self.address, between.port, SPOTNIK_PURPOSE_DUMP,
                                20 * SECOND, ret_text, ret_size);
}

TEST_WITH(no_altered_text_is_believed, start, end)
{
    char *text;
    size_t size;
    assert_int_equal(question(SIZE_MAX / 2, &text, &size), 0);
    assert_int_equal(strlen(text), size);
    assert_in_range(size, 1, 4096);
    free(text);
    for (size_t i = 0; i < size + SPOTNIK_AUTH_BYTES; i++)
        assert_int_equal(question(i, &text, &size), SPOTNIK_ERR_PEERS);
}
