/* SPDX-License-Identifier: Apache-2.0 */
/* Members that run apart: each holds a value, and moves it halfway to that of a random other one,
 * again and again. Nobody waits for anybody, members may vanish, and all end near each other.
 *
 *     spotnik run -n 4 -- build/examples/gossip */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "spotnik/p2p.h"

enum { COUNT = 1000, TURNS = 100 };

static int failed(const char *what, int rc)
{
    fprintf(stderr, "%s: %s (%s)\n", what, spotnik_strerror(rc), spotnik_last_error());
    return 1;
}

static int average(spotnik_job *job, float *model)
{
    static float other[COUNT];
    spotnik_arrival arrival = { .size = sizeof arrival };
    spotnik_request *request;
    spotnik_job_status status;

    spotnik_status(job, &status);
    int rc = spotnik_pull(job, "model", (uint32_t)rand() % (status.size ? status.size : 1), 0,
                          other, COUNT, SPOTNIK_F32, UINT64_C(1000000000), &request);
    if (rc)
        return rc;
    rc = spotnik_request_wait(request, UINT64_MAX, &arrival);
    spotnik_request_free(request);
    for (int i = 0; rc == 0 && arrival.version && i < COUNT; i++)
        model[i] = (model[i] + other[i]) / 2;
    return rc;
}

static int turn(spotnik_job *job, float *model, uint64_t version)
{
    int rc = spotnik_publish(job, "model", model, COUNT, SPOTNIK_F32, version);

    if (rc == 0)
        rc = average(job, model);
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
