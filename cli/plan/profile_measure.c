/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of runs, and the numbers that the planner's formulas take from it: compute time against batch from
 * the smallest number of workers, the link from what larger rings wait for. Every point is kept as measured
 * beside the formulas. */
#include "profile_measure.h"
#include "plan/curvefit.h"
#include "probe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define HOP_S 50e-6 /* not seen apart from the link with one size of gradient */
#define LINK_BYTES_PER_S_MOST 1e12

struct grid {
    const struct spotnik_profile_order *order;
    struct spotnik_probe at[SPOTNIK_GRID_MAX][SPOTNIK_GRID_MAX]; /* [workers][batch] */
    struct spotnik_probe loss;
};

static int grid_run(struct grid *grid, struct spotnik_fault *fault)
{
    const struct spotnik_profile_order *order = grid->order;

    for (size_t i = 0; i < order->worker_count; i++) {
        for (size_t j = 0; j < order->batch_count; j++) {
            bool last = i + 1 == order->worker_count && j + 1 == order->batch_count;
            const struct spotnik_probe_order one = { order->command, (unsigned)order->workers[i],
                                                     order->batches[j], order->seconds,
                                                     last && order->workers[i] > 1 };
            struct spotnik_probe *probe = &grid->at[i][j];
            if (spotnik_probe_run(&one, probe, fault))
                return -1;
            fprintf(stderr,
                    "%u workers, batch %.0f: %.2f ms a step (computes %.2f, waits %.2f), %.0f steps\n",
                    one.workers, one.batch, 1e3 * probe->step_s, 1e3 * probe->compute_s,
                    1e3 * probe->exposed_s, probe->steps);
            if (one.lose_one)
                grid->loss = *probe;
        }
    }
    return 0;
}

/* fixed + per sample, from the smallest number of workers. */
static void device_fit(const struct grid *grid, struct spotnik_device *device)
{
    const struct spotnik_profile_order *order = grid->order;
    double share[SPOTNIK_GRID_MAX], seconds[SPOTNIK_GRID_MAX];

    for (size_t j = 0; j < order->batch_count; j++) {
        share[j] = order->batches[j] / order->workers[0];
        seconds[j] = grid->at[0][j].compute_s;
    }
    struct spotnik_line line = { 0 };
    if (order->batch_count > 1)
        line = spotnik_line_fit(share, seconds, NULL, order->batch_count);
    if (!(line.slope > 0) || line.intercept < 0) {
        line.intercept = 0;
        line.slope = 0;
        for (size_t j = 0; j < order->batch_count; j++)
            line.slope += seconds[j] / share[j] / (double)order->batch_count;
    }
    device->fixed_s = line.intercept;
    device->sample_s = line.slope;
    device->batch_most = 1e9;
}

/* The slowest of the links that larger rings show: bytes over the time that they wait beyond their hops. */
static double link_fit(const struct grid *grid)
{
    const struct spotnik_profile_order *order = grid->order;
    double link = LINK_BYTES_PER_S_MOST;

    for (size_t i = 0; i < order->worker_count; i++) {
        double n = order->workers[i], waits_s = 0;
        for (size_t j = 0; j < order->batch_count; j++)
            waits_s += grid->at[i][j].exposed_s / (double)order->batch_count;
        double moving_s = waits_s - 2 * (n - 1) * HOP_S;
        if (n > 1 && moving_s > 0)
            link = fmin(link, 2 * (n - 1) / n * grid->at[i][0].reduce_bytes / moving_s);
    }
    return link;
}

static void points_keep(const struct grid *grid, struct spotnik_profile *p)
{
    const struct spotnik_profile_order *order = grid->order;

    for (size_t i = 0; i < order->worker_count; i++) {
        for (size_t j = 0; j < order->batch_count; j++) {
            struct spotnik_measured *m = &p->measured[p->measured_count++];
            snprintf(m->accelerator, sizeof(m->accelerator), "%s", order->device);
            m->devices = order->workers[i];
            m->batch = order->batches[j];
            m->step_s = grid->at[i][j].step_s;
        }
    }
}

int spotnik_profile_measure(const struct spotnik_profile_order *order, struct spotnik_profile *profile_out,
                            struct spotnik_fault *fault)
{
    static struct grid grid;
    struct spotnik_profile p;

    grid = (struct grid){ .order = order };
    if (grid_run(&grid, fault))
        return -1;
    spotnik_profile_empty(&p);
    snprintf(p.name, sizeof(p.name), "%s", order->name);
    snprintf(p.devices[0].accelerator, sizeof(p.devices[0].accelerator), "%s", order->device);
    p.device_count = 1;
    device_fit(&grid, &p.devices[0]);
    memcpy(p.batches, order->batches, sizeof(*p.batches) * order->batch_count);
    p.batch_count = order->batch_count;
    p.samples_per_epoch = order->samples_per_epoch;
    p.reference_batch = order->batches[0];
    p.gradient_bytes = grid.at[0][0].reduce_bytes;
    p.state_bytes = 2 * p.gradient_bytes;
    p.link_bytes_per_s = link_fit(&grid);
    p.hop_s = HOP_S;
    p.overlap = 0; /* what compute hides is not in the time that was waited for */
    if (grid.loss.steps > 0) {
        p.recover_s = grid.loss.recover_s;
        p.startup_s = grid.loss.startup_s;
        p.join_s = grid.loss.join_s;
    }
    points_keep(&grid, &p);
    *profile_out = p;
    return 0;
}
