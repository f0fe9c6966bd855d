/* SPDX-License-Identifier: Apache-2.0 */
#include "carryover.h"

#include <math.h>
#include <stdlib.h>

int spotnik_carryover_open(struct spotnik_carryover *carryover, struct spotnik_regret_bound *bound,
                           double length_s, double stride_s, struct spotnik_fault *fault)
{
    double apart = stride_s > 0 ? fmin(ceil(length_s / stride_s - 1e-9), SPOTNIK_WINDOWS_MAX) : 1;

    carryover->bound = bound;
    carryover->count = (size_t)fmax(1, apart);
    carryover->saved = calloc(carryover->count, sizeof(*carryover->saved));
    return carryover->saved ? 0 : spotnik_fault_set(fault, "out of memory");
}

void spotnik_carryover_take(const struct spotnik_carryover *carryover, size_t i)
{
    carryover->bound->saved = carryover->saved[i % carryover->count];
}

void spotnik_carryover_put(struct spotnik_carryover *carryover, size_t i,
                           const struct spotnik_job_result *result, double price_ratio)
{
    carryover->saved[i % carryover->count] += (1 + carryover->bound->share) * result->beside_paid
                                              - spotnik_backtest_cost(result, price_ratio);
}

void spotnik_carryover_close(struct spotnik_carryover *carryover)
{
    free(carryover->saved);
    carryover->saved = NULL;
}
