/* SPDX-License-Identifier: Apache-2.0 */
/* Means and deviations over the windows of a backtest. */
#ifndef SPOTNIK_RESEARCH_BACKTEST_TALLY_H
#define SPOTNIK_RESEARCH_BACKTEST_TALLY_H

#include "backtest.h"

#include <jansson.h>

struct spotnik_sums {
    double total, squares;
};

struct spotnik_tally {
    struct spotnik_sums on_demand_h, spot_h, on_demand_billed_h, spot_billed_h;
    struct spotnik_sums cost, work_cost, finish_h;
    double changeovers, revocations, moves, moves_paid;
    size_t windows, missed;
};

void spotnik_tally_add(struct spotnik_tally *tally, const struct spotnik_job_result *result,
                       double price_ratio);
/* The mean of `n` values as `name`, their deviation as NAME_sd, and its interval as NAME_ci95. */
void spotnik_sums_put(json_t *json, const char *name, const struct spotnik_sums *sums, size_t n);

#endif
