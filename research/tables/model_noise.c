/* SPDX-License-Identifier: Apache-2.0 */
/* Scavenger's models. Pure functions; the header says what each assumes. */
#include "model_noise.h"
#include "curve.h"
#include "model_speed.h"

#include <math.h>

static double blend(const double ends[2], double share)
{
    return ends[0] + (ends[1] - ends[0]) * share;
}

double spotnik_batch_time_h(const struct spotnik_batch_time *model, double batch, double workers)
{
    double share = (pow(batch, -0.5) - model->root_low) / (model->root_high - model->root_low);
    double shared = exp(blend(model->shared_log, share)),
           growing = exp(blend(model->growing_log, share));
    double p = model->sharpness;

    return pow(pow(shared, p) + pow(growing * workers, p), 1 / p) / workers;
}

struct rows {
    const struct spotnik_batch_row *rows;
    size_t count;
    struct spotnik_batch_time model;
};

static void take(struct spotnik_batch_time *model, const double *x)
{
    for (int i = 0; i < 2; i++) {
        model->shared_log[i] = x[i];
        model->growing_log[i] = x[2 + i];
    }
}

static void batch_residuals(void *context, const double *x, double *residuals)
{
    struct rows *rows = context;

    take(&rows->model, x);
    for (size_t i = 0; i < rows->count; i++)
        residuals[i] =
            log(spotnik_batch_time_h(&rows->model, rows->rows[i].batch, rows->rows[i].workers)
                / rows->rows[i].time_h);
}

int spotnik_batch_time_fit(const struct spotnik_batch_row *rows, size_t count, double sharpness,
                           struct spotnik_batch_time *model_out)
{
    double batch_least = INFINITY, batch_most = 0, workers_least = INFINITY, workers_most = 0,
           total_log = 0;

    for (size_t i = 0; i < count; i++) {
        batch_least = fmin(batch_least, rows[i].batch);
        batch_most = fmax(batch_most, rows[i].batch);
        workers_least = fmin(workers_least, rows[i].workers);
        workers_most = fmax(workers_most, rows[i].workers);
        total_log += log(rows[i].time_h * rows[i].workers) / (double)count;
    }
    if (!(batch_least < batch_most) || !(workers_least < workers_most) || count < 4)
        return -1;
    struct rows context = { rows,
                            count,
                            { .root_low = pow(batch_most, -0.5),
                              .root_high = pow(batch_least, -0.5),
                              .sharpness = sharpness } };
    double x[4] = { total_log, total_log, total_log - log(workers_most),
                    total_log - log(workers_most) };
    if (spotnik_curve_fit(batch_residuals, &context, x, 4, count))
        return -1;
    take(&context.model, x);
    *model_out = context.model;
    return 0;
}

/* By how far a batch lies outside of those that were fitted, in their distance. */
static double outside(const struct spotnik_batch_time *model, double batch)
{
    double share = (pow(batch, -0.5) - model->root_low) / (model->root_high - model->root_low);

    return fmax(0, fmax(-share, share - 1));
}

int spotnik_batch_time_interval(const struct spotnik_batch_row *rows, size_t count, double batch,
                                double workers, double *low_h_out, double *high_h_out)
{
    double ends[2] = { INFINITY, 0 }, per_h[2], low, high;
    struct spotnik_batch_time model;

    if (spotnik_batch_time_fit(rows, count, SPOTNIK_NOISE_SHARPNESS, &model))
        return -1;
    for (size_t i = 0; i < count; i++) {
        ends[0] = fmin(ends[0], rows[i].workers);
        ends[1] = fmax(ends[1], rows[i].workers);
    }
    for (int i = 0; i < 2; i++)
        per_h[i] = 1 / spotnik_batch_time_h(&model, batch, ends[i]);
    spotnik_speed_interval(ends, per_h, 2, workers,
                           SPOTNIK_NOISE_SCATTER * (1 + outside(&model, batch)), &low, &high);
    *low_h_out = 1 / high;
    *high_h_out = 1 / low;
    return 0;
}

double spotnik_cluster_cost_usd(double time_h, double workers, double usd_per_h)
{
    return time_h * workers * usd_per_h;
}
