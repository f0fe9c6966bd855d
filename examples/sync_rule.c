/* SPDX-License-Identifier: Apache-2.0 */
/* A strategy of the program's own, made from the primitives. Each member steps by itself, and in
 * every fourth step all models go half of the way to their average. The rule is begin() and
 * finish(); the rest is minimal.c with another update.
 *
 *     spotnik run -n 2:4 --respawn --kill-every 2s -- sync_rule */
#include "spotnik/sync.h"

#include <stdio.h>
#include <string.h>

enum { SAMPLES = 1000, STEPS = 2000, PERIOD = 4 };

/* What travels is started here, before the gradient is computed (EARLY). The average may differ
 * from ours in every element; the model stays as it is until finish(). */
static void begin(void *context, spotnik_sync *sync, const spotnik_sync_view *now)
{
    (void)context;
    if (now->step % PERIOD)
        return;
    memcpy(now->scratch, now->model, now->count * sizeof *now->model);
    spotnik_sync_average(sync, now->scratch);
}

/* It has come, whoever was lost meanwhile. The centre is what all agree on: it is made of averages
 * alone. */
static void finish(void *context, spotnik_sync *sync, const spotnik_sync_view *now)
{
    (void)context;
    for (size_t i = 0; now->step % PERIOD == 0 && i < now->count; i++) {
        now->centre[i] = now->scratch[i];
        now->model[i] += 0.5f * (now->centre[i] - now->model[i]);
    }
    spotnik_sync_apply(sync, now->model, now->gradient);
}

/* The optimiser: plain gradient descent. */
static void descend(void *context, float *w, const float *g, size_t count)
{
    (void)context;
    for (size_t i = 0; i < count; i++)
        w[i] -= 0.5f * g[i];
}

/* The gradient of the mean squared error of w[0] x + w[1] over this member's share of points near y
 * = 3 x + 2. */
static void compute(const float w[2], float g[2], const spotnik_step *step)
{
    g[0] = g[1] = 0;
    for (uint32_t r = 0; r < step->range_count; r++)
        for (uint64_t i = step->samples[r].begin; i < step->samples[r].end; i++) {
            float x = (float)i / SAMPLES, noise = ((float)(i * 7919 % 101) / 101 - 0.5f) / 10;
            float error = w[0] * x + w[1] - (3 * x + 2 + noise);

            g[0] += 2 * error * x / (float)step->sample_count;
            g[1] += 2 * error / (float)step->sample_count;
        }
}

static int train(spotnik_job *job, spotnik_sync **ret_sync)
{
    static float w[2], g[2];
    spotnik_step step;
    int rc = spotnik_sync_open(job, NULL, w, 2, descend, NULL, ret_sync);

    if (!rc)
        rc = spotnik_sync_rule_set(*ret_sync, "halfway",
                                   SPOTNIK_RULE_SYNCHRONOUS | SPOTNIK_RULE_EARLY, begin, finish,
                                   NULL);
    while (!rc) {
        rc = spotnik_sync_begin(*ret_sync, &step);
        if (rc)
            break;
        compute(w, g, &step);
        rc = spotnik_sync_step(*ret_sync, g);
        if (rc == SPOTNIK_ERR_EXCLUDED)
            rc = 0;
    }
    return rc;
}

int main(void)
{
    spotnik_config cfg;
    spotnik_job *job;
    spotnik_sync *sync = NULL;

    spotnik_config_init(&cfg);
    cfg.samples = SAMPLES;
    cfg.batch = 100;
    cfg.steps_max = STEPS;
    int rc = spotnik_join(&cfg, &job);

    if (!rc) {
        rc = train(job, &sync);
        if (rc == SPOTNIK_ERR_DONE) {
            printf("all agree on y = %.2f x + %.2f\n", (double)spotnik_sync_agreed(sync)[0],
                   (double)spotnik_sync_agreed(sync)[1]);
            return spotnik_leave(job) ? 1 : 0;
        }
    }
    fprintf(stderr, "sync_rule: %s (%s)\n", spotnik_strerror(rc), spotnik_last_error());
    return 1;
}
