/* SPDX-License-Identifier: Apache-2.0 */
/* Crowds at the acceptor (acceptor.c). Claims: a handshake that has begun, under TLS too, survives
 * any number of unauthenticated peers, from other addresses and from its own, over TCP and from
 * another user over the Unix socket; a newcomer gets in while thousands of addresses crowd the
 * acceptor; the places are bounded; and the runtime's lock is given up between small turns. No
 * claim rests on time. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/time.h"
#include "runtime/inside.h"
#include "link/answer.h"
#include "link/inside.h"
#include "link/tls.h"
#include "tests.h"

enum {
    STRANGERS = 1500,
    ADDRESSES = 200,
    EACH = 5,
    OTHERS = 400,
    WAITING = 500,
    PATIENCE_MS = 30000
};

static struct spotnik_runtime *runtime;
static struct spotnik_credentials caller;
static int stranger[STRANGERS];

static int setup_with(const struct spotnik_tls_settings *tls)
{
    struct rlimit files;
    struct spotnik_runtime_config config;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max < 8192 ? files.rlim_max : 8192;
    setrlimit(RLIMIT_NOFILE, &files);
    for (int i = 0; i < STRANGERS; i++)
        stranger[i] = -1;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    config.credentials.tls = tls;
    assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
    assert_int_equal(spotnik_runtime_found(runtime, NULL, NULL), 0);
    caller = *spotnik_runtime_credentials(runtime);
    caller.self.id = cluster_id(2);
    return 0;
}

static int setup(void **state)
{
    (void)state;
    return setup_with(NULL);
}

static int setup_tls(void **state)
{
    static const struct spotnik_tls_settings psk = { .mode = SPOTNIK_TLS_PSK };
    (void)state;
    return setup_with(&psk);
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < STRANGERS; i++)
        if (stranger[i] >= 0)
            close(stranger[i]);
    spotnik_runtime_free(runtime, true);
    return 0;
}

/* ---- callers ---- */

/* To the runtime's door, from 127.x.y.z. */
static int accepted(uint32_t from)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(0x7f000000 | from) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(spotnik_runtime_credentials(runtime)->self.port);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

static void heard_wait(int fd)
{
    struct pollfd entry = { .fd = fd, .events = POLLIN };
    assert_int_equal(poll(&entry, 1, PATIENCE_MS), 1);
}

struct slow {
    int fd;
    struct spotnik_shake shake;
};

/* Has said HELLO, and the acceptor has answered; the proof is still on its way. */
static void slow_begin(struct slow *slow, int fd)
{
    slow->fd = fd;
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    spotnik_shake_init_client(&slow->shake, &caller, SPOTNIK_PURPOSE_PEERS);
    assert_int_equal(send(fd, slow->shake.out, slow->shake.out_size, MSG_NOSIGNAL),
                     slow->shake.out_size);
    slow->shake.out_at = slow->shake.out_size;
    heard_wait(fd);
}

/* Has said what TLS says first, and the acceptor has answered. */
static void slow_begin_tls(struct slow *slow, int fd)
{
    slow->fd = fd;
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    spotnik_shake_init_client(&slow->shake, &caller, SPOTNIK_PURPOSE_PEERS);
    spotnik_runtime_lock(runtime); /* no answer comes within the call */
    assert_int_equal(spotnik_shake_run(&slow->shake, fd), SPOTNIK_SHAKE_AGAIN);
    spotnik_runtime_unlock(runtime);
    heard_wait(fd);
}

/* The rest arrives, and the answer to the question of who is there comes back. */
static void slow_end(struct slow *slow)
{
    uint8_t answer[SPOTNIK_ANSWER_BYTES];
    size_t have = 0;
    int rc;
    while ((rc = spotnik_shake_run(&slow->shake, slow->fd)) == SPOTNIK_SHAKE_AGAIN)
        heard_wait(slow->fd);
    assert_int_equal(rc, 0);
    while (have < sizeof answer) {
        if (!spotnik_tls_has_input(slow->fd))
            heard_wait(slow->fd);
        ssize_t got = spotnik_tls_recv(slow->fd, answer + have, sizeof answer - have, 0);
        assert_true(got > 0);
        have += (size_t)got;
    }
    spotnik_tls_close(slow->fd);
}

/* ---- the acceptor ---- */

static uint32_t standing(void)
{
    uint32_t count = 0;
    spotnik_runtime_lock(runtime);
    for (struct spotnik_pending *pending = runtime->links->pending_list; pending != NULL;
         pending = pending->next)
        count += !pending->dialled && pending->socket.fd >= 0;
    spotnik_runtime_unlock(runtime);
    return count;
}

/* All but the last `left` unauthenticated peers have been sent away, so all have been taken from
 * the backlog. */
static void sent_away_wait(int count, int left)
{
    char byte;
    for (int i = 0; i < count - left; i++) {
        heard_wait(stranger[i]);
        assert_true(recv(stranger[i], &byte, 1, 0) <= 0);
    }
}

/* One address crowds the acceptor; callers from the member's own address, from another one, and
 * from the very same are half in. */
TEST_WITH(slow_handshakes_survive, setup, teardown)
{
    static struct slow slow[3];
    for (uint32_t i = 0; i < 3; i++)
        slow_begin(&slow[i], accepted(i == 0 ? 1 : i == 1 ? 2 : 9));
    for (int i = 0; i < STRANGERS; i++)
        stranger[i] = accepted(9);
    sent_away_wait(STRANGERS, SPOTNIK_DOOR_OF_ORIGIN);
    assert_true(standing() <= 3 + SPOTNIK_DOOR_OF_ORIGIN);
    for (uint32_t i = 0; i < 3; i++)
        slow_end(&slow[i]);
}

TEST_WITH(a_slow_handshake_of_tls_survives, setup_tls, teardown)
{
    struct slow slow;
    slow_begin_tls(&slow, accepted(9));
    for (int i = 0; i < STRANGERS; i++)
        stranger[i] = accepted(9);
    sent_away_wait(STRANGERS, SPOTNIK_DOOR_OF_ORIGIN);
    slow_end(&slow);
}

/* So many addresses that none has many places. Those that begin in the middle of it get in, too. */
TEST_WITH(newcomers_get_in, setup, teardown)
{
    struct slow before, among;
    slow_begin(&before, accepted(2));
    for (int i = 0; i < ADDRESSES * EACH; i++)
        stranger[i] = accepted(0x100 + (uint32_t)i / EACH);
    slow_begin(&among, accepted(3));
    sent_away_wait(ADDRESSES * EACH, SPOTNIK_DOOR_PLACES);
    assert_true(standing() <= SPOTNIK_DOOR_PLACES + 1);
    slow_end(&before);
    slow_end(&among);
}

/* Those who have said HELLO, too, stand for a bounded time, where others wait for their places. */
TEST_WITH(places_of_an_origin_are_bounded, setup, teardown)
{
    static struct slow slow[SPOTNIK_DOOR_OF_ORIGIN];
    char byte;
    for (int i = 0; i < SPOTNIK_DOOR_OF_ORIGIN; i++)
        slow_begin(&slow[i], accepted(9));
    int late = accepted(9);
    heard_wait(late);
    assert_int_equal(recv(late, &byte, 1, 0), 0); /* there is no place, and nobody goes for it */
    close(late);
    for (int i = 0; i < SPOTNIK_DOOR_OF_ORIGIN; i++)
        slow_end(&slow[i]);
}

/* Knock at the Unix socket, whose name everybody on this host can read, as somebody who may do
 * nothing else. */
static void other_user(int ready)
{
    char byte = 0;
    int fd;
    if (setresuid(65534, 65534, 65534) != 0)
        _exit(2);
    alarm(PATIENCE_MS / 1000);
    for (int i = 0; i < OTHERS; i++)
        while (spotnik_transport_connect(runtime->transport, &caller.self, &fd) != 0)
            sched_yield(); /* the backlog is full */
    if (write(ready, &byte, 1) != 1)
        _exit(3);
    for (;;)
        pause();
}

TEST_WITH(other_users_take_no_place, setup, teardown)
{
    struct slow slow;
    int pair[2], fd;
    char byte;
    if (geteuid() != 0 || !spotnik_transport_is_sharing(runtime->transport))
        skip();
    struct spotnik_member self = spotnik_runtime_credentials(runtime)->self, service = caller.self;
    caller.self = self; /* spotnik_transport_connect() takes it for the one to be called */
    assert_int_equal(spotnik_transport_connect(runtime->transport, &self, &fd), 0);
    caller.self = service;
    slow_begin(&slow, fd);
    caller.self = self;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    pid_t child = fork();
    if (child == 0)
        other_user(pair[1]);
    heard_wait(pair[0]);
    assert_int_equal(recv(pair[0], &byte, 1, 0), 1);
    while (standing() < SPOTNIK_DOOR_OF_ORIGIN) /* they are in the backlog; ours stands besides */
        sched_yield();
    slow_end(&slow);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(pair[0]);
    close(pair[1]);
}

/* Hundreds wait, and whoever wants the lock has it before all of them have been taken. Our thread
 * may be late, so that it sees more of them now and then, but not every time. */
TEST_WITH(turns_are_small, setup, teardown)
{
    uint32_t fewest = WAITING;
    for (int attempt = 0; attempt < 20 && fewest > 2 * SPOTNIK_DOOR_TURN; attempt++) {
        spotnik_runtime_lock(runtime);
        for (int i = 0; i < WAITING; i++)
            stranger[i] = accepted(0x100 + (uint32_t)i % 16);
        spotnik_runtime_unlock(runtime);
        uint32_t count = standing();
        fewest = count < fewest ? count : fewest;
        for (int i = 0; i < WAITING; i++) {
            close(stranger[i]);
            stranger[i] = -1;
        }
        while (standing() > 0)
            sched_yield();
    }
    assert_true(fewest <= 2 * SPOTNIK_DOOR_TURN);
}
