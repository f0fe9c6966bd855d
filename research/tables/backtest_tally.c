/* SPDX-License-Identifier: Apache-2.0 */
#include "backtest_tally.h"

#include <math.h>
#include <stdio.h>

static void sums_add(struct spotnik_sums *sums, double value)
{
    sums->total += value;
    sums->squares += value * value;
}

static double sums_sd(const struct spotnik_sums *sums, size_t n)
{
    double mean = sums->total / (double)n;

    return n > 1 ? sqrt(fmax(0, sums->squares - (double)n * mean * mean) / (double)(n - 1)) : 0;
}

void spotnik_tally_add(struct spotnik_tally *tally, const struct spotnik_job_result *result,
                       double price_ratio)
{
    sums_add(&tally->on_demand_h, result->on_demand_work_s / 3600);
    sums_add(&tally->spot_h, result->spot_work_s / 3600);
    sums_add(&tally->on_demand_billed_h, result->on_demand_billed_s / 3600);
    sums_add(&tally->spot_billed_h, result->spot_billed_s / 3600);
    sums_add(&tally->cost, spotnik_backtest_cost(result, price_ratio));
    sums_add(&tally->work_cost,
             (result->spot_work_s + price_ratio * result->on_demand_work_s) / 3600);
    sums_add(&tally->finish_h, result->finish_s / 3600);
    tally->changeovers += result->changeovers;
    tally->revocations += result->revocations;
    tally->moves += result->moves;
    tally->moves_paid += result->moves_paid;
    tally->missed += result->missed;
    tally->windows++;
}

void spotnik_sums_put(json_t *json, const char *name, const struct spotnik_sums *sums, size_t n)
{
    char key[64];
    double sd = sums_sd(sums, n);

    json_object_set_new(json, name, json_real(sums->total / (double)n));
    snprintf(key, sizeof(key), "%s_sd", name);
    json_object_set_new(json, key, json_real(sd));
    snprintf(key, sizeof(key), "%s_ci95", name);
    json_object_set_new(json, key, json_real(1.96 * sd / sqrt((double)n)));
}
