/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares: a line in closed form, anything else by Levenberg-Marquardt (cminpack). */
#ifndef SPOTNIK_PLAN_CURVEFIT_H
#define SPOTNIK_PLAN_CURVEFIT_H

#include <stddef.h>

struct spotnik_line {
    double intercept, slope, r_squared;
};

/* Weighted least squares; `weight` may be null. Fewer than two different x give a slope of 0. */
struct spotnik_line spotnik_line_fit(const double *x, const double *y, const double *weight,
                                     size_t count);

typedef void (*spotnik_residuals)(void *context, const double *parameters, double *residuals);

/* Minimises the sum of squared residuals from the given start; returns 0, or -1 when memory is
 * short or nothing converged (then the parameters are the best seen). */
int spotnik_curve_fit(spotnik_residuals residuals, void *context, double *parameters,
                      size_t parameter_count, size_t residual_count);

#endif
