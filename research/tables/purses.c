/* SPDX-License-Identifier: Apache-2.0 */
#include "purses.h"

#include <math.h>
#include <stdlib.h>

int spotnik_purses_open(struct spotnik_purses *purses, struct spotnik_guard *guard, double length_s,
                        double stride_s, struct spotnik_fault *fault)
{
    double apart = stride_s > 0 ? fmin(ceil(length_s / stride_s - 1e-9), SPOTNIK_WINDOWS_MAX) : 1;

    purses->guard = guard;
    purses->count = (size_t)fmax(1, apart);
    purses->saved = calloc(purses->count, sizeof(*purses->saved));
    return purses->saved ? 0 : spotnik_fault_set(fault, "out of memory");
}

void spotnik_purses_take(const struct spotnik_purses *purses, size_t i)
{
    purses->guard->saved = purses->saved[i % purses->count];
}

void spotnik_purses_put(struct spotnik_purses *purses, size_t i,
                        const struct spotnik_job_result *result, double price_ratio)
{
    purses->saved[i % purses->count] += (1 + purses->guard->share) * result->beside_paid
                                        - spotnik_backtest_cost(result, price_ratio);
}

void spotnik_purses_close(struct spotnik_purses *purses)
{
    free(purses->saved);
    purses->saved = NULL;
}
