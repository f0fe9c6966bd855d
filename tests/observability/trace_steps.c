/* SPDX-License-Identifier: Apache-2.0 */
/* A member alone that makes STEPS steps of one small bucket, for trace_cost.py: trace_steps
 * STEPS */
#include <stdio.h>
#include <stdlib.h>

#include <spotnik/spotnik.h>

enum { COUNT = 256 };

static int step_make(spotnik_job *job, float *data)
{
    spotnik_step step;
    int rc = spotnik_step_begin(job, &step);

    if (rc == 0)
        rc = spotnik_allreduce(job, 0, data, COUNT, SPOTNIK_F32, SPOTNIK_MEAN);
    return rc == 0 ? spotnik_step_commit(job) : rc;
}

int main(int argc, char **argv)
{
    static float data[COUNT];
    spotnik_config config;
    spotnik_job *job;
    long steps = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

    spotnik_config_init(&config);
    int rc = spotnik_join(&config, &job);
    while (rc == 0 && steps-- > 0)
        rc = step_make(job, data);
    if (rc != 0) {
        fprintf(stderr, "trace_steps: %s\n", spotnik_last_error());
        return 1;
    }
    spotnik_leave(job);
    return 0;
}
