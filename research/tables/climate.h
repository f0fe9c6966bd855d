/* SPDX-License-Identifier: Apache-2.0 */
/* A spot "climate": how likely availability is to change, as a function of how long it has been
 * what it is. Real availability comes in bursts of flapping and long calm stretches, so the age of
 * a stretch says much about its end; an exponential model does not see that. A climate is a row of
 * hazards per age bucket, for up and for down. */
#ifndef SPOTNIK_PLAN_CLIMATE_H
#define SPOTNIK_PLAN_CLIMATE_H

#include "common/windows.h"

#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_CLIMATE_BUCKETS 6
#define SPOTNIK_CLIMATES_MAX 32

/* Upper ends of the age buckets in hours; the last one has none. */
extern const double spotnik_climate_age_h[SPOTNIK_CLIMATE_BUCKETS - 1];

struct spotnik_climate {
    char name[48];
    double end_per_h[2][SPOTNIK_CLIMATE_BUCKETS]; /* [available] */
};

/* The climates learned from traces of 2023 (printed by `spotnik backtest --learn`); none of the
 * windows of the backtests of research/models.md is among them. */
extern const struct spotnik_climate spotnik_climates_builtin[];
extern const size_t spotnik_climates_builtin_count;

size_t spotnik_climate_bucket(double age_s);
/* Ends per hour of exposure, per bucket, drawn towards the mean of the whole trace by one
 * pseudo-event. */
void spotnik_climate_learn(const struct spotnik_windows *windows,
                           struct spotnik_climate *climate_out);

#endif
