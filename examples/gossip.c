/* SPDX-License-Identifier: Apache-2.0 */
/* Members that run apart: each holds a value, and averages it pairwise with a random other one,
 * again and again. Nobody waits for anybody, members may vanish, and the sum of all that are left
 * stays what it was, so that all end near the mean.
 *
 *     spotnik run -n 4 -- build/examples/gossip */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "spotnik/apart.h"

enum { COUNT = 1000, TURNS = 100 };

static int failed(const char *what, int rc)
{
    fprintf(stderr, "%s: %s (%s)\n", what, spotnik_strerror(rc), spotnik_last_error());
    return 1;
}

/* What another member and we have in common from now on. */
static int average(spotnik_job *job, float *model, float *change)
{
    spotnik_arrival arrival = { .size = sizeof arrival };
    spotnik_request *request;
    spotnik_job_status status;

    spotnik_status(job, &status);
    for (int i = 0; i < COUNT; i++)
        change[i] = model[i];
    int rc = spotnik_exchange(job, "model", (uint32_t)rand() % (status.size ? status.size : 1),
                              change, COUNT, UINT64_C(1000000000), &request);
    if (rc)
        return rc;
    rc = spotnik_request_wait(request, UINT64_MAX, &arrival);
    spotnik_request_free(request);
    for (int i = 0; rc == 0 && arrival.version && i < COUNT; i++)
        model[i] += change[i];
    return rc;
}

static int turn(spotnik_job *job, float *model, uint64_t version)
{
    static float change[COUNT];
    int rc = spotnik_publish(job, "model", model, COUNT, SPOTNIK_F32, version);

    if (rc == 0)
        rc = average(job, model, change);
    if (rc == 0)
        /* what others have averaged with us */
        rc = spotnik_settle(job, "model", model, COUNT, NULL);
    nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL); /* stands for computing a gradient */
    return rc;
}

int main(void)
{
    static float model[COUNT];
    spotnik_config config;
    spotnik_job *job;
    spotnik_step step;

    spotnik_config_init(&config);
    int rc = spotnik_join(&config, &job);
    if (rc)
        return failed("join", rc);
    /* now we know the others */
    if ((rc = spotnik_step_begin(job, &step)) || (rc = spotnik_step_commit(job)))
        return failed("step", rc);
    srand((unsigned)(1 + step.rank));
    for (int i = 0; i < COUNT; i++)
        model[i] = (float)(100 * step.rank);
    for (uint64_t version = 1; version <= TURNS && rc == 0; version++)
        rc = turn(job, model, version);
    if (rc)
        return failed("turn", rc);
    printf("rank %u of %u: %g at first, %g now\n", step.rank, step.size, (double)(100 * step.rank),
           (double)model[0]);
    return spotnik_leave(job) ? 1 : 0;
}
