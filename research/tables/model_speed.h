/* SPDX-License-Identifier: Apache-2.0 */
/* How fast a cluster of n equal workers steps.
 *
 * Parameter server (CM-DARE, Li et al., ICDCS'20): the sum of the workers' speeds until the server
 * or its network saturates. The paper gives the two ends; between them we use ((n s)^-p +
 * cap^-p)^(-1/p). With p = 6 this is within 2 % of a closed queue (our simulation of it). In that
 * queue, n workers come to one first-come-first-served server whose service and thinking times vary
 * by 20-30 %. So p is not fitted to anybody's table.
 */
#ifndef SPOTNIK_RESEARCH_MODEL_SPEED_H
#define SPOTNIK_RESEARCH_MODEL_SPEED_H

#include <stddef.h>

#define SPOTNIK_SPEED_SHARPNESS 6.0

struct spotnik_speed {
    double worker_steps_per_s;
    double cap_steps_per_s; /* infinite when the data show no saturation */
    double sharpness;
};

double spotnik_speed_predict(const struct spotnik_speed *speed, double workers);
/* From measurements at `count` cluster sizes: one gives a line through it; two are met exactly;
 * more are fitted in relative error. Sizes and speeds are above zero. */
struct spotnik_speed spotnik_speed_fit(const double *workers, const double *steps_per_s,
                                       size_t count, double sharpness);

/* Both ends of an interval give way by this logarithm. More than series on K80s need that are left
 * out (research/figures/plan_intervals.py): single speeds have a published deviation of up to 4 %,
 * and two of them meet in an interval. */
#define SPOTNIK_SPEED_SCATTER 0.08

/* Where nine of ten speeds of `at` workers lie, from measurements at `count` sizes, one at least:
 * however sharply saturation sets in. Beyond the sizes that were measured the interval grows with
 * the distance. `scatter` widens both ends by that logarithm. */
void spotnik_speed_interval(const double *workers, const double *steps_per_s, size_t count,
                            double at, double scatter, double *low_out, double *high_out);

#endif
