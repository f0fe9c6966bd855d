/* SPDX-License-Identifier: Apache-2.0 */
/* Price histories. What they are the price of is the caller's business. */
#include "common/prices.h"
#include "common/table.h"

#include <math.h>
#include <stdlib.h>

static int row_read(const struct spotnik_table *table, size_t row, int when, int what,
                    double *at_s_out, double *price_out, struct spotnik_fault *fault)
{
    const char *text = spotnik_table_text(table, row, when);

    if (!spotnik_timestamp_parse(text, at_s_out))
        return spotnik_fault_set(
            fault,
            "%s:%zu: column %d: '%s' is not a time with a zone, such as 2015-03-11T16:53:20Z",
            spotnik_table_name(table), spotnik_table_line(table, row), when + 1, text);
    return spotnik_table_number(table, row, what, 1e-6, SPOTNIK_PRICE_MAX_USD_PER_H, price_out,
                                fault);
}

static int rows_read(const struct spotnik_table *table, struct spotnik_prices *prices,
                     struct spotnik_fault *fault)
{
    int when = spotnik_table_need(table, "timestamp_utc", fault);
    int what = when < 0 ? -1 : spotnik_table_need(table, "spot_usd_per_h", fault);
    double first_s = 0, at_s;

    if (what < 0)
        return -1;
    for (size_t row = 0; row < prices->count; row++) {
        if (row_read(table, row, when, what, &at_s, &prices->usd_per_h[row], fault))
            return -1;
        first_s = row ? first_s : at_s;
        prices->at_s[row] = at_s - first_s;
        if (row && prices->at_s[row] < prices->at_s[row - 1])
            return spotnik_fault_set(fault, "%s:%zu: column %d: time goes backwards",
                                     spotnik_table_name(table), spotnik_table_line(table, row),
                                     when + 1);
    }
    return 0;
}

int spotnik_prices_of(const struct spotnik_table *table, struct spotnik_prices *prices_out,
                      struct spotnik_fault *fault)
{
    struct spotnik_prices prices = { .count = spotnik_table_rows(table) };
    prices.at_s = malloc(prices.count * sizeof(double));
    prices.usd_per_h = malloc(prices.count * sizeof(double));
    int rc = prices.at_s && prices.usd_per_h ? rows_read(table, &prices, fault)
                                             : spotnik_fault_set(fault, "out of memory");
    if (rc)
        spotnik_prices_free(&prices);
    else
        *prices_out = prices;
    return rc;
}

int spotnik_prices_read(const char *path, struct spotnik_prices *prices_out,
                        struct spotnik_fault *fault)
{
    struct spotnik_table *table;

    if (spotnik_table_load(path, &table, fault))
        return -1;
    int rc = spotnik_prices_of(table, prices_out, fault);
    spotnik_table_free(table);
    return rc;
}

void spotnik_prices_free(struct spotnik_prices *prices)
{
    free(prices->at_s);
    free(prices->usd_per_h);
    *prices = (struct spotnik_prices){ 0 };
}

/* The step that holds at an instant within the history. */
static size_t step_at(const struct spotnik_prices *prices, double at_s)
{
    size_t low = 0, high = prices->count;

    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (prices->at_s[middle] <= at_s)
            low = middle;
        else
            high = middle;
    }
    return low;
}

double spotnik_prices_length_s(const struct spotnik_prices *prices)
{
    return prices->at_s[prices->count - 1];
}

double spotnik_prices_at(const struct spotnik_prices *prices, double at_s, double *stays_s_out)
{
    double length_s = spotnik_prices_length_s(prices);
    size_t step;

    if (!(length_s > 0)) {
        if (stays_s_out)
            *stays_s_out = INFINITY;
        return prices->usd_per_h[0];
    }
    at_s = fmod(at_s, length_s);
    step = step_at(prices, at_s);
    if (stays_s_out)
        *stays_s_out = prices->at_s[step + 1] - at_s;
    return prices->usd_per_h[step];
}

/* Within one turn of the history. */
static double paid_once(const struct spotnik_prices *prices, double from_s, double end_s)
{
    double paid = 0;

    for (size_t i = step_at(prices, from_s); i + 1 < prices->count && from_s < end_s; i++) {
        double until_s = fmin(prices->at_s[i + 1], end_s);
        paid += fmax(0, until_s - from_s) * prices->usd_per_h[i];
        from_s = fmax(from_s, until_s);
    }
    return paid;
}

double spotnik_prices_paid(const struct spotnik_prices *prices, double from_s, double stretch_s)
{
    double length_s = spotnik_prices_length_s(prices), paid = 0;

    if (!(length_s > 0))
        return stretch_s * prices->usd_per_h[0];
    from_s = fmod(from_s, length_s);
    while (stretch_s > 0) {
        double turn_s = fmin(stretch_s, length_s - from_s);
        paid += paid_once(prices, from_s, from_s + turn_s);
        stretch_s -= turn_s;
        from_s = 0;
    }
    return paid;
}

double spotnik_prices_mean(const struct spotnik_prices *prices)
{
    double length_s = spotnik_prices_length_s(prices);

    return length_s > 0 ? paid_once(prices, 0, length_s) / length_s : prices->usd_per_h[0];
}
