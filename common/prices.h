/* SPDX-License-Identifier: Apache-2.0 */
/* A price that changes in steps, and what a machine that is billed by the second pays under it.
 * Beyond its end a history begins again: a run may start anywhere in it and last longer than it. */
#ifndef SPOTNIK_COMMON_PRICES_H
#define SPOTNIK_COMMON_PRICES_H

#include "common/fault.h"

#include <stddef.h>

/* The largest slices of TPUs cost some 30 000. */
#define SPOTNIK_PRICE_MAX_USD_PER_H 1e6

/* usd_per_h[i] holds from at_s[i] to at_s[i + 1]. at_s[0] is 0; the last instant only ends the step
 * before, unless it is the only one: that price holds for ever. */
struct spotnik_prices {
    size_t count;
    double *at_s, *usd_per_h;
};

/* A CSV with the columns timestamp_utc (a time with its zone, never backwards) and
 * spot_usd_per_h. */
int spotnik_prices_read(const char *path, struct spotnik_prices *prices_out,
                        struct spotnik_fault *fault);
/* The same of a table that the caller has. */
struct spotnik_table;
int spotnik_prices_of(const struct spotnik_table *table, struct spotnik_prices *prices_out,
                      struct spotnik_fault *fault);
void spotnik_prices_free(struct spotnik_prices *prices);

/* Integral of the price, in (USD/h) s, over [from_s, from_s + stretch_s); from_s is not below
 * zero. */
double spotnik_prices_paid(const struct spotnik_prices *prices, double from_s, double stretch_s);
/* The price at an instant, and (if wanted) how long it stays. */
double spotnik_prices_at(const struct spotnik_prices *prices, double at_s, double *stays_s_out);
double spotnik_prices_length_s(const struct spotnik_prices *prices);
/* Over the whole history, weighted with time. */
double spotnik_prices_mean(const struct spotnik_prices *prices);

#endif
