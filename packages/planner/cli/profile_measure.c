/* SPDX-License-Identifier: Apache-2.0 */
/* The grid of runs, and the numbers that the planner's formulas take from it. Every point is kept
 * as measured beside the formulas. */
#include "profile_measure.h"
#include "hostload.h"
#include "plan/profile_fit.h"
#include "profile_probe.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ERROR_LEAST 0.01
#define ERROR_MOST 1 /* more is no profile that a plan would read */

struct grid {
    const struct spotnik_profile_order *order;
    struct spotnik_probe rounds[SPOTNIK_ROUNDS_MAX][SPOTNIK_GRID_MAX][SPOTNIK_GRID_MAX];
    /* [workers][batch]: medians of the rounds */
    struct spotnik_probe at[SPOTNIK_GRID_MAX][SPOTNIK_GRID_MAX];
    struct spotnik_probe loss;
    double error; /* half of how far rounds are apart, relative, where that is most */
    unsigned busy, runs;
};

static void run_tell(const struct spotnik_probe_order *one, const struct spotnik_probe *probe)
{
    fprintf(stderr,
            "%u workers, batch %.0f: %.2f ms a step (computes %.2f, waits %.2f), %.0f steps\n",
            one->workers, one->batch, 1e3 * probe->step_s, 1e3 * probe->compute_s,
            1e3 * probe->exposed_s, probe->steps);
}

static bool run_disturbed(const struct spotnik_probe *probe)
{
    double processors = spotnik_host_processors();

    if (!(probe->others > SPOTNIK_PROBE_OTHERS_MOST * processors))
        return false;
    fprintf(stderr,
            "  the host was busy with something else: %.1f of %.0f processors, three times\n",
            probe->others, processors);
    return true;
}

static int round_run(struct grid *grid, unsigned number, struct spotnik_fault *fault)
{
    const struct spotnik_profile_order *order = grid->order;

    for (size_t i = 0; i < order->worker_count; i++) {
        for (size_t j = 0; j < order->batch_count; j++) {
            bool last = i + 1 == order->worker_count && j + 1 == order->batch_count;
            const struct spotnik_probe_order one = {
                order->command, (unsigned)order->workers[i],   order->batches[j],
                order->seconds, last && order->workers[i] > 1, !strcmp(order->device, "cpu")
            };
            struct spotnik_probe *probe = &grid->rounds[number][i][j];
            if (spotnik_probe_run(&one, probe, fault))
                return -1;
            run_tell(&one, probe);
            grid->busy += run_disturbed(probe);
            grid->runs++;
        }
    }
    return 0;
}

static int double_order(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The median over the rounds of one number of a probe, which is `offset` bytes into it. */
static double median(const struct grid *grid, size_t i, size_t j, size_t offset, double *apart_out)
{
    double values[SPOTNIK_ROUNDS_MAX];
    unsigned n = grid->order->rounds;

    for (unsigned r = 0; r < n; r++)
        values[r] = *(const double *)(const void *)((const char *)&grid->rounds[r][i][j] + offset);
    qsort(values, n, sizeof(*values), double_order);
    double middle = (values[(n - 1) / 2] + values[n / 2]) / 2;
    if (apart_out)
        *apart_out = middle > 0 ? (values[n - 1] - values[0]) / 2 / middle : 0;
    return middle;
}

static struct spotnik_probe probe_median(struct grid *grid, size_t i, size_t j)
{
    struct spotnik_probe probe = grid->rounds[0][i][j];
    double apart;

    probe.step_s = median(grid, i, j, offsetof(struct spotnik_probe, step_s), &apart);
    probe.compute_s = median(grid, i, j, offsetof(struct spotnik_probe, compute_s), NULL);
    probe.exposed_s = median(grid, i, j, offsetof(struct spotnik_probe, exposed_s), NULL);
    probe.recover_s = median(grid, i, j, offsetof(struct spotnik_probe, recover_s), NULL);
    probe.startup_s = median(grid, i, j, offsetof(struct spotnik_probe, startup_s), NULL);
    probe.join_s = median(grid, i, j, offsetof(struct spotnik_probe, join_s), NULL);
    grid->error = fmax(grid->error, apart);
    return probe;
}

static void grid_warn(const struct grid *grid)
{
    if (grid->busy)
        fprintf(stderr,
                "warning: the host was busy during %u of %u runs; steps on a quiet host are "
                "shorter than these. "
                "Profile again in quiet before you rely on a plan\n",
                grid->busy, grid->runs);
    if (grid->order->rounds > 1)
        fprintf(stderr, "steps differ by up to +-%.1f %% between %u rounds%s\n", 100 * grid->error,
                grid->order->rounds,
                grid->error > 0.05
                    ? ": a plan from them is no better; a quieter host, or more --seconds"
                    : "");
}

static int grid_run(struct grid *grid, struct spotnik_fault *fault)
{
    const struct spotnik_profile_order *order = grid->order;

    for (unsigned r = 0; r < order->rounds; r++)
        if (round_run(grid, r, fault))
            return -1;
    for (size_t i = 0; i < order->worker_count; i++)
        for (size_t j = 0; j < order->batch_count; j++)
            grid->at[i][j] = probe_median(grid, i, j);
    if (order->workers[order->worker_count - 1] > 1)
        grid->loss = grid->at[order->worker_count - 1][order->batch_count - 1];
    grid_warn(grid);
    return 0;
}

static size_t points_make(const struct grid *grid,
                          struct spotnik_step_point ret[SPOTNIK_GRID_MAX * SPOTNIK_GRID_MAX])
{
    const struct spotnik_profile_order *order = grid->order;
    size_t count = 0;

    for (size_t i = 0; i < order->worker_count; i++)
        for (size_t j = 0; j < order->batch_count; j++)
            ret[count++] =
                (struct spotnik_step_point){ order->workers[i], order->batches[j],
                                             grid->at[i][j].compute_s, grid->at[i][j].exposed_s };
    return count;
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

int spotnik_profile_measure(const struct spotnik_profile_order *order,
                            struct spotnik_profile *profile_out, struct spotnik_fault *fault)
{
    struct spotnik_step_point points[SPOTNIK_GRID_MAX * SPOTNIK_GRID_MAX];
    static struct grid grid;
    struct spotnik_profile p;

    grid = (struct grid){ .order = order };
    if (grid_run(&grid, fault))
        return -1;
    spotnik_profile_empty(&p);
    snprintf(p.name, sizeof(p.name), "%s", order->name);
    snprintf(p.devices[0].accelerator, sizeof(p.devices[0].accelerator), "%s", order->device);
    p.device_count = 1;
    size_t count = points_make(&grid, points);
    p.devices[0].batch_most = 1e9;
    spotnik_profile_fit_device(points, count, &p.devices[0]);
    memcpy(p.batches, order->batches, sizeof(*p.batches) * order->batch_count);
    p.batch_count = order->batch_count;
    p.samples_per_epoch = order->samples_per_epoch;
    p.reference_batch = order->batches[0];
    p.gradient_bytes = grid.at[0][0].reduce_bytes;
    p.state_bytes = 2 * p.gradient_bytes;
    spotnik_profile_fit_waits(points, count, &p);
    p.overlap = 0; /* what compute hides is not in the time that was waited for */
    if (grid.loss.steps > 0) {
        p.recover_s = grid.loss.recover_s;
        p.startup_s = grid.loss.startup_s;
        p.join_s = grid.loss.join_s;
    }
    if (order->rounds > 1)
        p.error = fmin(fmax(ERROR_LEAST, grid.error), ERROR_MOST);
    points_keep(&grid, &p);
    *profile_out = p;
    return 0;
}
