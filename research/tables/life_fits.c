/* SPDX-License-Identifier: Apache-2.0 */
#include "life_fits.h"
#include "curve.h"

#include <math.h>
#include <stdlib.h>

/* The integral of t f(t) dt, without its constant. */
static double bathtub_moment(const struct spotnik_bathtub *b, double t_s)
{
    return b->scale
           * (-(t_s + b->early_s) * exp(-t_s / b->early_s)
              + (t_s - b->late_s) * exp((t_s - b->cap_s) / b->late_s));
}

double spotnik_bathtub_mean_s(const struct spotnik_bathtub *b)
{
    return bathtub_moment(b, b->cap_s) - bathtub_moment(b, 0);
}

#define FIT_POINTS 240

struct curve {
    double age_s[FIT_POINTS], lost[FIT_POINTS], cap_s;
};

static struct spotnik_bathtub bathtub_from(const double *x, double cap_s)
{
    /* tau2 between one minute and the cap, so that the fit cannot run away on data without an
     * upturn */
    double late_s = 60 + (cap_s - 60) / (1 + exp(-x[2]));

    return (struct spotnik_bathtub){ exp(x[0]), exp(x[1]), late_s, cap_s };
}

static void bathtub_residuals(void *context, const double *x, double *residuals)
{
    const struct curve *curve = context;
    struct spotnik_bathtub b = bathtub_from(x, curve->cap_s);

    for (size_t i = 0; i < FIT_POINTS; i++)
        residuals[i] = spotnik_bathtub_lost(&b, curve->age_s[i]) - curve->lost[i];
}

int spotnik_bathtub_fit(const struct spotnik_survival *survival, double cap_s,
                        struct spotnik_bathtub *bathtub_out, double *r_squared_out)
{
    struct curve curve = { .cap_s = cap_s };
    double mean = 0, total = 0, rest = 0, x[3] = { log(0.4), log(3600), -3 }, residuals[FIT_POINTS];

    size_t before = 0;
    while (before < survival->count && survival->age_s[before] < cap_s)
        before++;
    if (!before)
        return -1;
    for (size_t i = 0; i < FIT_POINTS; i++) {
        curve.age_s[i] = survival->age_s[before * i / FIT_POINTS];
        curve.lost[i] = spotnik_survival_lost(survival, curve.age_s[i], NULL);
        mean += curve.lost[i] / FIT_POINTS;
    }
    if (spotnik_curve_fit(bathtub_residuals, &curve, x, 3, FIT_POINTS))
        return -1;
    bathtub_residuals(&curve, x, residuals);
    for (size_t i = 0; i < FIT_POINTS; i++) {
        rest += residuals[i] * residuals[i];
        total += (curve.lost[i] - mean) * (curve.lost[i] - mean);
    }
    if (!(rest <= total))
        return -1; /* worse than a level: these lives are no bathtub, or the fit ran away */
    if (r_squared_out)
        *r_squared_out = total > 0 ? 1 - rest / total : 0;
    *bathtub_out = bathtub_from(x, cap_s);
    return 0;
}

double spotnik_exponential_fit(const struct spotnik_life *lives, size_t count, double cap_s)
{
    double at_risk_s = 0, losses = 0;

    for (size_t i = 0; i < count; i++) {
        at_risk_s += fmin(lives[i].age_s, cap_s);
        losses += lives[i].lost && lives[i].age_s < cap_s;
    }
    return at_risk_s > 0 ? losses / at_risk_s : 0;
}

/* d/dk of the profile log likelihood; falls as k grows. */
static double weibull_slope(const struct spotnik_life *lives, size_t count, double cap_s,
                            double shape, double *scale_power_out)
{
    double sum = 0, sum_log = 0, losses = 0, logs = 0;

    for (size_t i = 0; i < count; i++) {
        double age_s = fmax(fmin(lives[i].age_s, cap_s), 1), power = pow(age_s / 3600, shape);
        sum += power;
        sum_log += power * log(age_s / 3600);
        if (lives[i].lost && lives[i].age_s < cap_s) {
            losses += 1;
            logs += log(age_s / 3600);
        }
    }
    *scale_power_out = losses > 0 ? sum / losses : INFINITY;
    return losses > 0 ? losses / shape + logs - losses * sum_log / sum : NAN;
}

int spotnik_weibull_fit(const struct spotnik_life *lives, size_t count, double cap_s,
                        struct spotnik_weibull *weibull_out)
{
    double low = 0.02, high = 20, scale_power = 0;

    if (!(weibull_slope(lives, count, cap_s, low, &scale_power) > 0))
        return -1;
    for (int i = 0; i < 80; i++) {
        double middle = sqrt(low * high);
        if (weibull_slope(lives, count, cap_s, middle, &scale_power) > 0)
            low = middle;
        else
            high = middle;
    }
    weibull_out->shape = low;
    weibull_out->scale_s = 3600 * pow(scale_power, 1 / low);
    return 0;
}

double spotnik_weibull_lost(const struct spotnik_weibull *weibull, double age_s)
{
    return 1 - exp(-pow(age_s / weibull->scale_s, weibull->shape));
}

static int by_value(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

double spotnik_loss_cluster(double *ended_s, size_t count, double apart_s)
{
    double total = 0;
    size_t first = 0, past = 0;

    qsort(ended_s, count, sizeof(*ended_s), by_value);
    for (size_t i = 0; i < count; i++) {
        while (ended_s[first] < ended_s[i] - apart_s)
            first++;
        while (past < count && ended_s[past] <= ended_s[i] + apart_s)
            past++;
        total += (double)(past - first);
    }
    return count ? total / (double)count : 0;
}
