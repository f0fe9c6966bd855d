/* SPDX-License-Identifier: Apache-2.0 */
#include "curve.h"

#include <cminpack.h>
#include <math.h>
#include <stdlib.h>

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
