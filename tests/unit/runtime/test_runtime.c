/* SPDX-License-Identifier: Apache-2.0 */
/* Whole runtimes over loopback, several in one process: results are right, the loss of a member is
 * survived with the step it was lost in, leaving and joining work, unauthenticated peers are kept
 * out. */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cluster.h"
#include "runtime/inside.h"
#include "tests.h"

#define MEMBERS 3
#define COUNT 100003                      /* no multiple of anything */
#define PATIENCE_NS UINT64_C(20000000000) /* ends a test that hangs, and promises nothing */

struct worker {
    struct spotnik_runtime *runtime;
    unsigned index;
    unsigned steps;     /* commits to make */
    unsigned die_after; /* abandon inside this step (bucket started); 0: never */
    unsigned buckets;
    bool leave;
    int rc;
    unsigned committed;
    float sum, mean; /* element 1 of the last results */
    bool equal;      /* every element of every result was as it should be */
    uint32_t size;   /* of the last view */
    pthread_t thread;
};

static bool fill_and_start(struct worker *worker, float *sum, float *mean, uint64_t step)
{
    for (unsigned i = 0; i < COUNT; i++) {
        sum[i] = (float)((worker->index + 1) * (i % 7));
        mean[i] = (float)(step + worker->index);
    }
    worker->rc = spotnik_runtime_weight_set(worker->runtime, worker->index + 1);
    if (worker->rc == 0)
        worker->rc =
            spotnik_runtime_allreduce(worker->runtime, 0, sum, COUNT, SPOTNIK_F32, SPOTNIK_SUM);
    if (worker->rc == 0)
        worker->rc =
            spotnik_runtime_allreduce(worker->runtime, 5, mean, COUNT, SPOTNIK_F32, SPOTNIK_MEAN);
    return worker->rc == 0;
}

/* All elements of one kind are the same on all members by construction. */
static void results_check(struct worker *worker, const float *sum, const float *mean)
{
    for (unsigned i = 0; i < COUNT; i++)
        worker->equal &= sum[i] == sum[1] * (float)(i % 7) && mean[i] == mean[1];
    worker->sum = sum[1];
    worker->mean = mean[1];
}

static void *worker_main(void *context)
{
    struct worker *worker = context;
    float *sum = malloc(COUNT * sizeof *sum), *mean = malloc(COUNT * sizeof *mean);
    spotnik_step step;
    worker->equal = true;
    while (worker->committed < worker->steps) {
        worker->rc = spotnik_runtime_step_begin(worker->runtime, false, &step);
        if (worker->rc != 0 || !fill_and_start(worker, sum, mean, step.number))
            break;
        if (worker->die_after != 0 && step.number == worker->die_after) {
            spotnik_runtime_free(worker->runtime, false);
            worker->runtime = NULL;
            break;
        }
        worker->rc = spotnik_runtime_step_commit(worker->runtime);
        if (worker->rc != 0)
            break;
        worker->committed++;
        worker->size = step.size;
        results_check(worker, sum, mean);
    }
    if (worker->runtime != NULL && worker->leave && worker->rc == 0)
        worker->rc = spotnik_runtime_leave(worker->runtime, PATIENCE_NS);
    free(sum);
    free(mean);
    return NULL;
}

/* Until everybody is in everybody's view: a condition, asked for again and again. */
static void cluster_gather(struct worker *worker, unsigned members)
{
    struct spotnik_member member[MEMBERS];
    uint64_t epoch;
    for (unsigned i = 0; i < members; i++)
        while (spotnik_runtime_members(worker[i].runtime, member, MEMBERS, &epoch) < members)
            sched_yield();
}

static void cluster_start(struct worker *worker, unsigned members)
{
    struct spotnik_runtime_config config;
    for (unsigned i = 0; i < members; i++) {
        cluster_config(&config, 1);
        config.credentials.self.id = cluster_id(10 - i);
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
        worker[i].index = i;
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    for (unsigned i = 1; i < members; i++) {
        spotnik_runtime_join(worker[i].runtime, cluster_id(10 - i), 0);
        spotnik_runtime_enter(worker[i].runtime, &first);
    }
    cluster_gather(worker, members);
}

static void cluster_run(struct worker *worker, unsigned members)
{
    for (unsigned i = 0; i < members; i++)
        pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]);
    for (unsigned i = 0; i < members; i++)
        pthread_join(worker[i].thread, NULL);
}

static void cluster_free(struct worker *worker, unsigned members)
{
    for (unsigned i = 0; i < members; i++)
        spotnik_runtime_free(worker[i].runtime, true);
}

/* Weighted mean of step + index with weights index + 1 over members 0..n-1. */
static float mean_expected(uint64_t step, unsigned members)
{
    double sum = 0, weight = 0;
    for (unsigned i = 0; i < members; i++) {
        sum += (double)(i + 1) * (double)(step + i);
        weight += i + 1;
    }
    return (float)(sum / weight);
}

/* Sums and weighted means of three members are right, step after step, and all leave. */
TEST(three_members_reduce)
{
    struct worker worker[MEMBERS] = { 0 };
    cluster_start(worker, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        worker[i].steps = 20;
        worker[i].leave = true;
    }
    cluster_run(worker, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++) {
        assert_int_equal(worker[i].rc, 0);
        assert_int_equal(worker[i].committed, 20);
        assert_true(worker[i].equal);
        assert_true(worker[i].sum == 1 + 2 + 3);
        assert_true(worker[i].mean - mean_expected(20, 3) < 1e-4f
                    && mean_expected(20, 3) - worker[i].mean < 1e-4f);
        assert_int_equal(worker[i].size, 3);
    }
    cluster_free(worker, MEMBERS);
}

/* A member vanishes after it has started its bucket: the two others commit that very step, without
 * it or with its whole contribution, and go on. */
TEST(survivors_commit)
{
    struct worker worker[MEMBERS] = { 0 };
    cluster_start(worker, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++)
        worker[i].steps = 20;
    worker[2].die_after = 8;
    cluster_run(worker, MEMBERS);
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(worker[i].rc, 0);
        assert_int_equal(worker[i].committed, 20);
        assert_true(worker[i].equal);
        assert_true(worker[i].sum == 1 + 2);
        assert_int_equal(worker[i].size, 2);
        spotnik_job_status status;
        spotnik_runtime_status(worker[i].runtime, &status);
        assert_int_equal(status.losses, 1);
        assert_int_equal(status.size, 2);
    }
    assert_true(worker[0].mean == worker[1].mean);
    cluster_free(worker, 2);
}

/* The founder dies with the others in the middle of a step: the last one goes on alone when the two
 * others are proven gone. */
TEST(last_one_goes_on)
{
    struct worker worker[MEMBERS] = { 0 };
    cluster_start(worker, MEMBERS);
    for (unsigned i = 0; i < MEMBERS; i++)
        worker[i].steps = 12;
    worker[0].die_after = 5;
    worker[2].die_after = 5;
    cluster_run(worker, MEMBERS);
    assert_int_equal(worker[1].rc, 0);
    assert_int_equal(worker[1].committed, 12);
    assert_true(worker[1].equal);
    assert_true(worker[1].sum == 2);
    spotnik_runtime_free(worker[1].runtime, true);
}

static int step_of(struct spotnik_runtime *runtime, size_t count)
{
    float data[8] = { 0 };
    spotnik_step step;
    int rc = spotnik_runtime_step_begin(runtime, false, &step);
    if (rc == 0)
        rc = spotnik_runtime_allreduce(runtime, 0, data, count, SPOTNIK_F32, SPOTNIK_SUM);
    return rc == 0 ? spotnik_runtime_step_commit(runtime) : rc;
}

/* Equal steps, and then one with a bucket whose size depends on the member. */
static void *odd_main(void *context)
{
    struct worker *worker = context;
    for (unsigned i = 0; i < worker->steps && worker->rc == 0; i++)
        worker->rc = step_of(worker->runtime, 4);
    if (worker->rc == 0)
        worker->rc = step_of(worker->runtime, 4 + worker->index);
    spotnik_runtime_free(worker->runtime, false);
    return NULL;
}

/* Different programs are told apart by an error on the member that meets the difference first; the
 * other one meets it too, or goes on without the first. Nobody hangs. */
static void differ_after(unsigned steps)
{
    struct worker worker[2] = { { .steps = steps }, { .steps = steps } };
    cluster_start(worker, 2);
    for (unsigned i = 0; i < 2; i++)
        pthread_create(&worker[i].thread, NULL, odd_main, &worker[i]);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(worker[i].thread, NULL);
    assert_true(worker[0].rc == SPOTNIK_ERR_MISMATCH || worker[1].rc == SPOTNIK_ERR_MISMATCH);
    for (unsigned i = 0; i < 2; i++)
        assert_true(worker[i].rc == SPOTNIK_ERR_MISMATCH || worker[i].rc == 0);
}

TEST(mismatch_is_an_error)
{
    differ_after(0);
}

/* Here the bucket that differs lies in memory, and a member that looks there sees it at once. Not
 * every time both look: so again and again. */
TEST(mismatch_in_memory_is_an_error)
{
    for (unsigned i = 0; i < 20; i++)
        differ_after(3);
}

/* Calls that do not fit are refused and change nothing. */
TEST(wrong_calls_are_refused)
{
    struct worker worker[1] = { 0 };
    float data[4] = { 1, 2, 3, 4 };
    spotnik_step step;
    cluster_start(worker, 1);
    struct spotnik_runtime *runtime = worker[0].runtime;
    assert_int_equal(spotnik_runtime_step_commit(runtime), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_runtime_allreduce(runtime, 0, data, 4, SPOTNIK_F32, SPOTNIK_SUM),
                     SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_runtime_step_begin(runtime, false, &step), 0);
    assert_int_equal(spotnik_runtime_step_begin(runtime, false, &step), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_runtime_allreduce(runtime, SPOTNIK_BUCKETS_MAX, data, 4, SPOTNIK_F32,
                                               SPOTNIK_SUM),
                     SPOTNIK_ERR_LIMIT);
    assert_int_equal(spotnik_runtime_allreduce(runtime, 0, data, 4, (enum spotnik_dtype)99,
                                               SPOTNIK_SUM),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_runtime_allreduce(runtime, 0, NULL, 4, SPOTNIK_F32, SPOTNIK_SUM),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_runtime_allreduce(runtime, 0, data, 4, SPOTNIK_F32, SPOTNIK_MEAN), 0);
    assert_int_equal(spotnik_runtime_allreduce(runtime, 0, data, 4, SPOTNIK_F32, SPOTNIK_MEAN),
                     SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_runtime_step_commit(runtime), 0);
    assert_true(data[3] == 4);
    spotnik_runtime_free(runtime, true);
}

/* A notice ends the loop with LEAVING, also while step_begin waits for members that never come. */
TEST(notice_ends_the_wait)
{
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime;
    spotnik_step step;
    cluster_config(&config, 2);
    assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
    spotnik_runtime_found(runtime, NULL, NULL);
    spotnik_runtime_notice(runtime);
    assert_int_equal(spotnik_runtime_step_begin(runtime, false, &step), SPOTNIK_ERR_LEAVING);
    assert_int_equal(spotnik_runtime_leave(runtime, PATIENCE_NS), 0);
    spotnik_runtime_free(runtime, true);
}

/* A notice comes to a joiner before it has asked the members. The thread that follows the job gets
 * near a moment later, while the caller is on its way out. */
TEST(joiner_with_a_notice_does_not_ask)
{
    struct spotnik_runtime_config config;
    struct spotnik_runtime *runtime;
    struct spotnik_member sponsor = { .id = cluster_id(10) };
    spotnik_step step;
    cluster_config(&config, 1);
    assert_int_equal(spotnik_runtime_new(&config, &runtime), 0);
    spotnik_runtime_join(runtime, cluster_id(9), 0);
    spotnik_runtime_notice(runtime);
    assert_int_equal(spotnik_runtime_step_begin(runtime, false, &step), SPOTNIK_ERR_LEAVING);
    spotnik_runtime_enter(runtime, &sponsor);
    assert_false(runtime->entering);
    assert_int_equal(spotnik_runtime_step_begin(runtime, false, &step), SPOTNIK_ERR_LEAVING);
    spotnik_runtime_free(runtime, true);
}

/* A joiner asks to be let in and then gives up (its donors are lost, say). It must not be in the
 * view for good: nobody steps for it, and the others would wait for ever. */
TEST(joiner_that_gives_up_is_not_waited_for)
{
    struct worker worker[2] = { { .steps = 10, .buckets = 2 }, { .steps = 0 } };
    struct spotnik_runtime_config config;
    for (unsigned i = 0; i < 2; i++) {
        cluster_config(&config, 1);
        config.credentials.self.id = cluster_id(10 - i);
        assert_int_equal(spotnik_runtime_new(&config, &worker[i].runtime), 0);
    }
    struct spotnik_member first = spotnik_runtime_credentials(worker[0].runtime)->self;
    spotnik_runtime_found(worker[0].runtime, NULL, NULL);
    spotnik_runtime_join(worker[1].runtime, cluster_id(9), 0);
    spotnik_runtime_enter(worker[1].runtime, &first);
    spotnik_runtime_interrupt(worker[1].runtime);
    spotnik_runtime_forget(worker[1].runtime);
    cluster_run(worker, 1);
    assert_int_equal(worker[0].rc, 0);
    assert_int_equal(worker[0].committed, 10);
    cluster_free(worker, 2);
}

/* A caller that waits for its commit looks for a moment and then sleeps, and so does its progress
 * thread: both members together, one waiting for the other for a second, take less than a tenth of
 * a processor, under the thread sanitizer, too. One that spins takes all of it. */
TEST(waiting_costs_no_processor)
{
    struct worker worker[2] = { { .steps = 1, .buckets = 2 }, { .steps = 1, .buckets = 2 } };
    struct timespec second = { .tv_sec = 1 }, begin, end;
    cluster_start(worker, 2);
    pthread_create(&worker[0].thread, NULL, worker_main, &worker[0]);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &begin);
    nanosleep(&second, NULL);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    pthread_create(&worker[1].thread, NULL, worker_main, &worker[1]);
    for (unsigned i = 0; i < 2; i++)
        pthread_join(worker[i].thread, NULL);
    assert_int_equal(worker[0].committed, 1);
    double used_s =
        (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    print_message("a second of waiting took %.2f ms of processor time\n", used_s * 1e3);
    assert_true(used_s < 0.1);
    cluster_free(worker, 2);
}

/* Unauthenticated peers get the right error and disturb nothing; the acceptor remembers the last
 * one. */
TEST(strangers_are_refused)
{
    struct worker worker[1] = { 0 };
    char text[256];
    struct spotnik_duplex duplex;
    struct spotnik_member peer;
    struct spotnik_answer answer;
    cluster_start(worker, 1);
    struct spotnik_credentials good = *spotnik_runtime_credentials(worker[0].runtime), bad = good;
    bad.self.id = cluster_id(77);
    bad.key = key_copy(good.key);
    bad.key[0] ^= 1;
    assert_int_equal(spotnik_net_dial(&bad, good.self.address, good.self.port,
                                      SPOTNIK_PURPOSE_CONTROL, PATIENCE_NS, &duplex, &peer),
                     SPOTNIK_ERR_KEY);
    assert_non_null(strstr(spotnik_last_error(), "key"));
    bad = good;
    bad.self.id = cluster_id(78);
    bad.job[0] ^= 1;
    assert_int_equal(spotnik_net_dial(&bad, good.self.address, good.self.port,
                                      SPOTNIK_PURPOSE_CONTROL, PATIENCE_NS, &duplex, &peer),
                     SPOTNIK_ERR_JOB);
    good.self.id = cluster_id(79);
    assert_int_equal(spotnik_net_ask(&good, good.self.address, good.self.port, PATIENCE_NS, &answer,
                                     NULL),
                     0);
    assert_int_equal(answer.epoch, 1);
    assert_int_equal(spotnik_runtime_refusals(worker[0].runtime, text, sizeof text), 2);
    assert_non_null(strstr(text, "another job"));
    spotnik_runtime_free(worker[0].runtime, true);
    bool refused;
    assert_int_equal(spotnik_net_ask(&good, good.self.address, good.self.port, PATIENCE_NS, &answer,
                                     &refused),
                     SPOTNIK_ERR_PEERS);
    assert_true(refused);
}

/* Somebody who holds the key and talks nonsense afterwards is sent away, on every kind of
 * connection; the job does not notice. */
TEST(nonsense_after_the_handshake)
{
    struct worker worker[1] = { 0 };
    float data[4] = { 1, 2, 3, 4 };
    spotnik_step step;
    cluster_start(worker, 1);
    struct spotnik_runtime *runtime = worker[0].runtime;
    struct spotnik_credentials good = *spotnik_runtime_credentials(runtime);
    assert_int_equal(spotnik_runtime_step_begin(runtime, false, &step), 0);
    assert_int_equal(spotnik_runtime_allreduce(runtime, 0, data, 4, SPOTNIK_F32, SPOTNIK_SUM), 0);
    srand(2);
    for (unsigned i = 0; i < 40; i++) {
        struct spotnik_duplex duplex;
        struct spotnik_member peer;
        char bytes[512];
        good.self.id = cluster_id(100 + i);
        assert_int_equal(spotnik_net_dial(&good, good.self.address, good.self.port,
                                          i % 2 ? SPOTNIK_PURPOSE_DATA : SPOTNIK_PURPOSE_CONTROL,
                                          PATIENCE_NS, &duplex, &peer),
                         0);
        for (unsigned j = 0; j < sizeof bytes; j++)
            bytes[j] = (char)rand();
        /* Some begin like a frame: magic, version, kind. */
        if (i % 4 < 2)
            memcpy(bytes, "S\1\1\0\20\0\0\0", 8);
        assert_int_equal(send(duplex.fd, bytes, sizeof bytes, MSG_NOSIGNAL), sizeof bytes);
        while (recv(duplex.fd, bytes, sizeof bytes, 0) > 0)
            ; /* up to the GOODBYE and the end */
        spotnik_duplex_close(&duplex);
    }
    assert_int_equal(spotnik_runtime_step_commit(runtime), 0);
    assert_true(data[3] == 4);
    spotnik_job_status status;
    spotnik_runtime_status(runtime, &status);
    assert_int_equal(status.view_epoch, 1);
    spotnik_runtime_free(runtime, true);
}

/* More silent connections than the acceptor holds do not keep a member out. */
TEST(half_open_connections_are_bounded)
{
    struct worker worker[1] = { 0 };
    int fd[200];
    cluster_start(worker, 1);
    struct spotnik_credentials good = *spotnik_runtime_credentials(worker[0].runtime);
    struct sockaddr_storage name;
    socklen_t size = spotnik_address_to_kernel(&name, good.self.address, good.self.port);
    for (unsigned i = 0; i < 200; i++) {
        fd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(connect(fd[i], (struct sockaddr *)&name, size), 0);
        assert_int_equal(send(fd[i], "SPOT", i % 5, MSG_NOSIGNAL), i % 5);
    }
    good.self.id = cluster_id(80);
    struct spotnik_answer answer;
    assert_int_equal(spotnik_net_ask(&good, good.self.address, good.self.port, PATIENCE_NS, &answer,
                                     NULL),
                     0);
    for (unsigned i = 0; i < 200; i++)
        close(fd[i]);
    spotnik_runtime_free(worker[0].runtime, true);
}
