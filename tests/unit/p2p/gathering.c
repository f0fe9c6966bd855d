/* SPDX-License-Identifier: Apache-2.0 */
/* Members meet in a step, each on a thread that ends with it. */
#include "gathering.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

struct arriving {
    struct gathering *gathering;
    uint32_t member;
    int rc;
    char detail[256];
};

static int join(struct gathering *gathering, uint32_t member)
{
    spotnik_config config;
    spotnik_step step;

    place_config(&gathering->place, &config);
    config.members_min = gathering->count;
    int rc = spotnik_join(&config, &gathering->job[member]);
    if (rc == 0)
        rc = spotnik_step_begin(gathering->job[member], &step);
    if (rc == 0)
        rc = spotnik_step_commit(gathering->job[member]);
    gathering->rank[member] = step.rank;
    return rc;
}

static void *arrive(void *context)
{
    struct arriving *arriving = context;

    arriving->rc = join(arriving->gathering, arriving->member);
    snprintf(arriving->detail, sizeof arriving->detail, "%s", spotnik_last_error());
    return NULL;
}

static void environment_clear(const char *transport)
{
    static const char *const names[] = { "SPOTNIK_JOB", "SPOTNIK_KEY_FILE", "SPOTNIK_PEERS",
                                         "SPOTNIK_MIN", "SPOTNIK_MAX",      "SPOTNIK_CHECKPOINT",
                                         "SPOTNIK_BIND" };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        unsetenv(names[i]);
    setenv("SPOTNIK_TRANSPORT", transport, 1);
}

void gathering_begin(struct gathering *gathering, uint32_t count, const char *transport)
{
    struct arriving arriving[GATHERING_MAX];
    pthread_t thread[GATHERING_MAX];

    assert_true(count <= GATHERING_MAX);
    environment_clear(transport);
    memset(gathering, 0, sizeof *gathering);
    gathering->count = count;
    place_open(&gathering->place);
    for (uint32_t i = 0; i < count; i++) {
        arriving[i] = (struct arriving){ .gathering = gathering, .member = i };
        assert_int_equal(pthread_create(&thread[i], NULL, arrive, &arriving[i]), 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(thread[i], NULL), 0);
        if (arriving[i].rc != 0)
            fail_msg("member %u: %s", i, arriving[i].detail);
    }
}

void gathering_lose(struct gathering *gathering, uint32_t i)
{
    spotnik_abandon(gathering->job[i]);
    gathering->job[i] = NULL;
}

uint32_t gathering_of_rank(const struct gathering *gathering, uint32_t rank)
{
    uint32_t i = 0;

    while (gathering->rank[i] != rank)
        i++;
    return i;
}

void gathering_end(struct gathering *gathering)
{
    for (uint32_t i = 0; i < gathering->count; i++)
        spotnik_abandon(gathering->job[i]);
    place_close(&gathering->place);
}
