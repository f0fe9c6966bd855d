/* SPDX-License-Identifier: Apache-2.0 */
/* CM-DARE's times. Pure functions. */
#include "model_overhead.h"

#include <math.h>
#include <stdlib.h>

int spotnik_remaining_fit(const double *step, const double *remaining_s, size_t count,
                          struct spotnik_remaining *model_out)
{
    double *weight = calloc(count ? count : 1, sizeof(*weight));

    if (!weight)
        return -1;
    for (size_t i = 0; i < count; i++)
        weight[i] = 1 / (remaining_s[i] * remaining_s[i]);
    struct spotnik_line line = spotnik_line_fit(step, remaining_s, weight, count);
    free(weight);
    if (count < 2 || line.slope >= 0)
        return -1;
    *model_out = (struct spotnik_remaining){ -1 / line.slope, line.intercept };
    return 0;
}

double spotnik_remaining_s(const struct spotnik_remaining *model, double step)
{
    return fmax(0, model->end_s - step / model->steps_per_s);
}
