/* SPDX-License-Identifier: Apache-2.0 */
/* One donor, a joiner by hand. Claims: a joiner far behind that comes no nearer by itself is waited
 * for at one boundary until it is near, however slowly it comes beside the members' steps; one
 * that does not come nearer then holds them up for a window, and not again at the next boundary;
 * one that has gone does not hold them up; one that makes more steps than the members is left to
 * itself. Once the log has dropped a joiner, the next is waited for until it is in; one that does
 * not go on holds them up for a window, and not again. What becomes stable while the donor's caller
 * waits in a commit is streamed at once. One that reads nothing of its stream is cut off a while
 * after it was dropped. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/time.h"
#include "transfer/donor_inside.h"
#include "transfer/thread.h"
#include "tests.h"

static struct spotnik_credentials credentials;
static struct spotnik_registry registry;
static struct spotnik_donor *donor;
static int64_t word;
static uint64_t stable;
static int fd; /* the joiner's end */
static struct spotnik_duplex ours;

/* ---- the runtime, as far as donors ask it ---- */

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    (void)runtime;
    return &credentials;
}

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    (void)runtime;
    memset(ret, 0, sizeof *ret);
    ret->size = 1;
    ret->step_stable = stable;
}

uint32_t spotnik_runtime_members(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max, uint64_t *ret_epoch)
{
    (void)runtime, (void)ret, (void)max;
    *ret_epoch = 1;
    return 0;
}

void spotnik_runtime_wake(struct spotnik_runtime *runtime)
{
    (void)runtime;
}

/* ---- the members and the joiner ---- */

/* It has its copy of `step`. */
static void joiner_begin(uint64_t step)
{
    struct spotnik_packet packet = { 0 };
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ours = spotnik_duplex_bare(fd = pair[0]);
    struct spotnik_duplex theirs = spotnik_duplex_bare(pair[1]);
    spotnik_donor_accept(donor, &theirs);
    assert_int_equal(spotnik_packet_send_u64(&ours, SPOTNIK_PACKET_SNAPSHOT, step), 0);
    do
        spotnik_donor_boundary(donor, step, true);
    while (recv(fd, &packet, 1, MSG_PEEK | MSG_DONTWAIT) != 1);
    assert_int_equal(spotnik_packet_receive(&ours, &packet, SPOTNIK_PACKET_BYTES_MAX), 0);
    assert_int_equal(packet.kind, SPOTNIK_PACKET_TAKEN);
    spotnik_packet_done(&packet);
}

static int setup(void **state)
{
    (void)state;
    stable = 0;
    spotnik_registry_init(&registry);
    assert_int_equal(spotnik_registry_add(&registry, "word", &word, 1, SPOTNIK_I64), 0);
    assert_int_equal(spotnik_donor_new(&registry, 65536, &donor), 0);
    spotnik_donor_attach(donor, (struct spotnik_runtime *)(void *)&credentials);
    spotnik_donor_seal(donor);
    joiner_begin(0);
    assert_int_equal(spotnik_packet_send_u64(&ours, SPOTNIK_PACKET_STREAM, 1), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(fd);
    spotnik_donor_stop(donor);
    spotnik_donor_free(donor);
    spotnik_registry_done(&registry);
    return 0;
}

static void acknowledge(uint64_t step)
{
    assert_int_equal(spotnik_packet_send_u64(&ours, SPOTNIK_PACKET_ACK, step), 0);
}

enum { STEPS = 90, WINDOW = 80 }; /* few enough for the socket, which the joiner does not read */

static uint64_t behind(void)
{
    pthread_mutex_lock(&donor->lock);
    uint64_t needed = donor->session ? donor->session->needed : donor->committed;
    uint64_t result = donor->committed - needed;
    pthread_mutex_unlock(&donor->lock);
    return result;
}

static void await_stream(void)
{
    bool following = false;

    while (!following) { /* its request has come through the socket */
        pthread_mutex_lock(&donor->lock);
        following = donor->session->following;
        pthread_mutex_unlock(&donor->lock);
    }
}

/* The members are STEPS ahead of the joiner, each of step_ns; in the last WINDOW of them it came
 * `gain` steps nearer. */
static void fall_behind(uint64_t step_ns, uint64_t gain)
{
    struct spotnik_bucket_result result = { &word, 1, SPOTNIK_I64, SPOTNIK_SUM };

    await_stream();
    for (uint64_t step = 1; step <= STEPS; step++)
        spotnik_donor_committed(donor, step, 1, &result);
    stable = STEPS - 1;
    pthread_mutex_lock(&donor->lock);
    donor->committed = STEPS;
    donor->step_ns = step_ns;
    donor->session->window_ns = spotnik_clock_ns() - 2 * SPOTNIK_DONOR_WINDOW_NS;
    donor->session->window_step = STEPS - WINDOW;
    donor->session->window_behind = STEPS - donor->session->needed + gain;
    pthread_mutex_unlock(&donor->lock);
}

/* How long the boundary takes. */
static uint64_t boundary(void)
{
    uint64_t begun_ns = spotnik_clock_ns();

    spotnik_donor_boundary(donor, STEPS, false);
    return spotnik_clock_ns() - begun_ns;
}

static void replay_a_while(void)
{
    struct timespec a_while = { .tv_nsec = 50 * SPOTNIK_MS };

    nanosleep(&a_while, NULL);
}

static void *catch_up(void *argument)
{
    replay_a_while();
    acknowledge(STEPS / 2);
    acknowledge(STEPS - 1);
    return argument;
}

static void *go(void *argument)
{
    replay_a_while();
    shutdown(fd, SHUT_RDWR);
    return argument;
}

TEST_WITH(waited_for, setup, teardown)
{
    pthread_t joiner;

    fall_behind(20 * SPOTNIK_MS, 0);
    assert_int_equal(pthread_create(&joiner, NULL, catch_up, NULL), 0);
    uint64_t took_ns = boundary();
    assert_in_range(behind(), 0, 2);
    assert_in_range(took_ns, 1, 5 * SPOTNIK_S - 1); /* not to the end of its patience */
    pthread_join(joiner, NULL);
}

static void *catch_up_slowly(void *argument)
{
    for (uint64_t step = STEPS / 4; step < STEPS; step += STEPS / 4) {
        for (int i = 0; i < 6; i++)
            replay_a_while();
        acknowledge(step);
    }
    acknowledge(STEPS - 1);
    return argument;
}

/* It replays a step in a thousand times as long as the members take for one. */
TEST_WITH(slower_than_the_members, setup, teardown)
{
    pthread_t joiner;

    fall_behind(SPOTNIK_US, 0);
    assert_int_equal(pthread_create(&joiner, NULL, catch_up_slowly, NULL), 0);
    boundary();
    assert_in_range(behind(), 0, 2);
    pthread_join(joiner, NULL);
}

static uint64_t rest_until_ns(void)
{
    pthread_mutex_lock(&donor->lock);
    uint64_t result = donor->session->rest_until_ns;
    pthread_mutex_unlock(&donor->lock);
    return result;
}

TEST_WITH(in_vain, setup, teardown)
{
    fall_behind(SPOTNIK_MS / 10, 0);
    uint64_t begun_ns = spotnik_clock_ns();
    assert_in_range(boundary(), SPOTNIK_DONOR_WINDOW_NS, 60 * SPOTNIK_S);
    assert_true(rest_until_ns() >= begun_ns + 9 * SPOTNIK_DONOR_WINDOW_NS);
    pthread_mutex_lock(&donor->lock);
    donor->session->rest_until_ns = UINT64_MAX;
    donor->session->window_ns -= 2 * SPOTNIK_DONOR_WINDOW_NS;
    donor->session->window_step -= WINDOW;
    pthread_mutex_unlock(&donor->lock);
    boundary();
    assert_true(rest_until_ns() == UINT64_MAX); /* not waited for, else it rests from then on */
}

TEST_WITH(gone, setup, teardown)
{
    pthread_t joiner;

    fall_behind(SPOTNIK_S, 0);
    assert_int_equal(pthread_create(&joiner, NULL, go, NULL), 0);
    assert_in_range(boundary(), 1, 5 * SPOTNIK_S - 1);
    pthread_join(joiner, NULL);
}

TEST_WITH(comes_nearer, setup, teardown)
{
    fall_behind(SPOTNIK_MS / 10, WINDOW / 4);
    boundary();
    assert_int_equal(rest_until_ns(), 0);
    assert_true(behind() > 2);
}

/* ---- a log that is too short ---- */

enum { LOG_STEPS = 20, SECOND = LOG_STEPS + 1, HALF_FULL = SECOND + LOG_STEPS / 2 + 1 };

static void commit(uint64_t first, uint64_t last)
{
    struct spotnik_bucket_result result = { &word, 1, SPOTNIK_I64, SPOTNIK_SUM };

    for (uint64_t step = first; step <= last; step++)
        spotnik_donor_committed(donor, step, 1, &result);
}

static bool waited_at(uint64_t step)
{
    pthread_mutex_lock(&donor->lock);
    donor->session->rest_until_ns = 0;
    pthread_mutex_unlock(&donor->lock);
    spotnik_donor_boundary(donor, step, false);
    return rest_until_ns() != 0;
}

/* The first was dropped; the second copies, and the log is more than half full of what it needs. */
static void second_begin(void)
{
    pthread_mutex_lock(&donor->lock);
    donor->log_bytes_max = LOG_STEPS * sizeof word;
    pthread_mutex_unlock(&donor->lock);
    commit(1, LOG_STEPS);
    assert_false(waited_at(LOG_STEPS)); /* none was dropped yet */
    commit(SECOND, SECOND);
    pthread_mutex_lock(&donor->lock);
    while (donor->session_count)
        pthread_cond_wait(&donor->ended, &donor->lock);
    pthread_mutex_unlock(&donor->lock);
    close(fd);
    spotnik_donor_stable(donor, SECOND);
    joiner_begin(SECOND);
    commit(SECOND + 1, HALF_FULL);
}

static void *enter(void *argument)
{
    replay_a_while();
    acknowledge(HALF_FULL);
    return go(argument);
}

TEST_WITH(the_second_is_waited_for_until_it_is_in, setup, teardown)
{
    struct spotnik_donor_status status;
    pthread_t joiner;

    second_begin();
    assert_int_equal(pthread_create(&joiner, NULL, enter, NULL), 0);
    spotnik_donor_boundary(donor, HALF_FULL, false);
    spotnik_donor_status(donor, &status);
    pthread_join(joiner, NULL);
    assert_int_equal(status.sessions, 0);
    assert_int_equal(status.dropped, 1);
}

TEST_WITH(the_second_does_not_go_on, setup, teardown)
{
    second_begin();
    assert_true(waited_at(HALF_FULL));
    assert_false(waited_at(HALF_FULL));
}

/* The next word about the stream. */
static uint8_t heard(struct spotnik_packet *packet)
{
    do
        assert_int_equal(spotnik_packet_receive(&ours, packet, SPOTNIK_PACKET_BYTES_MAX), 0);
    while (packet->kind == SPOTNIK_PACKET_WAIT);
    return packet->kind;
}

TEST_WITH(stable_without_a_boundary, setup, teardown)
{
    struct spotnik_bucket_result result = { &word, 1, SPOTNIK_I64, SPOTNIK_SUM };
    struct spotnik_packet packet = { 0 };

    /* its request has come through the socket */
    assert_int_equal(heard(&packet), SPOTNIK_PACKET_DRY);
    spotnik_donor_committed(donor, 1, 1, &result);
    spotnik_donor_stable(donor, 1);
    assert_int_equal(heard(&packet), SPOTNIK_PACKET_RESULT);
    assert_int_equal(heard(&packet), SPOTNIK_PACKET_DRY);
    spotnik_packet_done(&packet);
}

TEST_WITH(reads_nothing, setup, teardown)
{
    enum { COUNT = 1 << 20 };
    int64_t *data = calloc(COUNT, sizeof *data);
    struct spotnik_bucket_result result = { data, COUNT, SPOTNIK_I64, SPOTNIK_SUM };
    struct spotnik_donor_status status = { 0 };
    uint64_t step = 1;

    assert_non_null(data);
    await_stream();
    for (; !status.dropped; spotnik_donor_status(donor, &status))
        spotnik_donor_committed(donor, step++, 1, &result);
    assert_int_equal(status.sessions, 1); /* its thread sends, and nobody reads */
    pthread_mutex_lock(&donor->lock);
    donor->session->dropped_ns -= 2 * SPOTNIK_S;
    pthread_mutex_unlock(&donor->lock);
    spotnik_donor_committed(donor, step++, 1, &result);
    pthread_mutex_lock(&donor->lock);
    while (donor->session_count)
        pthread_cond_wait(&donor->ended, &donor->lock);
    pthread_mutex_unlock(&donor->lock);
    free(data);
}
