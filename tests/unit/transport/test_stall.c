/* SPDX-License-Identifier: Apache-2.0 */
/* Small frames do not wait for acknowledgements. A sender that holds a small segment back while an
 * older one is on its way (Nagle), and a receiver that delays its acknowledgement by 40 ms:
 * together they stall small exchanges. First such a stall is made, with two plain sockets; a step
 * of small buckets must take a fraction of it. No limit in seconds: both are measured here, and
 * now. And no connection of ours may hold anything back: the channels, which carry data one way
 * only, would not stall by that alone (the kernel acknowledges at once what is read on such a
 * connection; measured: 0.17 ms a step instead of 0.10), so it is counted. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../runtime/cluster.h"
#include "base/time.h"
#include "runtime/inside.h"
#include "tests.h"

#define MEMBERS 3
#define STEPS 41
#define WARM_UP 20 /* a new connection acknowledges at once for a while */
#define COUNT 1024
#define BUCKETS 3
#define FDS_MAX 1024
#define TIMES 5

struct worker {
    struct spotnik_runtime *runtime;
    unsigned steps;
    uint64_t took_ns[STEPS];
    int rc;
    pthread_t thread;
};

static void *worker_main(void *context)
{
    static float data[MEMBERS][BUCKETS][COUNT];
    struct worker *worker = context;
    unsigned index = (unsigned)(spotnik_runtime_id(worker->runtime).low - 1);
    spotnik_step step;
    for (unsigned i = 0; i < worker->steps && worker->rc == 0; i++) {
        uint64_t begin_ns = spotnik_clock_ns();
        worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
        for (uint32_t k = 0; k < BUCKETS && worker->rc == 0; k++)
            worker->rc = spotnik_runtime_allreduce(worker->runtime, k, data[index][k], COUNT,
                                                   SPOTNIK_F32, SPOTNIK_SUM);
        if (worker->rc == 0)
            worker->rc = spotnik_runtime_step_commit(worker->runtime);
        if (i < STEPS)
            worker->took_ns[i] = spotnik_clock_ns() - begin_ns;
    }
    return NULL;
}

static void start(struct worker *worker)
{
    struct spotnik_runtime_config config;
    struct spotnik_member member[MEMBERS];
    uint64_t epoch;
    for (unsigned i = 0; i < MEMBERS; i++) {
        cluster_config(&config, 1);
        config.transport = "tcp";
        config.credentials.self.id = cluster_id(1 + i);
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < MEMBERS; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(1 + i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    for (unsigned i = 0; i < MEMBERS; i++)
        while (spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch) < MEMBERS)
            sched_yield();
}

static int by_size(const void *a, const void *b)
{
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return one < other ? -1 : one > other;
}

/* Returns the median of `steps` steps. */
static uint64_t run(struct worker *worker, unsigned steps)
{
    for (unsigned i = 0; i < MEMBERS; i++) {
        worker[i].steps = steps;
        assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]), 0);
    }
    for (unsigned i = 0; i < MEMBERS; i++) {
        pthread_join(worker[i].thread, NULL);
        assert_int_equal(worker[i].rc, 0);
    }
    qsort(worker[0].took_ns, steps, sizeof *worker[0].took_ns, by_size);
    return worker[0].took_ns[steps / 2];
}

/* Of all connections of this process, those that hold small segments back. *ret_all: how many there
 * are. */
static unsigned holding_back(unsigned *ret_all)
{
    unsigned count = 0;
    *ret_all = 0;
    for (int fd = 3; fd < FDS_MAX; fd++) {
        int no_delay = 0, listens = 0;
        socklen_t size = sizeof no_delay;
        if (getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &no_delay, &size) != 0)
            continue;
        size = sizeof listens;
        if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens)
            continue;
        count += no_delay == 0;
        ++*ret_all;
    }
    return count;
}

/* Two connected sockets as the kernel makes them. */
static void pair_make(int fd[2])
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&address, sizeof address), 0);
    fd[1] = accept(listener, NULL, NULL);
    assert_true(fd[1] >= 0);
    close(listener);
}

static void *echo_main(void *context)
{
    char bytes[2];
    int fd = *(int *)context;
    while (recv(fd, bytes, sizeof bytes, MSG_WAITALL) == (ssize_t)sizeof bytes
           && send(fd, bytes, 1, MSG_NOSIGNAL) == 1)
        ;
    return NULL;
}

/* Write, write, read: the second write waits for what acknowledges the first, and that waits for a
 * timer. Returns the median. */
static uint64_t stall_make(void)
{
    uint64_t took_ns[STEPS];
    char byte = 1;
    pthread_t thread;
    int fd[2];
    pair_make(fd);
    assert_int_equal(pthread_create(&thread, NULL, echo_main, &fd[1]), 0);
    for (unsigned i = 0; i < STEPS; i++) {
        uint64_t begin_ns = spotnik_clock_ns();
        assert_int_equal(send(fd[0], &byte, 1, 0), 1);
        assert_int_equal(send(fd[0], &byte, 1, 0), 1);
        assert_int_equal(recv(fd[0], &byte, 1, 0), 1);
        took_ns[i] = spotnik_clock_ns() - begin_ns;
    }
    close(fd[0]);
    pthread_join(thread, NULL);
    close(fd[1]);
    qsort(took_ns, STEPS, sizeof *took_ns, by_size);
    return took_ns[STEPS / 2];
}

TEST(small_steps_do_not_stall)
{
    struct worker worker[MEMBERS] = { { .steps = 0 } };
    unsigned all;
    uint64_t stalled_ns = stall_make();
    start(worker);
    run(worker, WARM_UP);
    uint64_t step_ns = run(worker, STEPS);
    unsigned bad = holding_back(&all);
    printf("%u connections, %u hold back; a step of %d buckets of %zu bytes: %.3f ms; a stall: "
           "%.3f ms\n",
           all, bad, BUCKETS, COUNT * sizeof(float), (double)step_ns / 1e6,
           (double)stalled_ns / 1e6);
    for (unsigned i = 0; i < MEMBERS; i++)
        spotnik_runtime_free(worker[i].runtime, true);
    assert_true(all >= 2 * MEMBERS * (MEMBERS - 1));
    assert_int_equal(bad, 0);
    if (stalled_ns < 10 * SPOTNIK_MS) /* this kernel knows no such stall */
        skip();
    assert_true(TIMES * step_ns < stalled_ns);
}
