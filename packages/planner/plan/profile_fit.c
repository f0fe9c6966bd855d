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

/* Waits are skew x growth + rate x workers: least squares over the points of several workers. False
 * where these are all of one number. */
static bool waits_solve(const struct spotnik_step_point *points, size_t count, double *skew_out,
                        double *rate_out)
{
    double gg = 0, gn = 0, nn = 0, gw = 0, nw = 0;

    for (size_t i = 0; i < count; i++) {
        double n = points[i].workers, growth = spotnik_skew_growth(n), w = points[i].wait_s;
        gg += growth * growth;
        gn += growth * n;
        nn += n * n * (n > 1);
        gw += growth * w;
        nw += n * w * (n > 1);
    }
    double determinant = gg * nn - gn * gn;
    if (!(determinant > 1e-6 * gg * nn))
        return false;
    *skew_out = (gw * nn - nw * gn) / determinant;
    *rate_out = (nw * gg - gw * gn) / determinant;
    return true;
}

void spotnik_profile_fit_waits(const struct spotnik_step_point *points, size_t count,
                               struct spotnik_profile *profile)
{
    double least = profile->gradient_bytes / profile->host_bytes_per_s, skew, rate, sum = 0,
           growths = 0;

    if (!waits_solve(points, count, &skew, &rate) || rate < least || skew < 0)
        rate = least;
    for (size_t i = 0; i < count; i++)
        if (points[i].workers > 1) {
            sum += points[i].wait_s - rate * points[i].workers;
            growths += spotnik_skew_growth(points[i].workers);
        }
    profile->skew_s = growths > 0 ? fmax(0, sum / growths) : 0;
    if (rate > 0)
        profile->host_bytes_per_s = profile->gradient_bytes / rate;
}
