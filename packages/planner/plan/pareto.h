/* SPDX-License-Identifier: Apache-2.0 */
/* Time against cost: the points that no other point beats, and the one to recommend. */
#ifndef SPOTNIK_PLAN_PARETO_H
#define SPOTNIK_PLAN_PARETO_H

#include <stddef.h>

struct spotnik_tradeoff {
    double time, cost;
};

/* The point furthest below the straight line between the ends of a Pareto front sorted by time
 * (kneedle). */
size_t spotnik_knee(const struct spotnik_tradeoff *front, size_t count);
/* Keeps the points that no other point beats in both; sorts them by time; returns how many are
 * left. `index` moves along when it is not null. */
size_t spotnik_pareto(struct spotnik_tradeoff *points, size_t *index, size_t count);

#endif
