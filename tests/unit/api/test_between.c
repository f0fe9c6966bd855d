/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a machine in between, which has no key, changes nothing but time. It flips one bit in each
 * field of the messages of each connection between two members, drops, repeats and makes up
 * messages, while they train, while another copies their state, and while they pull. Each deed is
 * counted, every result and every copy is what it must be, and the job goes on. The build runs it a
 * second time under SPOTNIK_TLS=psk: there it flips bits of records, and reads nothing. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/key.h"
#include "base/clock.h"
#include "base/thread.h"
#include "base/time.h"
#include "between.h"
#include "link/credentials.h"
#include "link/seal.h"
#include "place.h"
#include "spotnik/p2p.h"
#include "spotnik/spotnik.h"
#include "tests.h"
#include "transfer/packet.h"
#include "wire/frame.h"
#include "wire/p2p_frame.h"

enum { MEMBERS = 3, FLOATS = 200000, WORDS = 150000, MARKS = 1024 };
#define PATIENCE_NS (60 * SPOTNIK_S)

struct worker {
    pthread_t thread;
    bool pulls;
    int64_t state[WORDS];
    float marks[MARKS];
    _Atomic uint64_t step, size, pulled;
    /* under the lock */
    bool stops, failed;
    char why[300];
};

static struct place place;
static struct worker worker[MEMBERS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static float marks[MARKS]; /* of the model: in each bucket and in each state */
static const char marks_name[] = "marks of the model";

/* ---- a member ---- */

static int64_t input(uint64_t step)
{
    return (int64_t)(step % 997);
}

/* The state after that step. */
static int64_t total(uint64_t step)
{
    int64_t sum = (int64_t)(step / 997) * (996 * 997 / 2);
    for (uint64_t i = step / 997 * 997; i <= step; i++)
        sum += input(i);
    return sum;
}

static void expect(struct worker *of, bool good, const char *what)
{
    if (good || of->failed)
        return;
    pthread_mutex_lock(&lock);
    of->failed = true;
    snprintf(of->why, sizeof of->why, "%s: %.200s", what, spotnik_last_error());
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static bool is_all(const int64_t *words, int64_t value)
{
    for (int i = 0; i < WORDS; i++)
        if (words[i] != value)
            return false;
    return true;
}

/* It may bring nothing, but nothing wrong. */
static void pull(struct worker *of, spotnik_job *job)
{
    static int64_t words[WORDS];
    spotnik_request *request;
    spotnik_arrival arrival = { .size = sizeof arrival };
    if (spotnik_pull(job, "state", 0, 0, words, WORDS, SPOTNIK_I64, 0, &request) != 0)
        return;
    expect(of, spotnik_request_wait(request, PATIENCE_NS, &arrival) == 0, "a pull does not end");
    spotnik_request_free(request);
    if (arrival.version == 0)
        return;
    expect(of, is_all(words, total(arrival.version)), "another state was pulled");
    pthread_mutex_lock(&lock);
    of->pulled++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static void committed(struct worker *of, spotnik_job *job, const spotnik_step *step,
                      const float *bucket)
{
    bool good = true;
    for (int i = 0; i < FLOATS; i++)
        good &= bucket[i] == (float)input(step->number);
    expect(of, good, "another result");
    for (int i = 0; i < WORDS; i++)
        of->state[i] += (int64_t)bucket[i % FLOATS];
    expect(of, is_all(of->state, total(step->number)), "another state");
    spotnik_publish(job, "state", of->state, WORDS, SPOTNIK_I64, step->number);
    if (of->pulls && !step->replay)
        pull(of, job);
}

static bool goes_on(int rc)
{
    return rc == SPOTNIK_ERR_EXCLUDED || rc == SPOTNIK_ERR_AGAIN || rc == SPOTNIK_ERR_PARKED;
}

static bool turn(struct worker *of, spotnik_job *job, float *bucket)
{
    spotnik_step step;
    int rc = spotnik_step_begin(job, &step);
    if (rc != 0) {
        expect(of, goes_on(rc), "a step does not begin");
        return goes_on(rc);
    }
    for (int i = 0; i < FLOATS; i++)
        bucket[i] = (float)input(step.number);
    memcpy(bucket + FLOATS, marks, sizeof marks);
    rc = spotnik_allreduce(job, 0, bucket, FLOATS + MARKS, SPOTNIK_F32, SPOTNIK_MEAN);
    if (rc == 0)
        rc = spotnik_step_commit(job);
    if (rc == 0)
        committed(of, job, &step, bucket);
    expect(of, rc == 0 || goes_on(rc), "a step does not commit");
    pthread_mutex_lock(&lock);
    of->step = rc == 0 && !step.replay ? step.number : of->step;
    of->size = step.size;
    bool stops = of->stops || of->failed;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return !stops;
}

static void *worker_main(void *context)
{
    struct worker *of = context;
    float *bucket = malloc((FLOATS + MARKS) * sizeof *bucket);
    spotnik_config config;
    spotnik_job *job;
    place_config(&place, &config);
    config.members_min = 1; /* those that leave last go on alone until they do */
    int rc = spotnik_join(&config, &job);
    expect(of, rc == 0, "does not join");
    if (rc == 0) {
        spotnik_state_add(job, "state", of->state, WORDS, SPOTNIK_I64);
        spotnik_state_add(job, marks_name, of->marks, MARKS, SPOTNIK_F32);
        while (turn(of, job, bucket))
            continue;
        spotnik_leave(job);
    }
    free(bucket);
    return NULL;
}

/* ---- the test ---- */

static void worker_start(int i, bool pulls)
{
    worker[i] = (struct worker){ .pulls = pulls };
    memcpy(worker[i].marks, marks, sizeof marks);
    assert_int_equal(pthread_create(&worker[i].thread, NULL, worker_main, &worker[i]), 0);
}

static void worker_stop(int i)
{
    pthread_mutex_lock(&lock);
    worker[i].stops = true;
    pthread_mutex_unlock(&lock);
}

static void worker_end(int i)
{
    worker_stop(i);
    pthread_join(worker[i].thread, NULL);
    if (worker[i].failed)
        fail_msg("member %d: %s", i, worker[i].why);
}

static bool is_failed(void)
{
    for (int i = 0; i < MEMBERS; i++)
        if (worker[i].failed)
            return true;
    return false;
}

static void wait_until(bool (*is_true)(void), const char *what)
{
    uint64_t until_ns = spotnik_clock_ns() + PATIENCE_NS;
    bool late = false;
    pthread_mutex_lock(&lock);
    while (!is_true() && !is_failed() && !late)
        late = !spotnik_cond_wait(&changed, &lock, until_ns);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < MEMBERS; i++)
        if (worker[i].failed)
            fail_msg("member %d: %s", i, worker[i].why);
    if (late)
        fail_msg("%s", what);
}

static uint64_t step_wanted, failures_before, pulled_before;

static bool both_go_on(void)
{
    return worker[0].size == 2 && worker[1].size == 2 && worker[0].step >= step_wanted
           && worker[1].step >= step_wanted;
}

static bool is_noticed(void)
{
    return between_is_done() && spotnik_seal_failures() > failures_before;
}

/* Looked at with each step. A connection that its reader closes just then may have had the message:
 * then steps follow, and nothing is counted. */
static bool is_over(void)
{
    if (!between_is_done())
        step_wanted = worker[0].step + 20;
    return is_noticed() || (between_is_done() && both_go_on());
}

static bool has_pulled(void)
{
    return worker[1].pulled >= pulled_before + 2;
}

static void strike(const struct between_attack *attack)
{
    char what[100];
    snprintf(what, sizeof what, "purpose %u, kind %u, deed %d, byte %d", attack->purpose,
             attack->kind, (int)attack->deed, attack->at);
    failures_before = spotnik_seal_failures();
    for (int i = 0; i < 5 && !is_noticed(); i++) {
        between_attack(attack);
        wait_until(is_over, what);
    }
    assert_true(is_noticed());
    step_wanted = worker[0].step > worker[1].step ? worker[0].step + 2 : worker[1].step + 2;
    wait_until(both_go_on, what);
    pulled_before = worker[1].pulled;
    if (worker[1].pulls)
        wait_until(has_pulled, what);
}

static int setup(void **state)
{
    (void)state;
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&changed, &attributes);
    setenv("SPOTNIK_TRANSPORT", "tcp", 1);
    place_open(&place);
    for (int i = 0; i < MARKS; i++)
        marks[i] = 1.0f + (float)(i * 7919 % 1021) / 1024;
    worker_start(0, false);
    worker_start(1, true);
    step_wanted = 3;
    wait_until(both_go_on, "two members begin");
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    worker_stop(0);
    worker_stop(1);
    worker_end(0);
    worker_end(1);
    place_close(&place);
    return 0;
}

/* Each field of the frame, the chunk, both tags, the first and the last byte of the elements. */
static const int data_fields[] = { 0,  1,  2,  3,  4,  8,  16, 24, 25,  26, 27,
                                   28, 32, 40, 48, 56, 64, 72, 88, 104, -1 };
/* The frame, its tag, the payload. */
static const int control_fields[] = { 0, 1, 2, 3, 4, 8, 24, 32, -1 };
/* The head, its tag, the payload, and its tag. */
static const int pull_fields[] = { 0, 1, 2, 8, 16, 24, 32, 40, 48, 64, 128 };

static void each_field(uint8_t purpose, uint8_t kind, const int *field, size_t count)
{
    for (size_t i = 0; i < count; i++)
        strike(&(struct between_attack){ purpose, kind, BETWEEN_FLIP, field[i] });
}

static void each_deed(uint8_t purpose, uint8_t kind)
{
    for (int deed = BETWEEN_DROP; deed <= BETWEEN_FORGE; deed++)
        strike(&(struct between_attack){ purpose, kind, (enum between_deed)deed, 0 });
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_tls(void)
{
    const char *mode = getenv("SPOTNIK_TLS");
    return mode != NULL && strcmp(mode, "off") != 0;
}

TEST_WITH(sums_are_what_they_must_be, setup, teardown)
{
    if (is_tls())
        return; /* it cannot tell messages apart */
    each_field(SPOTNIK_PURPOSE_DATA, SPOTNIK_FRAME_DATA, data_fields, COUNT(data_fields));
    each_deed(SPOTNIK_PURPOSE_DATA, SPOTNIK_FRAME_DATA);
}

TEST_WITH(control_is_what_it_must_be, setup, teardown)
{
    if (is_tls())
        return;
    each_field(SPOTNIK_PURPOSE_CONTROL, SPOTNIK_FRAME_CONTROL, control_fields,
               COUNT(control_fields));
    each_deed(SPOTNIK_PURPOSE_CONTROL, SPOTNIK_FRAME_CONTROL);
}

TEST_WITH(pulls_are_what_they_must_be, setup, teardown)
{
    if (is_tls())
        return;
    each_field(SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_PULL, pull_fields, COUNT(pull_fields));
    each_field(SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_SNAPSHOT, pull_fields, COUNT(pull_fields));
    strike(&(struct between_attack){ SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_SNAPSHOT, BETWEEN_FLIP,
                                     144 });
    strike(&(struct between_attack){ SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_SNAPSHOT, BETWEEN_FLIP,
                                     -17 });
    strike(&(struct between_attack){ SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_SNAPSHOT, BETWEEN_FLIP,
                                     -1 });
    strike(&(struct between_attack){ SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_SNAPSHOT, BETWEEN_FORGE,
                                     0 });
    strike(&(struct between_attack){ SPOTNIK_PURPOSE_EXCHANGE, SPOTNIK_P2P_PULL, BETWEEN_REPEAT,
                                     0 });
}

static bool third_is_in(void)
{
    return worker[2].step > 0 && worker[2].size == 3;
}

static void join_through(const struct between_attack *attack)
{
    failures_before = spotnik_seal_failures();
    between_attack(attack);
    worker_start(2, false);
    wait_until(third_is_in, "a third member joins");
    assert_true(is_noticed());
    worker_end(2);
    worker[2] = (struct worker){ .step = 0 };
    step_wanted = worker[0].step + 2;
    wait_until(both_go_on, "two members go on");
}

TEST_WITH(a_copy_is_what_it_must_be, setup, teardown)
{
    if (is_tls())
        return;
    static const uint8_t kinds[] = { SPOTNIK_PACKET_ASK,    SPOTNIK_PACKET_SNAPSHOT,
                                     SPOTNIK_PACKET_FETCH,  SPOTNIK_PACKET_WANT_EXTRA,
                                     SPOTNIK_PACKET_STREAM, SPOTNIK_PACKET_ACK,
                                     SPOTNIK_PACKET_VIEW,   SPOTNIK_PACKET_TAKEN,
                                     SPOTNIK_PACKET_EXTRA,  SPOTNIK_PACKET_RESULT };
    for (size_t i = 0; i < COUNT(kinds); i++)
        join_through(&(struct between_attack){ SPOTNIK_PURPOSE_STATE, kinds[i], BETWEEN_FLIP, 5 });
    join_through(&(struct between_attack){ SPOTNIK_PURPOSE_STATE, SPOTNIK_PACKET_PIECE,
                                           BETWEEN_FLIP, -1 });
    join_through(&(struct between_attack){ SPOTNIK_PURPOSE_STATE, SPOTNIK_PACKET_PIECE,
                                           BETWEEN_FORGE, 0 });
    join_through(&(struct between_attack){ SPOTNIK_PURPOSE_CONTROL, SPOTNIK_FRAME_PLACES,
                                           BETWEEN_FLIP, 24 });
}

/* The head of a record, its first and last byte. */
static const int record_fields[] = { 0, 1, 2, 3, 4, 5, 20, -17, -1 };

TEST_WITH(records_are_what_they_must_be, setup, teardown)
{
    if (!is_tls())
        return;
    each_field(BETWEEN_TLS, BETWEEN_TLS_DATA, record_fields, COUNT(record_fields));
    each_deed(BETWEEN_TLS, BETWEEN_TLS_DATA);
}

/* What a machine in between reads of steps, of a copy and of pulls. */
TEST_WITH(what_passes_can_be_read_without_tls_alone, setup, teardown)
{
    enum { GRADIENT, STATE, NAME, KEY };
    uint8_t key[32];
    assert_int_equal(spotnik_key_read(place.key, key), 0);
    between_look_for(GRADIENT, marks + 500);
    between_look_for(STATE, marks + 40);
    between_look_for(NAME, marks_name);
    between_look_for(KEY, key);
    worker_start(2, false);
    wait_until(third_is_in, "a third member joins");
    worker_end(2);
    worker[2] = (struct worker){ .step = 0 };
    step_wanted = worker[0].step + 2;
    wait_until(both_go_on, "two members go on");
    for (int which = GRADIENT; which <= NAME; which++)
        assert_int_equal(between_seen(which) > 0, !is_tls());
    assert_int_equal(between_seen(KEY), 0);
}
