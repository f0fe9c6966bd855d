/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that shard a model among them, and are one member of a job together: fit a linear map
 * of FEATURES inputs. Each process computes the gradient of its own weights, and updates them; all
 * read the whole model where it lies, in the group's memory. Run it alone, or as three members of
 * four processes each of which you may kill any: `spotnik run -n 1:3 --group 4 -- group`. */
#include "spotnik/group.h"

#include <stdio.h>
#include <stdlib.h>

enum { FEATURES = 8, SAMPLES = 1000, STEPS = 400 };

/* Input j of sample i, in [-1, 1); the output is the sum of (j + 1) times input j. */
static double input(uint64_t i, int j)
{
    uint64_t bits = (i * FEATURES + (uint64_t)j + 1) * 0x9e3779b97f4a7c15u;

    return (double)(bits >> 40) / (1 << 23) - 1;
}

static double error_of(const double *w, uint64_t i)
{
    double error = 0;

    for (int j = 0; j < FEATURES; j++)
        error += (w[j] - (j + 1)) * input(i, j);
    return error;
}

/* Elements [first, end) of g: the gradient of the mean squared error over the group's share. */
static void compute(const double *w, double *g, int first, int end, const spotnik_step *step)
{
    for (int j = first; j < end; j++)
        g[j] = 0;
    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++)
            for (int j = first; j < end; j++)
                g[j] += 2 * error_of(w, i) * input(i, j) / (double)step->sample_count;
}

static int fail(int rc)
{
    fprintf(stderr, "group: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
    return 1; /* the end of this process ends the group; the other members go on */
}

static int train(spotnik_group *group, double *w, double *g)
{
    int size = (int)spotnik_group_size(group), rank = (int)spotnik_group_rank(group);
    int first = FEATURES * rank / size, end = FEATURES * (rank + 1) / size;
    spotnik_step step;
    int rc;

    while (!(rc = spotnik_group_step_begin(group, &step))) {
        compute(w, g, first, end, &step);
        rc = spotnik_group_allreduce(group, 0, g, FEATURES, SPOTNIK_F64, SPOTNIK_MEAN);
        if (!rc)
            rc = spotnik_group_step_commit(group);
        if (rc == SPOTNIK_ERR_EXCLUDED)
            continue; /* nothing to apply; step_begin joins again */
        if (rc)
            return rc;
        for (int j = first; j < end; j++)
            w[j] -= 0.3 * g[j];
    }
    return rc;
}

int main(void)
{
    spotnik_config cfg;
    spotnik_group *group;
    int rc = spotnik_group_open(NULL, 0, 0, &group); /* as SPOTNIK_GROUP says, or a group of one */

    if (rc)
        return fail(rc);
    double *w = spotnik_group_memory(group, FEATURES * sizeof *w);
    double *g = spotnik_group_memory(group, FEATURES * sizeof *g);

    if (!w || !g)
        return fail(SPOTNIK_ERR_MEMORY);
    spotnik_config_init(&cfg);
    cfg.samples = SAMPLES;
    cfg.batch = 100;
    cfg.steps_max = STEPS;
    rc = spotnik_group_join(group, &cfg);
    if (!rc)
        rc = spotnik_group_state_add(group, "w", w, FEATURES, SPOTNIK_F64);
    if (!rc)
        rc = train(group, w, g);
    if (rc != SPOTNIK_ERR_DONE && rc != SPOTNIK_ERR_LEAVING)
        return fail(rc);
    if (rc == SPOTNIK_ERR_DONE && spotnik_group_rank(group) == 0)
        for (int j = 0; j < FEATURES; j++)
            printf("%.2f%c", w[j], j + 1 < FEATURES ? ' ' : '\n');
    int status = rc == SPOTNIK_ERR_DONE ? 0 : 75; /* 75: ask to be started again */
    return spotnik_group_leave(group) ? 1 : status;
}
