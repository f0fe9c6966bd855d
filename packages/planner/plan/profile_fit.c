/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/profile_fit.h"
#include "plan/curvefit.h"

#include <math.h>

/* A constant and a rate, from the points of the fewest workers. */
static void line_fit(const struct spotnik_step_point *points, size_t count,
                     struct spotnik_device *device)
{
    double share[SPOTNIK_PROFILE_BATCHES_MAX], seconds[SPOTNIK_PROFILE_BATCHES_MAX];
    struct spotnik_line line = { 0 };
    size_t n = 0;

    for (; n < count && n < SPOTNIK_PROFILE_BATCHES_MAX && points[n].workers == points[0].workers;
         n++) {
        share[n] = points[n].batch / points[n].workers;
        seconds[n] = points[n].compute_s;
    }
    if (n > 1)
        line = spotnik_line_fit(share, seconds, NULL, n);
    if (!(line.slope > 0) || line.intercept < 0) { /* through the origin */
        line = (struct spotnik_line){ 0 };
        for (size_t i = 0; i < n; i++)
            line.slope += seconds[i] / share[i] / (double)n;
    }
    device->fixed_s = line.intercept;
    device->sample_s = line.slope;
}

void spotnik_profile_fit_device(const struct spotnik_step_point *points, size_t count,
                                struct spotnik_device *device_out)
{
    double slower = 0, compared = 0;

    line_fit(points, count, device_out);
    for (size_t i = 0; i < count; i++) {
        const struct spotnik_step_point *p = &points[i];
        double alone_s = device_out->fixed_s + device_out->sample_s * p->batch / p->workers;
        if (p->workers == points[0].workers)
            continue;
        slower += (p->compute_s / alone_s - 1) / (p->workers - points[0].workers);
        compared++;
    }
    device_out->contention = compared > 0 ? fmax(0, slower / compared) : 0;
}

double spotnik_profile_fit_host(const struct spotnik_step_point *points, size_t count,
                                double gradient_bytes)
{
    double least = INFINITY;

    for (size_t i = 0; i < count; i++)
        if (points[i].workers > 1 && points[i].wait_s > 0)
            least = fmin(least, points[i].workers * gradient_bytes / points[i].wait_s);
    return isfinite(least) ? least : NAN;
}
