/* SPDX-License-Identifier: Apache-2.0 */
/* Channels of several connections. From outside: sums are right, and the connections are there and
 * used. From inside, at the receiving end: frames take their turn across connections, wait for it
 * in the scratch, are void when their epoch is over, and a turn that cannot be ends the channel. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/time.h"
#include "transport/inside.h"
#include "runtime/inside.h"
#include "link/inside.h"
#include "tests.h"

#define MEMBERS 3
#define COUNT 300007
#define LONG_COUNT (4 << 20)
#define STEPS 40
#define PATIENCE_NS (20 * SPOTNIK_S)
#define ELEMENTS 1000

/* ---- whole runtimes ---- */

struct worker {
    struct spotnik_runtime *runtime;
    unsigned index;
    bool right;
    int rc;
    pthread_t thread;
};

static void step(struct worker *worker, float *data)
{
    spotnik_step step;
    worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
    for (unsigned i = 0; worker->rc == 0 && i < COUNT; i++)
        data[i] = (float)((worker->index + 1) * (i % 11) + step.number);
    if (worker->rc == 0)
        worker->rc =
            spotnik_runtime_allreduce(worker->runtime, 0, data, COUNT, SPOTNIK_F32, SPOTNIK_SUM);
    if (worker->rc == 0)
        worker->rc = spotnik_runtime_step_commit(worker->runtime);
    for (unsigned i = 0; i < COUNT; i++)
        worker->right &= data[i] == (float)(6 * (i % 11) + 3 * step.number);
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    float *data = malloc(COUNT * sizeof *data);
    worker->right = true;
    for (unsigned i = 0; i < STEPS && worker->rc == 0; i++)
        step(worker, data);
    free(data);
    return NULL;
}

static void start(struct worker *worker, const char *channels, bool apart)
{
    struct spotnik_runtime_config config;
    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, 1);
        config.limits.chunk_bytes = 8192; /* many frames */
        config.transport = "tcp";
        config.channels = channels;
        config.credentials.self.id = cluster_id(10 - i);
        config.credentials.self.host = apart ? i + 1 : 1;
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
        worker[i].index = i;
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self,
                          member[MEMBERS];
    uint64_t epoch;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(10 - i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        while (spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch) < MEMBERS)
            sched_yield();
}

static void run(struct worker *worker)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]), 0);
    for (unsigned i = 0; i < MEMBERS; i++)
        pthread_join(worker[i].thread, NULL);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(worker[i].rc, 0);
        assert_true(worker[i].right);
    }
}

/* Connections to the member we send most to. */
static uint32_t widest(struct spotnik_runtime *runtime)
{
    struct spotnik_channel_status channel[SPOTNIK_LANES];
    uint32_t count = spotnik_runtime_channels(runtime, channel, SPOTNIK_LANES), most = 0;
    for (uint32_t i = 0; i < count; i++)
        if (channel[i].connections > most)
            most = channel[i].connections;
    return most;
}

static void sums_are_right_over(const char *channels, bool apart, uint32_t width)
{
    struct worker worker[MEMBERS] = { { .index = 0 } };
    start(worker, channels, apart);
    run(worker);
    uint64_t until_ns = spotnik_clock_ns() + PATIENCE_NS;
    for (unsigned i = 0; i < MEMBERS; i++)
        while (widest(worker[i].runtime) < width) {
            assert_true(spotnik_clock_ns() < until_ns);
            sched_yield();
        }
    run(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(widest(worker[i].runtime), width);
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_runtime_free(worker[i].runtime, true);
}

TEST(as_many_as_are_asked_for)
{
    sums_are_right_over("8", false, 8);
}

TEST(four_between_hosts)
{
    sums_are_right_over(NULL, true, 4);
}

/* Nobody has committed anything: that the other side reads is known from what it has taken. */
TEST(a_long_first_step_is_enough)
{
    struct worker worker[MEMBERS] = { { .index = 0 } };
    float *data[MEMBERS];
    start(worker, "4", false);
    for (unsigned i = 0; i < MEMBERS; i++) {
        spotnik_step step;
        data[i] = calloc(LONG_COUNT, sizeof(float));
        assert_int_equal(spotnik_runtime_step_begin(worker[i].runtime, false, &step), 0);
        assert_int_equal(spotnik_runtime_allreduce(worker[i].runtime, 0, data[i], LONG_COUNT,
                                                   SPOTNIK_F32, SPOTNIK_SUM),
                         0);
    }
    uint64_t until_ns = spotnik_clock_ns() + PATIENCE_NS;
    for (unsigned i = 0; i < MEMBERS; i++)
        while (widest(worker[i].runtime) < 4) {
            assert_true(spotnik_clock_ns() < until_ns);
            sched_yield();
        }
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(worker[i].runtime->stand.committed, 0);
        spotnik_runtime_free(worker[i].runtime, false);
        free(data[i]);
    }
}

TEST(one_does_on_one_host)
{
    struct worker worker[MEMBERS] = { { .index = 0 } };
    start(worker, NULL, false);
    run(worker);
    for (unsigned i = 0; i < MEMBERS; i++)
        assert_int_equal(widest(worker[i].runtime), 1);
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_runtime_free(worker[i].runtime, true);
}

TEST(other_words_are_refused)
{
    static const char *const bad[] = { "0", "9", "10", "4x", "x", "-1", "auto" };
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime;
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cluster_config(&config, 1);
        config.credentials.self.id = cluster_id(1);
        config.channels = bad[i];
        assert_int_equal(spotnik_runtime_new(&config, &runtime), SPOTNIK_ERR_ARGUMENT);
        assert_non_null(strstr(spotnik_last_error(), "SPOTNIK_LANES"));
    }
}

/* ---- frames by hand ---- */

struct side {
    struct spotnik_inbound *inbound;
    int fd; /* of who sends */
};

/* The lock is held from here on. */
static struct spotnik_runtime *alone(void)
{
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime = NULL;
    cluster_config(&config, 1);
    config.credentials.self.id = cluster_id(1);
    assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
    spotnik_runtime_found(runtime, NULL, NULL);
    spotnik_runtime_lock(runtime);
    return runtime;
}

static struct side side_new(struct spotnik_runtime *runtime, uint8_t name, uint8_t widened)
{
    /* the progress thread may yet hold an event that names one */
    static struct spotnik_pending openings[64];
    static unsigned used;
    struct spotnik_pending *pending = &openings[used++];
    int fd[2];
    assert_in_range(used, 1, sizeof openings / sizeof *openings);
    pending->socket.fd = -1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd), 0);
    assert_int_equal(spotnik_socket_watch(&pending->socket, runtime->loop.epoll_fd, fd[0],
                                          SPOTNIK_SOCKET_OPENING),
                     0);
    pending->shake.wire.peer.id = cluster_id(2);
    memset(pending->shake.wire.answer, name, sizeof pending->shake.wire.answer);
    memset(pending->shake.wire.hello, widened, sizeof pending->shake.wire.hello);
    if (widened == 0)
        spotnik_inbound_adopt(runtime->transport, pending);
    else
        spotnik_inbound_add(runtime->transport, pending);
    if (pending->socket.fd >= 0) { /* not wanted */
        close(spotnik_socket_release(&pending->socket, runtime->loop.epoll_fd));
        close(fd[1]);
        return (struct side){ .fd = -1 };
    }
    return (struct side){ .inbound = runtime->transport->inbounds, .fd = fd[1] };
}

static void say(const struct side *side, uint64_t epoch, uint64_t turn)
{
    static const uint8_t payload[ELEMENTS];
    struct spotnik_chunk_header header = { .handover = epoch == 0,
                                           .dtype = SPOTNIK_U8,
                                           .op = SPOTNIK_SUM,
                                           .epoch = epoch,
                                           .step = 1,
                                           .count = ELEMENTS };
    uint8_t prefix[SPOTNIK_DATA_PREFIX_BYTES];
    spotnik_data_encode(&header, turn, ELEMENTS, prefix);
    assert_int_equal(send(side->fd, prefix, sizeof prefix, 0), sizeof prefix);
    assert_int_equal(send(side->fd, payload, ELEMENTS, 0), ELEMENTS);
    side->inbound->socket.readable = true;
}

static bool is_closed(const struct side *side)
{
    uint8_t byte;
    ssize_t got = recv(side->fd, &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
}

static void end(struct spotnik_runtime *runtime)
{
    spotnik_runtime_unlock(runtime);
    spotnik_runtime_free(runtime, false);
}

/* A frame of a later epoch than ours waits for our next view, when its turn has come; what is
 * behind it in turn is read and kept. */
TEST(a_frame_before_its_turn_is_kept)
{
    struct spotnik_runtime *runtime = alone();
    struct side head = side_new(runtime, 1, 0), more = side_new(runtime, 2, 1);
    assert_int_equal(head.inbound->width, 2);
    say(&more, 9, 1);
    say(&more, 9, 2);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_int_equal(more.inbound->state, SPOTNIK_STREAM_AHEAD);
    assert_int_equal(more.inbound->have, ELEMENTS);
    assert_int_equal(more.inbound->frame_turn, 1);
    say(&head, 9, 0);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_int_equal(head.inbound->state, SPOTNIK_STREAM_WAIT);
    assert_int_equal(more.inbound->state, SPOTNIK_STREAM_AHEAD);
    say(&more, 10, 0); /* behind two of an epoch that is over for its sender: nobody knows yet */
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_int_equal(more.inbound->frame_turn, 1);
    close(head.fd);
    close(more.fd);
    end(runtime);
}

/* A cut leaves a gap in the turns of its epoch. Nothing waits for it once a frame of the next has
 * come on any connection. */
TEST(a_gap_ends_with_the_epoch)
{
    struct spotnik_runtime *runtime = alone();
    struct side head = side_new(runtime, 1, 0), more = side_new(runtime, 2, 1);
    say(&more, 9, 5);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_int_equal(more.inbound->state, SPOTNIK_STREAM_AHEAD);
    say(&head, 10, 0);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_int_equal(head.inbound->state, SPOTNIK_STREAM_WAIT);
    assert_int_equal(more.inbound->state, SPOTNIK_STREAM_PREFIX); /* void, and gone */
    close(head.fd);
    close(more.fd);
    end(runtime);
}

/* And once our own view is a later one: what is behind the gap may be the very frame that would
 * tell. */
TEST(a_gap_ends_with_our_view)
{
    struct spotnik_runtime *runtime = alone();
    struct side head = side_new(runtime, 1, 0), more = side_new(runtime, 2, 1);
    say(&more, 0, 5); /* ours is 1 */
    say(&more, 9, 0);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_int_equal(more.inbound->state, SPOTNIK_STREAM_WAIT);
    assert_int_equal(more.inbound->header.epoch, 9);
    close(head.fd);
    close(more.fd);
    end(runtime);
}

TEST(a_turn_that_was_taken_ends_the_channel)
{
    struct spotnik_runtime *runtime = alone();
    struct side head = side_new(runtime, 1, 0), more = side_new(runtime, 2, 1);
    say(&head, 9, 0);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    head.inbound->turn = 3; /* as if it had been dealt with, and two more */
    say(&more, 9, 2);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_true(is_closed(&head));
    assert_true(is_closed(&more));
    close(head.fd);
    close(more.fd);
    end(runtime);
}

/* With one connection there is nothing to wait for. */
TEST(a_gap_on_one_connection_ends_it)
{
    struct spotnik_runtime *runtime = alone();
    struct side head = side_new(runtime, 1, 0);
    say(&head, 9, 1);
    spotnik_transport_read(runtime->transport, SIZE_MAX);
    assert_true(is_closed(&head));
    close(head.fd);
    end(runtime);
}

TEST(only_what_stands_can_be_widened)
{
    struct spotnik_runtime *runtime = alone();
    struct side head = side_new(runtime, 1, 0), more[SPOTNIK_WIDTH_MAX],
                stray = side_new(runtime, 2, 7);
    assert_int_equal(stray.fd, -1);
    for (unsigned i = 1; i < SPOTNIK_WIDTH_MAX; i++) {
        more[i] = side_new(runtime, (uint8_t)(10 + i), 1);
        assert_true(more[i].fd >= 0);
    }
    assert_int_equal(side_new(runtime, 100, 1).fd, -1); /* as many as there may be */
    struct side again = side_new(runtime, 3, 0); /* a new first one: the old channel is dead */
    assert_true(is_closed(&head));
    for (unsigned i = 1; i < SPOTNIK_WIDTH_MAX; i++) {
        assert_true(is_closed(&more[i]));
        close(more[i].fd);
    }
    assert_int_equal(again.inbound->width, 1);
    close(head.fd);
    close(again.fd);
    end(runtime);
}
