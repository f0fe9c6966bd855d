/* SPDX-License-Identifier: Apache-2.0 */
/* Least squares of a line, in closed form. */
#ifndef SPOTNIK_PLAN_CURVEFIT_H
#define SPOTNIK_PLAN_CURVEFIT_H

#include <stddef.h>

struct spotnik_line {
    double intercept, slope, r_squared;
};

/* Weighted least squares; `weight` may be null. Fewer than two different x give a slope of 0. */
struct spotnik_line spotnik_line_fit(const double *x, const double *y, const double *weight,
                                     size_t count);

#endif
