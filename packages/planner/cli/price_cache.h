/* SPDX-License-Identifier: Apache-2.0 */
/* Prices that `spotnik prices update` has kept, and how old they are. */
#ifndef SPOTNIK_PLANNER_PRICE_CACHE_H
#define SPOTNIK_PLANNER_PRICE_CACHE_H

#include "plan/catalog.h"

#include <stdbool.h>

#define SPOTNIK_PRICES_FRESH_S (7 * 86400.0)

/* SPOTNIK_PRICES, else spotnik/prices.csv in XDG_CACHE_HOME or ~/.cache; folders are made when
 * `make`. */
int spotnik_price_cache_path(char *path, size_t size, bool make, struct spotnik_fault *fault);
/* Age in seconds; below zero: there is none. */
double spotnik_price_cache_age_s(const char *path);
/* Reads the kept prices; what is older than `most_s` is refused. *there_out is false when there are
 * none. */
int spotnik_price_cache_load(struct spotnik_catalog *catalog, double most_s, bool *there_out,
                             struct spotnik_fault *fault);
/* "3 h" or "12 days". */
void spotnik_age_print(double age_s, char *text, size_t size);

#endif
