/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: buckets 0 to 255 are all the caller's, in steps with collectives and without, over TCP and
 * in shared memory. What a step with collectives has beside them takes no number from the caller,
 * even of one that uses all 256, and is not seen in the steps that follow. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "place.h"
#include "spotnik/spotnik.h"
#include "tests.h"

enum { MEMBERS = 3, WHOLE = 256 };

struct member {
    struct place *place;
    pthread_t thread;
    spotnik_job *job;
    spotnik_step step;
    char failure[256];
};

static const uint32_t edge[] = { 0, 254, 255 };
enum { EDGES = sizeof edge / sizeof edge[0] };

/* Plain sums in the caller's buckets `at`, beside one of each collective in the others of `edge`,
 * moved by `turn`. */
static void edges_together(struct member *member, uint32_t turn)
{
    const uint32_t own = member->step.share + 1;
    uint32_t share[MEMBERS], sum = own;
    uint16_t row = (uint16_t)own, table[MEMBERS] = { 0 };
    uint8_t byte = member->step.share == 1 ? 77 : 0;
    spotnik_job *job = member->job;

    EXPECT(member, spotnik_broadcast(job, edge[turn % EDGES], &byte, 1, SPOTNIK_U8, 1) == 0);
    EXPECT(member,
           spotnik_allgather(job, edge[(turn + 1) % EDGES], &row, 1, SPOTNIK_U16, table, MEMBERS)
               == 0);
    EXPECT(member,
           spotnik_allreduce(job, edge[(turn + 2) % EDGES], &sum, 1, SPOTNIK_U32, SPOTNIK_SUM)
               == 0);
    EXPECT(member, spotnik_step_commit(job) == 0);
    EXPECT(member, byte == 77 && sum == 6 && table[0] == 1 && table[1] == 2 && table[2] == 3);
    EXPECT(member, spotnik_contributors(job, share, MEMBERS) == MEMBERS && share[2] == 2);
}

/* Every number at once; with a collective, its census is beside them. */
static void edges_whole(struct member *member, bool collective)
{
    uint32_t number[WHOLE];

    for (uint32_t i = 0; i < WHOLE; i++) {
        number[i] = member->step.share == 1 ? i : 0;
        EXPECT(member,
               (collective && i == 128
                    ? spotnik_broadcast(member->job, i, &number[i], 1, SPOTNIK_U32, 1)
                    : spotnik_allreduce(member->job, i, &number[i], 1, SPOTNIK_U32, SPOTNIK_MAX))
                   == 0);
    }
    EXPECT(member, spotnik_step_commit(member->job) == 0);
    for (uint32_t i = 0; i < WHOLE; i++)
        EXPECT(member, number[i] == i);
    EXPECT(member,
           spotnik_contributors(member->job, NULL, 0) == (uint32_t)(collective ? MEMBERS : 0));
}

/* A step without buckets between: what the library used beyond the caller's is empty again. */
static void *edges(void *context)
{
    struct member *member = context;
    spotnik_config config;

    place_config(member->place, &config);
    config.members_min = MEMBERS;
    config.members_max = MEMBERS;
    EXPECT(member, spotnik_join(&config, &member->job) == 0);
    for (uint32_t i = 0; i < 12 && !member->failure[0]; i++) {
        EXPECT(member, spotnik_step_begin(member->job, &member->step) == 0);
        if (i % 4 < EDGES)
            edges_together(member, i);
        else
            edges_whole(member, i < 8);
        EXPECT(member, i % 2 || spotnik_barrier(member->job) == 0);
    }
    EXPECT(member, spotnik_leave(member->job) == 0);
    return NULL;
}

static void together(const char *transport)
{
    struct place place;
    struct member member[MEMBERS] = { 0 };

    setenv("SPOTNIK_TRANSPORT", transport, 1);
    place_open(&place);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        member[i].place = &place;
        assert_int_equal(pthread_create(&member[i].thread, NULL, edges, &member[i]), 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(pthread_join(member[i].thread, NULL), 0);
    place_close(&place);
    unsetenv("SPOTNIK_TRANSPORT");
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_string_equal(member[i].failure, "");
}

TEST(tcp)
{
    together("tcp");
}

TEST(memory)
{
    together("auto");
}
