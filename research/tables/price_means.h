/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPOTNIK_RESEARCH_PRICE_MEANS_H
#define SPOTNIK_RESEARCH_PRICE_MEANS_H

#include "common/prices.h"

/* The mean of the time in which the price is at most `most`; NAN when it never is. */
double spotnik_prices_mean_below(const struct spotnik_prices *prices, double most);
/* Divides by the mean: the price in hours of itself. */
void spotnik_prices_normalise(struct spotnik_prices *prices);

#endif
