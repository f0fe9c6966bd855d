/* SPDX-License-Identifier: Apache-2.0 */
/* The whole of a fault-tolerant training loop: fit a line to points by gradient descent, with
 * however many members there are. Run it alone (`minimal`), or as four members of which you may
 * kill any (`spotnik run -n 1:4 -- minimal`). charlm.c is the full version, with an optimiser,
 * overlapping buckets, notices and a log. */
#include "spotnik/spotnik.h"

#include <stdio.h>

enum { SAMPLES = 1000, STEPS = 300 };

/* Sample i of the data: a point near the line y = 3 x + 2. */
static void sample(uint64_t i, double *x, double *y)
{
    *x = (double)i / SAMPLES;
    *y = 3 * *x + 2 + ((double)(i * 7919 % 101) / 101 - 0.5) / 10;
}

/* g: the gradient of the mean squared error over this member's share, for w = { slope, offset }. */
static void compute(const double w[2], double g[2], const spotnik_step *step)
{
    g[0] = g[1] = 0;
    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++) {
            double x, y;

            sample(i, &x, &y);
            double error = w[0] * x + w[1] - y;

            g[0] += 2 * error * x / (double)step->sample_count;
            g[1] += 2 * error / (double)step->sample_count;
        }
}

int main(void)
{
    double w[2] = { 0, 0 }, g[2];
    spotnik_config cfg;
    spotnik_job *job;
    spotnik_step step;

    spotnik_config_init(&cfg); /* from SPOTNIK_* in the environment; without any, a job of one */
    cfg.samples = SAMPLES;
    cfg.batch = 100;
    cfg.steps_max = STEPS;
    int rc = spotnik_join(&cfg, &job);

    if (rc) {
        fprintf(stderr, "minimal: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
        return 1;
    }
    rc = spotnik_state_add(job, "w", w, 2, SPOTNIK_F64); /* what a joiner receives */
    while (!rc) {
        /* waits for members, admits joiners, hands out samples */
        rc = spotnik_step_begin(job, &step);
        if (rc)
            break;
        compute(w, g, &step);
        rc = spotnik_allreduce(job, 0, g, 2, SPOTNIK_F64, SPOTNIK_MEAN);
        if (!rc)
            rc = spotnik_step_commit(job); /* recovery happens in here */
        if (!rc) {
            w[0] -= 0.5 * g[0];
            w[1] -= 0.5 * g[1];
        } else if (rc == SPOTNIK_ERR_EXCLUDED) {
            /* the others went on without us: nothing to apply, and step_begin joins again */
            rc = 0;
        }
    }
    if (rc != SPOTNIK_ERR_DONE) {
        fprintf(stderr, "minimal: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
        spotnik_abandon(job);
        return 1;
    }
    printf("y = %.2f x + %.2f\n", w[0], w[1]);
    return spotnik_leave(job) ? 1 : 0;
}
