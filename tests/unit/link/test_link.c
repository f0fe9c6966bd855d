/* SPDX-License-Identifier: Apache-2.0 */
/* Control links and what their end proves (docs/design/0004-proof-of-death.md): a death with unread
 * input is proven, a reset proves nothing, words that the kernel has not taken forbid a clean end,
 * two that dial each other at once end with one link, and a link that nothing is acknowledged on is
 * replaced. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/time.h"
#include "runtime/inside.h"
#include "link/inside.h"
#include "tests.h"

#define ROUNDS 40
#define PATIENCE_NS (20 * SPOTNIK_S)

/* The smaller id: alone, its peer has no quorum unless this one is proven gone. */
static const struct spotnik_id child_id = { .high = 1, .low = 1 },
                               parent_id = { .high = 1, .low = 2 };

static struct spotnik_runtime *runtime_start(struct spotnik_id id)
{
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime;
    cluster_config(&config, 1);
    config.credentials.self.id = id;
    /* each on a host of its own: no patience, no certificates */
    config.credentials.self.host = id.low;
    return spotnik_runtime_new(&config, &runtime) == 0 ? runtime : NULL;
}

static uint32_t view_size(struct spotnik_runtime *runtime)
{
    struct spotnik_member member[4];
    uint64_t epoch;
    return spotnik_runtime_members(runtime, member, 4, &epoch);
}

static struct spotnik_job_status status_of(struct spotnik_runtime *runtime)
{
    spotnik_job_status status;
    spotnik_runtime_status(runtime, &status);
    return status;
}

/* Its death, as far as that can be heard, is to come as RST. */
static void tx_reset_all(struct spotnik_runtime *runtime)
{
    struct linger option = { .l_onoff = 1, .l_linger = 0 };
    spotnik_runtime_lock(runtime);
    for (struct spotnik_link *link = runtime->links->first; link != NULL; link = link->next)
        if (link->tx.socket.fd >= 0)
            setsockopt(link->tx.socket.fd, SOL_SOCKET, SO_LINGER, &option, sizeof option);
    spotnik_runtime_unlock(runtime);
}

/* A process that founds the job, says where it listens, and waits until it is killed. When its view
 * has two members it says so; when it is told something, it will end with RST. */
static void child_main(int out)
{
    struct spotnik_runtime *runtime = runtime_start(child_id);
    char byte;
    if (runtime == NULL || spotnik_runtime_found(runtime, NULL, NULL) != 0)
        _exit(2);
    struct spotnik_member self = spotnik_runtime_credentials(runtime)->self;
    if (write(out, &self, sizeof self) != sizeof self)
        _exit(3);
    while (view_size(runtime) < 2)
        sched_yield();
    if (write(out, "2", 1) != 1 || read(out, &byte, 1) != 1)
        _exit(4);
    tx_reset_all(runtime);
    if (write(out, "r", 1) != 1)
        _exit(5);
    for (;;)
        pause();
}

/* A child and a runtime of ours in one view of two. */
static struct spotnik_runtime *pair_start(pid_t *ret_child, int *ret_socket)
{
    int pair[2];
    struct spotnik_member founder;
    char byte;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    *ret_child = fork();
    assert_true(*ret_child >= 0);
    if (*ret_child == 0) {
        close(pair[0]);
        child_main(pair[1]);
    }
    close(pair[1]);
    assert_int_equal(read(pair[0], &founder, sizeof founder), sizeof founder);
    struct spotnik_runtime *runtime = runtime_start(parent_id);
    assert_non_null(runtime);
    spotnik_runtime_join(runtime, parent_id, 0);
    spotnik_runtime_enter(runtime, &founder);
    assert_int_equal(read(pair[0], &byte, 1), 1);
    while (view_size(runtime) < 2 || status_of(runtime).joining)
        sched_yield();
    *ret_socket = pair[0];
    return runtime;
}

static void wait_for_heartbeats(struct spotnik_runtime *runtime, unsigned beats)
{
    poll(NULL, 0, (int)(beats * runtime->config.limits.heartbeat_ns / SPOTNIK_MS));
}

/* Stopped first, so that it dies with our heartbeats unread and its kernel says RST on that
 * connection: FIN on the other one proves the death all the same, and we go on alone though it had
 * the smaller id. */
TEST(death_with_unread_input_is_proven)
{
    pid_t child;
    int fd;
    struct spotnik_runtime *runtime = pair_start(&child, &fd);
    kill(child, SIGSTOP);
    wait_for_heartbeats(runtime, 3);
    kill(child, SIGKILL);
    uint64_t until_ns = spotnik_clock_ns() + PATIENCE_NS;
    while (view_size(runtime) != 1 && spotnik_clock_ns() < until_ns)
        sched_yield();
    assert_int_equal(view_size(runtime), 1);
    assert_int_equal(status_of(runtime).losses, 1);
    assert_int_equal(waitpid(child, NULL, 0), child);
    spotnik_runtime_free(runtime, true);
    close(fd);
}

/* The same death, but all we hear of it is RST, on a network that is whole and a moment after it
 * had spoken. Its last words may be lost, so it may have gone on without us: we park. */
TEST(reset_proves_nothing)
{
    pid_t child;
    int fd;
    char byte = 0;
    struct spotnik_runtime *runtime = pair_start(&child, &fd);
    assert_int_equal(write(fd, &byte, 1), 1);
    assert_int_equal(read(fd, &byte, 1), 1);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    uint64_t until_ns = spotnik_clock_ns() + PATIENCE_NS;
    while (!status_of(runtime).parked && view_size(runtime) == 2 && spotnik_clock_ns() < until_ns)
        sched_yield();
    wait_for_heartbeats(runtime, 10); /* several ballots more change nothing */
    assert_int_equal(status_of(runtime).parked, 1);
    assert_int_equal(view_size(runtime), 2);
    spotnik_runtime_free(runtime, true);
    close(fd);
}

/* A TCP connection: one end in a pending connection, the other end is returned. */
static int pending_start(struct spotnik_loop *loop, struct spotnik_pending *pending)
{
    uint8_t loopback[16];
    uint16_t port = 0, ignored;
    int listener, fd;
    *pending = (struct spotnik_pending){ .socket.fd = -1 };
    spotnik_address_parse("127.0.0.1", loopback, &ignored);
    assert_int_equal(spotnik_socket_listen(loopback, &port, &listener), 0);
    assert_int_equal(spotnik_socket_connect(loopback, port, 0, &fd), 0);
    struct pollfd entry = { .fd = listener, .events = POLLIN };
    assert_int_equal(poll(&entry, 1, 10000), 1);
    int other = accept(listener, NULL, NULL);
    close(listener);
    assert_true(other >= 0);
    spotnik_shake_init_client(&pending->shake, &(struct spotnik_credentials){ .key = key_new(0) },
                              SPOTNIK_PURPOSE_CONTROL);
    assert_int_equal(spotnik_socket_watch(&pending->socket, loop->epoll_fd, fd,
                                          SPOTNIK_SOCKET_OPENING),
                     0);
    return other;
}

/* A tx connection on one end of a connection; the other end is returned. */
static int tx_start(struct spotnik_loop *loop, struct spotnik_control_tx *tx)
{
    struct spotnik_pending pending;
    int other = pending_start(loop, &pending);
    *tx = (struct spotnik_control_tx){ .socket.fd = -1 };
    assert_int_equal(spotnik_control_tx_open(loop, tx, &pending), 0);
    return other;
}

/* How the connection ends after all that is in it. */
static int end_of(int fd)
{
    static char bytes[65536];
    ssize_t got;
    do
        got = recv(fd, bytes, sizeof bytes, 0);
    while (got > 0);
    int error = got < 0 ? errno : 0;
    close(fd);
    return error;
}

static void say_until_full(struct spotnik_control_tx *tx)
{
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_HEARTBEAT, .epoch = 1 };
    while (tx->out_have == 0)
        spotnik_control_tx_say(tx, &message, 1 << 20);
}

/* Closed while the kernel would not take all of it, a tx connection ends with RST: FIN would say
 * that this was all. Once the peer has read and the rest is gone, it ends with FIN. After a frame
 * that found no room it ends with RST for ever. */
TEST(unsent_words_forbid_a_clean_end)
{
    struct spotnik_loop loop = { .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
    struct spotnik_control_tx tx;
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_HEARTBEAT, .epoch = 1 };
    static char bytes[65536];

    int other = tx_start(&loop, &tx);
    say_until_full(&tx);
    spotnik_control_tx_close(&loop, &tx);
    spotnik_control_tx_free(&tx);
    assert_int_equal(end_of(other), ECONNRESET);

    other = tx_start(&loop, &tx);
    say_until_full(&tx);
    while (tx.out_have > 0) {
        assert_true(recv(other, bytes, sizeof bytes, 0) > 0);
        spotnik_control_tx_flush(&tx);
    }
    spotnik_control_tx_close(&loop, &tx);
    spotnik_control_tx_free(&tx);
    assert_int_equal(end_of(other), 0);

    other = tx_start(&loop, &tx);
    spotnik_control_tx_say(&tx, &message, 1);
    assert_true(tx.clogged);
    spotnik_control_tx_close(&loop, &tx);
    spotnik_control_tx_free(&tx);
    assert_int_equal(end_of(other), ECONNRESET);
    close(loop.epoll_fd);
}

static void tx_end(struct spotnik_loop *loop, struct spotnik_control_tx *tx)
{
    spotnik_control_tx_close(loop, tx);
    spotnik_control_tx_free(tx);
}

/* Whatever comes to this socket is lost before TCP sees it, and so never acknowledged. */
static void deafen(int fd, bool deaf)
{
    struct sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    struct sock_fprog program = { .len = 1, .filter = &nothing };
    assert_int_equal(setsockopt(fd, SOL_SOCKET, deaf ? SO_ATTACH_FILTER : SO_DETACH_FILTER,
                                &program, sizeof program),
                     0);
}

/* A tx connection whose words are not acknowledged for a while is not heard; as soon as they are,
 * it is again. To be quiet is no sign. */
TEST(unacknowledged_is_unheard)
{
    struct spotnik_loop loop = { .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
    struct spotnik_control_tx tx;
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_HEARTBEAT, .epoch = 1 };
    const uint64_t limit_ns = 50 * SPOTNIK_MS;

    int other = tx_start(&loop, &tx);
    poll(NULL, 0, 2 * (int)(limit_ns / SPOTNIK_MS));
    assert_true(spotnik_control_tx_is_heard(&tx, spotnik_clock_ns(), limit_ns));
    deafen(other, true);
    spotnik_control_tx_say(&tx, &message, 1 << 20);
    uint64_t said_ns = spotnik_clock_ns();
    while (spotnik_control_tx_is_heard(&tx, spotnik_clock_ns(), limit_ns))
        assert_true(spotnik_time_since(spotnik_clock_ns(), said_ns) < PATIENCE_NS);
    assert_true(spotnik_time_since(spotnik_clock_ns(), said_ns) >= limit_ns / 2);
    deafen(other, false); /* the next repetition arrives */
    while (!spotnik_control_tx_is_heard(&tx, spotnik_clock_ns(), limit_ns))
        assert_true(spotnik_time_since(spotnik_clock_ns(), said_ns) < PATIENCE_NS);
    spotnik_control_tx_close(&loop, &tx);
    spotnik_control_tx_free(&tx);
    close(other);
    close(loop.epoll_fd);
}

/* A link that nothing was said on for long, and then a question: no answer yet is no sign. */
TEST(a_question_takes_time)
{
    struct spotnik_loop loop = { .epoll_fd = epoll_create1(EPOLL_CLOEXEC) };
    struct spotnik_link link = { .state = SPOTNIK_LINK_UP, .peer.id = parent_id };
    struct spotnik_links links = { .first = &link, .loop = &loop };
    const uint64_t limit_ns = 300 * SPOTNIK_MS;

    int other = tx_start(&loop, &link.tx);
    poll(NULL, 0, 2 * (int)(limit_ns / SPOTNIK_MS)); /* the time that a thread is late */
    deafen(other, true);
    uint64_t asked_ns = spotnik_clock_ns();
    assert_true(spotnik_link_question(&links, parent_id));
    bool heard = spotnik_link_is_heard(&links, parent_id, limit_ns);
    assert_true(heard || spotnik_time_since(spotnik_clock_ns(), asked_ns) >= limit_ns);
    while (spotnik_link_is_heard(&links, parent_id, limit_ns))
        assert_true(spotnik_time_since(spotnik_clock_ns(), asked_ns) < PATIENCE_NS);
    assert_false(spotnik_link_is_heard(&links, child_id, limit_ns)); /* there is none */
    tx_end(&loop, &link.tx);
    close(other);
    close(loop.epoll_fd);
}

struct glance {
    unsigned links, up;
    uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]; /* of one of them */
};

static struct glance look(struct spotnik_runtime *runtime)
{
    struct glance glance = { 0 };
    spotnik_runtime_lock(runtime);
    for (struct spotnik_link *link = runtime->links->first; link != NULL; link = link->next) {
        glance.links++;
        glance.up += link->state == SPOTNIK_LINK_UP;
        memcpy(glance.name, link->name, sizeof glance.name);
    }
    spotnik_runtime_unlock(runtime);
    return glance;
}

static void call(struct spotnik_runtime *runtime, const struct spotnik_member *peer)
{
    spotnik_runtime_lock(runtime);
    spotnik_pending_dial(runtime->links, peer, SPOTNIK_PURPOSE_CONTROL);
    spotnik_runtime_unlock(runtime);
}

/* One link on each side, the same one, and nothing else. */
static bool is_settled(struct spotnik_runtime *a, struct spotnik_runtime *b)
{
    struct glance at_a = look(a), at_b = look(b);
    return at_a.links == 1 && at_a.up == 1 && memcmp(&at_a, &at_b, sizeof at_a) == 0;
}

static bool is_bare(struct spotnik_runtime *a, struct spotnik_runtime *b)
{
    return look(a).links == 0 && look(b).links == 0;
}

/* Both dial at the same moment, again and again: always one link. Hung up by one side, it is gone
 * on both. */
TEST(both_call_at_once)
{
    struct spotnik_runtime *a = runtime_start(child_id), *b = runtime_start(parent_id);
    struct spotnik_member at_a = spotnik_runtime_credentials(a)->self,
                          at_b = spotnik_runtime_credentials(b)->self;
    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t until_ns = spotnik_clock_ns() + PATIENCE_NS;
        call(i % 2 ? a : b, i % 2 ? &at_b : &at_a);
        call(i % 2 ? b : a, i % 2 ? &at_a : &at_b);
        while (!is_settled(a, b) && spotnik_clock_ns() < until_ns)
            sched_yield();
        assert_true(is_settled(a, b));
        spotnik_runtime_lock(a);
        spotnik_link_hang_up(a->links, &at_b, SPOTNIK_GOODBYE_SHUTDOWN);
        spotnik_runtime_unlock(a);
        while (!is_bare(a, b) && spotnik_clock_ns() < until_ns)
            sched_yield();
        assert_true(is_bare(a, b));
    }
    spotnik_runtime_free(a, true);
    spotnik_runtime_free(b, true);
}

/* What a firewall does that forgets its connections: nothing that they carry arrives any more. */
static void forget(struct spotnik_runtime *runtime, struct spotnik_id peer)
{
    spotnik_runtime_lock(runtime);
    for (struct spotnik_link *link = runtime->links->first; link != NULL; link = link->next) {
        deafen(link->tx.socket.fd, true);
        deafen(link->rx.socket.fd, true);
    }
    assert_true(spotnik_link_question(runtime->links, peer));
    spotnik_runtime_unlock(runtime);
}

/* A link that nothing is acknowledged on gives way to a new one, long before a kernel gives it
 * up. */
TEST(deaf_link_is_replaced)
{
    struct spotnik_runtime *a = runtime_start(child_id), *b = runtime_start(parent_id);
    struct spotnik_member at_b = spotnik_runtime_credentials(b)->self;
    uint64_t until_ns = spotnik_clock_ns() + SPOTNIK_USER_TIMEOUT_NS / 2;
    call(a, &at_b);
    while (!is_settled(a, b) && spotnik_clock_ns() < until_ns)
        sched_yield();
    struct glance before = look(a);
    forget(a, parent_id);
    forget(b, child_id);
    while ((look(a).up == 0 || memcmp(look(a).name, before.name, sizeof before.name) == 0
            || !is_settled(a, b))
           && spotnik_clock_ns() < until_ns)
        sched_yield();
    assert_true(is_settled(a, b));
    assert_memory_not_equal(look(a).name, before.name, sizeof before.name);
    spotnik_runtime_free(a, true);
    spotnik_runtime_free(b, true);
}
