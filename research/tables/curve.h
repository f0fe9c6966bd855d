/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares by Levenberg-Marquardt (cminpack). */
#ifndef SPOTNIK_RESEARCH_CURVE_H
#define SPOTNIK_RESEARCH_CURVE_H

#include <stddef.h>

typedef void (*spotnik_residuals)(void *context, const double *parameters, double *residuals);

/* Minimises the sum of squared residuals from the given start; returns 0, or -1 when memory is
 * short or nothing converged (then the parameters are the best seen). */
int spotnik_curve_fit(spotnik_residuals residuals, void *context, double *parameters,
                      size_t parameter_count, size_t residual_count);

#endif
