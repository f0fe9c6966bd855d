/* SPDX-License-Identifier: Apache-2.0 */
/* Cluster speed. Pure functions; see the header for the sources. */
#include "model_speed.h"
#include "curve.h"

#include <math.h>

double spotnik_speed_predict(const struct spotnik_speed *speed, double workers)
{
    double sum = workers * speed->worker_steps_per_s, p = speed->sharpness;

    if (!isfinite(speed->cap_steps_per_s))
        return sum;
    return sum * pow(1 + pow(sum / speed->cap_steps_per_s, p), -1 / p);
}

/* Two sizes n < m: the curve is linear in n^-p and a constant once speeds are raised to -p. */
static struct spotnik_speed fit_two(double n, double speed_n, double m, double speed_m, double p)
{
    double y = pow(speed_n, -p), z = pow(speed_m, -p);
    double slope = (y - z) / (pow(n, -p) - pow(m, -p)), rest = y - slope * pow(n, -p);
    struct spotnik_speed speed = { .sharpness = p, .cap_steps_per_s = INFINITY };

    if (slope <= 0) { /* no faster with more workers: saturated from the start */
        speed.worker_steps_per_s = speed_n / n;
        speed.cap_steps_per_s = fmax(speed_n, speed_m);
        return speed;
    }
    if (rest <= 0) { /* more than linear is noise */
        speed.worker_steps_per_s = sqrt(speed_n / n * speed_m / m);
        return speed;
    }
    speed.worker_steps_per_s = pow(slope, -1 / p);
    speed.cap_steps_per_s = pow(rest, -1 / p);
    return speed;
}

struct points {
    const double *workers, *steps_per_s;
    size_t count;
    double sharpness;
};

static struct spotnik_speed from_parameters(const double *x, double sharpness)
{
    return (struct spotnik_speed){ exp(x[0]), exp(x[1]), sharpness };
}

static void speed_residuals(void *context, const double *x, double *residuals)
{
    const struct points *points = context;
    struct spotnik_speed speed = from_parameters(x, points->sharpness);

    for (size_t i = 0; i < points->count; i++)
        residuals[i] =
            log(spotnik_speed_predict(&speed, points->workers[i]) / points->steps_per_s[i]);
}

struct spotnik_speed spotnik_speed_fit(const double *workers, const double *steps_per_s,
                                       size_t count, double sharpness)
{
    size_t least = 0, most = 0;

    for (size_t i = 1; i < count; i++) {
        least = workers[i] < workers[least] ? i : least;
        most = workers[i] > workers[most] ? i : most;
    }
    if (workers[least] >= workers[most])
        return (struct spotnik_speed){ steps_per_s[least] / workers[least], INFINITY, sharpness };
    struct spotnik_speed speed =
        fit_two(workers[least], steps_per_s[least], workers[most], steps_per_s[most], sharpness);
    if (count == 2)
        return speed;
    double largest = steps_per_s[most];
    double x[2] = { log(speed.worker_steps_per_s), log(fmin(speed.cap_steps_per_s, largest * 2)) };
    struct points points = { workers, steps_per_s, count, sharpness };
    if (spotnik_curve_fit(speed_residuals, &points, x, 2, count))
        return speed;
    speed = from_parameters(x, sharpness);
    if (speed.cap_steps_per_s > 1000 * largest)
        speed.cap_steps_per_s = INFINITY;
    return speed;
}

/* The nearest measured sizes around `at`; `count` where there is none on that side. */
static void neighbours(const double *workers, size_t count, double at, size_t *below_out,
                       size_t *above_out)
{
    *below_out = *above_out = count;
    for (size_t i = 0; i < count; i++) {
        if (workers[i] <= at && (*below_out == count || workers[i] > workers[*below_out]))
            *below_out = i;
        if (workers[i] >= at && (*above_out == count || workers[i] < workers[*above_out]))
            *above_out = i;
    }
}

/* The chord of the two smallest sizes at a smaller one; INFINITY where there is one size. */
static double chord_before(const double *workers, const double *steps_per_s, size_t count,
                           size_t least, double at)
{
    size_t next = count;

    for (size_t i = 0; i < count; i++)
        if (workers[i] > workers[least] && (next == count || workers[i] < workers[next]))
            next = i;
    if (next == count)
        return INFINITY;
    double slope = (steps_per_s[next] - steps_per_s[least]) / (workers[next] - workers[least]);
    return steps_per_s[least] - slope * (workers[least] - at);
}

/* A speed grows ever more slowly with the workers, so it lies above the chord of two measured ones
 * and below the ray through one of them. A server past its peak slows down: by the root of the
 * workers at most. */
void spotnik_speed_interval(const double *workers, const double *steps_per_s, size_t count,
                            double at, double scatter, double *low_out, double *high_out)
{
    size_t below, above;
    double low, high;

    neighbours(workers, count, at, &below, &above);
    if (below < count && above < count && below != above) {
        double share = (at - workers[below]) / (workers[above] - workers[below]);
        low = steps_per_s[below] + share * (steps_per_s[above] - steps_per_s[below]);
        high = fmin(steps_per_s[below] * at / workers[below],
                    steps_per_s[above] * sqrt(workers[above] / at));
    } else if (below < count) {
        low = steps_per_s[below] * sqrt(workers[below] / at);
        high = steps_per_s[below] * at / workers[below];
    } else {
        low = steps_per_s[above] * at / workers[above];
        high = fmin(steps_per_s[above] * sqrt(workers[above] / at),
                    chord_before(workers, steps_per_s, count, above, at));
    }
    *low_out = low * exp(-scatter);
    *high_out = fmax(low, high) * exp(scatter);
}
