/* SPDX-License-Identifier: Apache-2.0 */
/* A hazard table: how likely availability is to change, by how long it has been what it is. Real
 * availability comes in bursts of flapping and long calm stretches, so the age of a stretch says
 * much about its end; an exponential model does not see that. The table has a row of hazards per
 * age bucket for up, and one for down. */
#ifndef SPOTNIK_RESEARCH_HAZARDS_H
#define SPOTNIK_RESEARCH_HAZARDS_H

#include "common/windows.h"

#include <stdbool.h>
#include <stddef.h>

#define SPOTNIK_HAZARD_BUCKETS 6
#define SPOTNIK_HAZARD_TABLES_MAX 32

/* Upper ends of the age buckets in hours; the last one has none. */
extern const double spotnik_hazard_age_h[SPOTNIK_HAZARD_BUCKETS - 1];

struct spotnik_hazard_table {
    char name[48];
    double end_per_h[2][SPOTNIK_HAZARD_BUCKETS]; /* [available] */
};

/* Learned from traces of 2023 (printed by `spotnik backtest --learn`); none of the windows of the
 * backtests of research/models.md is among them. */
extern const struct spotnik_hazard_table spotnik_hazard_tables_builtin[];
extern const size_t spotnik_hazard_tables_builtin_count;

size_t spotnik_hazard_bucket(double age_s);
/* Ends per hour of exposure, per bucket, drawn towards the mean of the whole trace by one
 * pseudo-event. */
void spotnik_hazard_table_learn(const struct spotnik_windows *windows,
                                struct spotnik_hazard_table *table_out);

#endif
