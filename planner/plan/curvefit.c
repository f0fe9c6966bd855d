/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting, without any model in it. */
#include "plan/curvefit.h"

#include <cminpack.h>
#include <math.h>
#include <stdlib.h>

struct spotnik_line spotnik_line_fit(const double *x, const double *y, const double *weight,
                                     size_t count)
{
    double sw = 0, sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0;

    for (size_t i = 0; i < count; i++) {
        double w = weight ? weight[i] : 1;
        sw += w;
        sx += w * x[i];
        sy += w * y[i];
        sxx += w * x[i] * x[i];
        sxy += w * x[i] * y[i];
        syy += w * y[i] * y[i];
    }
    double vx = sxx - sx * sx / sw, vy = syy - sy * sy / sw, cxy = sxy - sx * sy / sw;
    struct spotnik_line line = { .slope = vx > 1e-12 * fabs(sxx) ? cxy / vx : 0 };
    line.intercept = (sy - line.slope * sx) / sw;
    line.r_squared = vx > 0 && vy > 0 ? cxy * cxy / (vx * vy) : 0;
    return line;
}

struct call {
    spotnik_residuals residuals;
    void *context;
};

static int trampoline(void *p, int m, int n, const double *x, double *fvec, int flag)
{
    struct call *call = p;

    (void)n;
    (void)flag;
    call->residuals(call->context, x, fvec);
    for (int i = 0; i < m; i++)
        if (!isfinite(fvec[i]))
            fvec[i] = 1e6;
    return 0;
}

int spotnik_curve_fit(spotnik_residuals residuals, void *context, double *parameters,
                      size_t parameter_count, size_t residual_count)
{
    int n = (int)parameter_count, m = (int)residual_count, work_size = m * n + 5 * n + m;
    struct call call = { residuals, context };
    double *fvec = malloc(sizeof(double) * residual_count),
           *work = malloc(sizeof(double) * (size_t)work_size);
    int *pivots = malloc(sizeof(int) * parameter_count), info = 0;

    if (fvec && work && pivots && m >= n)
        info = lmdif1(trampoline, &call, m, n, parameters, fvec, 1e-12, pivots, work, work_size);
    free(fvec);
    free(work);
    free(pivots);
    return info >= 1 ? 0 : -1;
}
