/* SPDX-License-Identifier: Apache-2.0 */
/* Publish and pull among members of this process, over TCP and over Unix sockets. Claims: what
 * arrives is one whole publication, the newest; who has nothing, dies or is told to stop costs no
 * more than a turn to the next one, or a clean "nothing came"; wrong calls start nothing. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "gathering.h"
#include "spotnik/p2p.h"

enum { COUNT = 300007, MEMBERS = 3 };

#define FOR_EVER UINT64_MAX
#define A_MOMENT_NS UINT64_C(50000000)

static const char *transport(void **state)
{
    return *state;
}

static float *vector(float value)
{
    float *data = malloc(COUNT * sizeof *data);

    assert_non_null(data);
    for (uint32_t i = 0; i < COUNT; i++)
        data[i] = value;
    return data;
}

static void expect_all(const float *data, float value)
{
    for (uint32_t i = 0; i < COUNT; i++)
        if (data[i] != value)
            fail_msg("element %u is %g, not %g", i, (double)data[i], (double)value);
}

static void publish(spotnik_job *job, float value, uint64_t version)
{
    float *data = vector(value);

    assert_int_equal(spotnik_publish(job, "model", data, COUNT, SPOTNIK_F32, version), 0);
    free(data);
}

static spotnik_arrival finish(spotnik_request *request)
{
    spotnik_arrival arrival = { .size = sizeof arrival };

    assert_int_equal(spotnik_request_wait(request, FOR_EVER, &arrival), 0);
    spotnik_request_free(request);
    return arrival;
}

static spotnik_arrival pull(spotnik_job *job, uint32_t rank, uint64_t version_min, float *data,
                            uint64_t timeout_ns)
{
    spotnik_request *request;

    assert_int_equal(spotnik_pull(job, "model", rank, version_min, data, COUNT, SPOTNIK_F32,
                                  timeout_ns, &request),
                     0);
    return finish(request);
}

/* Everybody from everybody; then newer ones. */
static void test_pull(void **state)
{
    struct gathering gathering;
    float *data = vector(0);

    gathering_begin(&gathering, MEMBERS, transport(state));
    for (uint64_t version = 1; version <= 5; version++) {
        for (uint32_t i = 0; i < MEMBERS; i++)
            publish(gathering.job[i], (float)(100 * gathering.rank[i] + version), version);
        for (uint32_t i = 0; i < MEMBERS; i++)
            for (uint32_t rank = 0; rank < MEMBERS; rank++) {
                uint32_t expected = rank == gathering.rank[i] ? (rank + 1) % MEMBERS : rank;
                spotnik_arrival arrival = pull(gathering.job[i], rank, version, data, 0);
                assert_int_equal(arrival.version, version);
                assert_int_equal(arrival.rank, expected);
                assert_int_equal(arrival.tried, 1);
                expect_all(data, (float)(100 * expected + version));
            }
    }
    free(data);
    gathering_end(&gathering);
}

enum { MAPPED_MAX = 256 };

/* The files without a name that are mapped so, by their numbers, which say nothing of their age.
 * How many? */
static uint32_t mapped(const char *rights, unsigned long ret_file[MAPPED_MAX])
{
    char line[512], found[8];
    uint32_t count = 0;
    unsigned long number;
    FILE *maps = fopen("/proc/self/maps", "re");

    assert_non_null(maps);
    while (count < MAPPED_MAX && fgets(line, sizeof line, maps))
        if (strstr(line, "memfd:spotnik")
            && sscanf(line, "%*s %7s %*s %*s %lu", found, &number) == 2
            && strcmp(found, rights) == 0)
            ret_file[count++] = number;
    fclose(maps);
    return count;
}

static uint32_t times(const unsigned long *file, uint32_t count, unsigned long wanted)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++)
        found += file[i] == wanted;
    return found;
}

static uint32_t borrowed(unsigned long wanted)
{
    unsigned long file[MAPPED_MAX];

    return times(file, mapped("r--s", file), wanted);
}

/* The first publication of a member: the file that it lends from now on. 0: it lends none. */
static unsigned long publish_first(spotnik_job *job)
{
    unsigned long before[MAPPED_MAX], after[MAPPED_MAX];
    uint32_t old = mapped("rw-s", before);

    publish(job, 1, 1);
    uint32_t count = mapped("rw-s", after);
    for (uint32_t i = 0; i < count; i++)
        if (times(before, old, after[i]) == 0)
            return after[i];
    return 0;
}

/* On one host a snapshot is read where it lies, which is asked for once; and given back when its
 * owner is no more. */
static void test_read_in_place(void **state)
{
    struct gathering gathering;
    float *data = vector(0);
    bool is_local = strcmp(transport(state), "tcp") != 0;

    gathering_begin(&gathering, MEMBERS, transport(state));
    uint32_t doomed = gathering_of_rank(&gathering, (gathering.rank[0] + 1) % MEMBERS);
    unsigned long lent = publish_first(gathering.job[doomed]);
    assert_int_equal(lent != 0, is_local);
    for (uint64_t version = 2; version <= 4; version++) {
        publish(gathering.job[doomed], (float)version, version);
        assert_int_equal(pull(gathering.job[0], gathering.rank[doomed], 0, data, 0).version,
                         version);
        expect_all(data, (float)version);
    }
    assert_int_equal(borrowed(lent), is_local);
    assert_int_equal(spotnik_publish(gathering.job[doomed], "another", data, 5, SPOTNIK_F32, 1), 0);
    spotnik_request *request;
    assert_int_equal(spotnik_pull(gathering.job[0], "another", gathering.rank[doomed], 0, data, 5,
                                  SPOTNIK_F32, 0, &request),
                     0);
    assert_int_equal(finish(request).version, 1);
    assert_int_equal(borrowed(lent), is_local);
    gathering_lose(&gathering, doomed);
    do /* by the new view, or by whoever asks before there is one */
        assert_int_equal(pull(gathering.job[0], gathering.rank[doomed], 0, data, 0).version, 0);
    while (borrowed(lent) > 0);
    free(data);
    gathering_end(&gathering);
}

static void test_nothing_came(void **state)
{
    struct gathering gathering;
    float *data = vector(0);

    gathering_begin(&gathering, MEMBERS, transport(state));
    spotnik_arrival arrival = pull(gathering.job[0], 1, 0, data, 0);
    assert_int_equal(arrival.version, 0);
    assert_int_equal(arrival.tried, MEMBERS - 1);
    publish(gathering.job[0], 1, 1); /* one's own is no answer */
    arrival = pull(gathering.job[0], gathering.rank[0], 0, data, 0);
    assert_int_equal(arrival.version, 0);
    uint32_t other = gathering_of_rank(&gathering, (gathering.rank[0] + 2) % MEMBERS);
    publish(gathering.job[other], 7, 3); /* who has nothing is passed over */
    arrival = pull(gathering.job[0], gathering.rank[0] + 1, 0, data, 0);
    assert_int_equal(arrival.version, 3);
    assert_int_equal(arrival.tried, 2);
    expect_all(data, 7);
    free(data);
    gathering_end(&gathering);
}

/* A version that is not there yet is waited for, as long as the caller likes. */
static void test_wait_for_a_version(void **state)
{
    struct gathering gathering;
    spotnik_request *request;
    spotnik_arrival arrival = { .size = sizeof arrival };
    float *data = vector(0);

    gathering_begin(&gathering, 2, transport(state));
    spotnik_job *job = gathering.job[0], *other = gathering.job[1];
    publish(other, 1, 1);
    assert_int_equal(spotnik_pull(job, "model", gathering.rank[1], 2, data, COUNT, SPOTNIK_F32, 0,
                                  &request),
                     0);
    assert_int_equal(spotnik_request_wait(request, A_MOMENT_NS, &arrival), SPOTNIK_ERR_AGAIN);
    publish(other, 2, 2);
    arrival = finish(request);
    assert_int_equal(arrival.version, 2);
    expect_all(data, 2);
    arrival = pull(job, gathering.rank[1], 3, data, A_MOMENT_NS);
    assert_int_equal(arrival.version, 0);
    assert_int_equal(spotnik_pull(job, "model", gathering.rank[1], 3, data, COUNT, SPOTNIK_F32, 0,
                                  &request),
                     0);
    spotnik_request_free(request); /* given up */
    assert_int_equal(spotnik_pull(job, "model", gathering.rank[1], 3, data, COUNT, SPOTNIK_F32, 0,
                                  &request),
                     0);
    assert_int_equal(spotnik_request_wait(request, 0, NULL), SPOTNIK_ERR_AGAIN);
    publish(other, 3, 3);
    assert_int_equal(finish(request).version, 3);
    free(data);
    gathering_end(&gathering);
}

/* In the midst of waiting for it, a member dies: the next one answers, without the detector's
 * help. */
static void test_fail_over(void **state)
{
    struct gathering gathering;
    spotnik_request *request;
    float *data = vector(0);

    gathering_begin(&gathering, MEMBERS, transport(state));
    uint32_t doomed = gathering_of_rank(&gathering, (gathering.rank[0] + 1) % MEMBERS);
    uint32_t other = gathering_of_rank(&gathering, (gathering.rank[0] + 2) % MEMBERS);
    publish(gathering.job[doomed], 1, 1);
    publish(gathering.job[other], 5, 5);
    assert_int_equal(pull(gathering.job[0], gathering.rank[doomed], 0, data, 0).version, 1);
    assert_int_equal(spotnik_pull(gathering.job[0], "model", gathering.rank[doomed], 2, data, COUNT,
                                  SPOTNIK_F32, 0, &request),
                     0);
    assert_int_equal(spotnik_request_wait(request, A_MOMENT_NS, NULL), SPOTNIK_ERR_AGAIN);
    gathering_lose(&gathering, doomed);
    spotnik_arrival arrival = finish(request);
    assert_int_equal(arrival.version, 5);
    assert_int_equal(arrival.tried, 2);
    expect_all(data, 5);
    assert_int_equal(pull(gathering.job[0], gathering.rank[doomed], 0, data, 0).version, 5);
    free(data);
    gathering_end(&gathering);
}

struct writer {
    spotnik_job *job;
    bool over; /* atomic */
};

static void *write_on(void *context)
{
    struct writer *writer = context;
    float *data = malloc(COUNT * sizeof *data);

    for (uint64_t version = 1; !__atomic_load_n(&writer->over, __ATOMIC_RELAXED); version++) {
        for (uint32_t i = 0; i < COUNT; i++)
            data[i] = (float)version;
        if (spotnik_publish(writer->job, "model", data, COUNT, SPOTNIK_F32, version) != 0)
            break;
    }
    free(data);
    return NULL;
}

/* One publication after the other, while two others pull all the time. */
static void test_whole_publications(void **state)
{
    struct gathering gathering;
    pthread_t thread;
    float *one = vector(0), *two = vector(0);
    uint64_t last = 1;

    gathering_begin(&gathering, MEMBERS, transport(state));
    struct writer writer = { .job = gathering.job[0] };
    uint32_t rank = gathering.rank[0];
    assert_int_equal(pthread_create(&thread, NULL, write_on, &writer), 0);
    for (int i = 0; i < 100; i++) {
        spotnik_request *first, *second;
        assert_int_equal(spotnik_pull(gathering.job[1], "model", rank, last, one, COUNT,
                                      SPOTNIK_F32, 0, &first),
                         0);
        assert_int_equal(spotnik_pull(gathering.job[2], "model", rank, last, two, COUNT,
                                      SPOTNIK_F32, 0, &second),
                         0);
        spotnik_arrival arrival = finish(first);
        assert_true(arrival.version >= last);
        expect_all(one, (float)arrival.version);
        last = arrival.version;
        expect_all(two, (float)finish(second).version);
    }
    __atomic_store_n(&writer.over, true, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    free(one);
    free(two);
    gathering_end(&gathering);
}

static void test_wrong_calls(void **state)
{
    struct gathering gathering;
    spotnik_request *request;
    spotnik_arrival arrival = { .size = sizeof arrival };
    float data[4] = { 0 };
    const char *longest = "0123456789012345678901234567890123456789012345678901234567890123";

    gathering_begin(&gathering, 2, transport(state));
    spotnik_job *job = gathering.job[0], *other = gathering.job[1];
    assert_int_equal(spotnik_publish(NULL, "x", data, 4, SPOTNIK_F32, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_publish(job, "", data, 4, SPOTNIK_F32, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_publish(job, longest, data, 4, SPOTNIK_F32, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_publish(job, longest + 1, data, 4, SPOTNIK_F32, 1), 0);
    assert_int_equal(spotnik_publish(job, "x", data, 4, SPOTNIK_F32, 0), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_publish(job, "x", data, 4, (enum spotnik_dtype)99, 1),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_publish(job, "x", NULL, 4, SPOTNIK_F32, 1), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_publish(job, "x", data, 4, SPOTNIK_F32, 1), 0);
    assert_int_equal(spotnik_publish(job, "x", data, 3, SPOTNIK_F32, 2), SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_pull(job, "x", 0, 0, data, 4, SPOTNIK_F32, 0, NULL),
                     SPOTNIK_ERR_ARGUMENT);
    assert_int_equal(spotnik_request_wait(NULL, 0, NULL), SPOTNIK_ERR_ARGUMENT);
    spotnik_request_free(NULL);
    assert_int_equal(spotnik_pull(other, "x", gathering.rank[0], 0, data, 3, SPOTNIK_F32, 0,
                                  &request),
                     0);
    assert_int_equal(spotnik_request_wait(request, FOR_EVER, &arrival), SPOTNIK_ERR_MISMATCH);
    assert_non_null(strstr(spotnik_last_error(), "x is of another size"));
    spotnik_request_free(request);
    assert_int_equal(spotnik_pull(other, "x", gathering.rank[0], 9, data, 4, SPOTNIK_F32, 0,
                                  &request),
                     0);
    gathering_end(&gathering); /* frees a request that was forgotten */
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
        BOTH(test_pull),        BOTH(test_nothing_came),       BOTH(test_wait_for_a_version),
        BOTH(test_fail_over),   BOTH(test_whole_publications), BOTH(test_read_in_place),
        BOTH(test_wrong_calls),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
