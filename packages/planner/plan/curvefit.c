/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/curvefit.h"

#include <math.h>

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
