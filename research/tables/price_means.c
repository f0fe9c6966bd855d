/* SPDX-License-Identifier: Apache-2.0 */
#include "price_means.h"

#include <math.h>

double spotnik_prices_mean_below(const struct spotnik_prices *prices, double most)
{
    double paid = 0, passed_s = 0;

    for (size_t i = 0; i + 1 < prices->count; i++) {
        double stretch_s = prices->at_s[i + 1] - prices->at_s[i];
        if (prices->usd_per_h[i] > most)
            continue;
        paid += stretch_s * prices->usd_per_h[i];
        passed_s += stretch_s;
    }
    return passed_s > 0 ? paid / passed_s : NAN;
}

void spotnik_prices_normalise(struct spotnik_prices *prices)
{
    double mean = spotnik_prices_mean(prices);

    for (size_t i = 0; i < prices->count; i++)
        prices->usd_per_h[i] /= mean;
}
