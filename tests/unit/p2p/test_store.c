/* SPDX-License-Identifier: Apache-2.0 */
/* The store that members share. Claims: every update that was answered is in it, exactly once,
 * whoever is lost in the midst of it, down to the last member but as many as there are copies; of
 * an update that was cut off by the death of its sender, each element counts once or not at all;
 * one's own updates are seen at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gathering.h"
#include "spotnik/p2p.h"

enum { COUNT = 70001 };

static const char *transport(void **state)
{
    return *state;
}

struct worker {
    struct gathering *gathering;
    uint32_t member;
    uint32_t pushes;   /* to make */
    bool doomed;       /* goes without a word in the midst of the one after */
    float answered;    /* pushes that ended well */
    uint64_t delay_ns; /* of its death, into that push */
    char failure[256];
};

static uint64_t finish(spotnik_request *request)
{
    spotnik_arrival arrival = { .size = sizeof arrival };
    int rc = spotnik_request_wait(request, UINT64_MAX, &arrival);

    spotnik_request_free(request);
    return rc == 0 ? arrival.version : 0;
}

static void push_once(struct worker *worker, const float *update, float *data)
{
    spotnik_job *job = worker->gathering->job[worker->member];
    spotnik_request *request;

    EXPECT(worker, spotnik_push(job, "w", update, COUNT, 0, &request) == 0);
    if (worker->failure[0])
        return;
    EXPECT(worker, finish(request) != 0);
    worker->answered++;
    EXPECT(worker, spotnik_fetch(job, "w", data, COUNT, 0, &request) == 0);
    EXPECT(worker, finish(request) != 0);
    for (uint32_t i = 0; i < COUNT; i += 101)
        EXPECT(worker, data[i] >= worker->answered + (float)(i % 7));
}

static void die(struct worker *worker, const float *update)
{
    spotnik_request *request;

    EXPECT(worker,
           spotnik_push(worker->gathering->job[worker->member], "w", update, COUNT, 0, &request)
               == 0);
    EXPECT(worker, spotnik_request_wait(request, worker->delay_ns, NULL) != SPOTNIK_ERR_ARGUMENT);
    gathering_lose(worker->gathering, worker->member);
}

static void *work(void *context)
{
    struct worker *worker = context;
    float *update = malloc(COUNT * sizeof *update), *data = malloc(COUNT * sizeof *data);

    for (uint32_t i = 0; i < COUNT; i++)
        update[i] = 1;
    for (uint32_t i = 0; i < worker->pushes && !worker->failure[0]; i++)
        push_once(worker, update, data);
    if (worker->doomed)
        die(worker, update);
    free(update);
    free(data);
    return NULL;
}

static int open_one(struct gathering *gathering, uint32_t member, uint32_t modulus, uint32_t copies)
{
    float *initial = malloc(COUNT * sizeof *initial);

    for (uint32_t i = 0; i < COUNT; i++)
        initial[i] = (float)(i % modulus);
    int rc = spotnik_store_open(gathering->job[member], "w", initial, COUNT, copies);
    free(initial);
    return rc;
}

static void open_all(struct gathering *gathering, uint32_t copies)
{
    for (uint32_t i = 0; i < gathering->count; i++)
        assert_int_equal(open_one(gathering, i, 7, copies), 0);
}

/* Everything that was answered, and of each of the dead one more at most. */
static void check(struct gathering *gathering, uint32_t member, float answered, float dead)
{
    spotnik_request *request;
    float *data = malloc(COUNT * sizeof *data);

    assert_int_equal(spotnik_fetch(gathering->job[member], "w", data, COUNT, 0, &request), 0);
    assert_true(finish(request) != 0);
    for (uint32_t i = 0; i < COUNT; i++) {
        float found = data[i] - (float)(i % 7);
        if (found < answered || found > answered + dead)
            fail_msg("element %u counts %g updates; %g were answered and %g cut off", i,
                     (double)found, (double)answered, (double)dead);
    }
    free(data);
}

/* All push at once; the first `dead` of them die on the way, each at a point of its own. */
static void run(const char *transport, uint32_t members, uint32_t copies, uint32_t dead,
                uint64_t delay_ns)
{
    struct gathering gathering;
    struct worker worker[GATHERING_MAX];
    pthread_t thread[GATHERING_MAX];
    float answered = 0;

    gathering_begin(&gathering, members, transport);
    open_all(&gathering, copies);
    for (uint32_t i = 0; i < members; i++) {
        worker[i] = (struct worker){
            .gathering = &gathering, .member = i, .pushes = 24, .delay_ns = delay_ns
        };
        worker[i].doomed = i < dead;
        if (worker[i].doomed)
            worker[i].pushes = 6 + 8 * i; /* not together: two copies outlive one at a time */
        assert_int_equal(pthread_create(&thread[i], NULL, work, &worker[i]), 0);
    }
    for (uint32_t i = 0; i < members; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < members; i++) {
        if (worker[i].failure[0])
            fail_msg("member %u: %s", i, worker[i].failure);
        answered += worker[i].answered;
    }
    for (uint32_t i = dead; i < members; i++)
        check(&gathering, i, answered, (float)dead);
    gathering_end(&gathering);
}

static void test_calm(void **state)
{
    run(transport(state), 3, 2, 0, 0);
    run(transport(state), 1, 2, 0, 0);
    run(transport(state), 3, 1, 0, 0);
}

static void test_one_is_lost(void **state)
{
    for (uint64_t delay_us = 0; delay_us < 2000; delay_us += 400)
        run(transport(state), 4, 2, 1, delay_us * 1000);
}

static void test_two_are_lost(void **state)
{
    for (uint64_t delay_us = 0; delay_us < 1200; delay_us += 400)
        run(transport(state), 4, 3, 2, delay_us * 1000);
}

static void test_wrong_calls(void **state)
{
    struct gathering gathering;
    spotnik_request *request = NULL;
    float data[4] = { 0 };

    gathering_begin(&gathering, 2, transport(state));
    spotnik_job *job = gathering.job[0];
    assert_int_equal(spotnik_push(job, "w", data, 4, 0, &request), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_fetch(job, "w", data, 4, 0, &request), SPOTNIK_ERR_STATE);
    assert_int_equal(spotnik_store_open(job, "w", data, 0, 2), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_store_open(job, "w", data, 4, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_store_open(job, "w", data, 4, 2), 0);
    assert_int_equal(spotnik_store_open(job, "w", data, 4, 2), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_push(job, "w", data, 3, 0, &request), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_push(job, "w", data, 4, 0, NULL), SPOTNIK_ERR_ARGUMENT);
    uint32_t refused = 0;
    for (int i = 0; i < 50; i++) {
        spotnik_request *second;
        assert_int_equal(spotnik_push(job, "w", data, 4, 0, &request), 0);
        int rc = spotnik_push(job, "w", data, 4, 0, &second);
        refused += rc == SPOTNIK_ERR_STATE;
        assert_true(finish(request) != 0);
        assert_true(rc == SPOTNIK_ERR_STATE || finish(second) != 0); /* the first one had ended */
    }
    assert_true(refused > 0);
    gathering_end(&gathering);
}

/* Others need not have opened it to hold their parts, nor to be lost; they open it later, and find
 * what was pushed. */
static void test_opened_by_one(void **state)
{
    struct gathering gathering;
    struct worker worker = { .gathering = &gathering, .pushes = 3 };
    spotnik_request *request;

    gathering_begin(&gathering, 4, transport(state));
    assert_int_equal(open_one(&gathering, 0, 7, 2), 0);
    work(&worker);
    assert_string_equal(worker.failure, "");
    gathering_lose(&gathering, 3);
    check(&gathering, 0, 3, 0);
    assert_int_equal(spotnik_fetch(gathering.job[1], "w", NULL, 0, 0, &request), SPOTNIK_ERR_STATE);
    /* not as the others have it */
    assert_int_equal(open_one(&gathering, 1, 5, 3), SPOTNIK_ERR_ARGUMENT);
    assert_non_null(strstr(spotnik_last_error(), "70001 elements and 2 copies"));
    assert_int_equal(open_one(&gathering, 1, 5, 2), 0);
    check(&gathering, 1, 3, 0);
    /* What is answered is on two members again: only then the next may be lost. */
    worker = (struct worker){ .gathering = &gathering, .member = 1, .pushes = 1 };
    work(&worker);
    assert_string_equal(worker.failure, "");
    gathering_lose(&gathering, 0);
    check(&gathering, 1, 4, 0);
    assert_int_equal(open_one(&gathering, 2, 5, 2), 0);
    assert_int_equal(open_one(&gathering, 2, 5, 2), SPOTNIK_ERR_ARGUMENT);
    worker = (struct worker){ .gathering = &gathering, .member = 2, .pushes = 2 };
    work(&worker);
    assert_string_equal(worker.failure, "");
    check(&gathering, 1, 6, 0);
    gathering_end(&gathering);
}

/* Members whose stores differ are told so, and nobody waits for ever. */
static void test_opened_differently(void **state)
{
    struct gathering gathering;
    spotnik_request *request;
    float data[2000] = { 0 };

    gathering_begin(&gathering, 2, transport(state));
    assert_int_equal(spotnik_store_open(gathering.job[0], "w", data, 2000, 1), 0);
    int other = spotnik_store_open(gathering.job[1], "w", data, 1999, 1);
    for (uint32_t i = 0; i < 2; i++) {
        int rc = spotnik_push(gathering.job[i], "w", data, 2000 - i, 0, &request);
        if (i == 1 && other) { /* it knew already */
            assert_int_equal(rc, SPOTNIK_ERR_STATE);
            continue;
        }
        assert_int_equal(rc, 0);
        rc = spotnik_request_wait(request, UINT64_MAX, NULL);
        assert_int_equal(rc, other ? 0 : SPOTNIK_ERR_MISMATCH);
        spotnik_request_free(request);
    }
    gathering_end(&gathering);
}

int main(void)
{
    static char tcp[] = "tcp", any[] = "auto";
#define BOTH(test)                                                                                 \
    { #test " tcp", test, NULL, NULL, tcp },                                                       \
    {                                                                                              \
        #test " unix", test, NULL, NULL, any                                                       \
    }
    const struct CMUnitTest tests[] = {
        BOTH(test_opened_by_one), BOTH(test_opened_differently), BOTH(test_calm),
        BOTH(test_one_is_lost),   BOTH(test_two_are_lost),       BOTH(test_wrong_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
