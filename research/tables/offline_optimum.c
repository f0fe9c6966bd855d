/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic programme backwards over ticks: the least cost from here on, by machine and by work done,
 * in units of which a tick and a changeover are multiples. */
#include "offline_optimum.h"

#include <math.h>
#include <stdlib.h>

#define MACHINES 3 /* nothing, spot, on-demand */
#define UNITS_PER_TICK_MOST 12
#define BOUND_SLICE_S 60.0

/* What is still to come, along the cheapest way. */
struct rest {
    double cost, spot_work, on_demand_work, spot_ticks, on_demand_ticks, spot_paid;
    unsigned changeovers;
};

struct programme {
    const struct spotnik_window *window;
    const struct spotnik_job_terms *terms;
    double price_ratio, tick_s;
    int tick_units, changeover_units;
    /* cells 0 to debt - 1 are work below none: starts that came to nothing */
    size_t ticks, debt, cells;
    struct rest *now, *later; /* [machine][cell] */
};

/* The fewest units of which a changeover is a whole number, as nearly as may be. */
static int units_per_tick(double tick_s, double changeover_s)
{
    int best = 1;
    double least = INFINITY;

    for (int units = 1; units <= UNITS_PER_TICK_MOST; units++) {
        double exact = changeover_s / tick_s * units, error = fabs(exact - round(exact)) / units;
        if (error < least - 1e-9) {
            least = error;
            best = units;
        }
    }
    return best;
}

double spotnik_tick_price(const struct spotnik_job_terms *terms, double at_s, double tick_s)
{
    return terms->prices
               ? spotnik_prices_paid(terms->prices, terms->prices_from_s + at_s, tick_s) / tick_s
               : 1;
}

/* The best of a tick that begins on `from` with the work of `cell`. */
static struct rest choose(const struct programme *p, size_t tick, double price, size_t from,
                          size_t cell)
{
    struct rest best = p->later[cell]; /* nothing held */

    for (size_t to = SPOTNIK_SPOT; to <= SPOTNIK_ON_DEMAND; to++) {
        int gain = p->tick_units - (to == from ? 0 : p->changeover_units);
        if ((to == SPOTNIK_SPOT && !p->window->machines[tick])
            || (gain < 0 && cell < (size_t)-gain))
            continue;
        size_t next = (size_t)((long)cell + gain);
        struct rest rest = p->later[to * p->cells + (next < p->cells ? next : p->cells - 1)];
        bool spot = to == SPOTNIK_SPOT;
        rest.cost += spot ? price : p->price_ratio;
        if (!(rest.cost < best.cost - 1e-9))
            continue;
        *(spot ? &rest.spot_work : &rest.on_demand_work) += gain;
        *(spot ? &rest.spot_ticks : &rest.on_demand_ticks) += 1;
        rest.spot_paid += spot ? price : 0;
        rest.changeovers += to != from;
        best = rest;
    }
    return best;
}

static void solve(struct programme *p)
{
    size_t states = MACHINES * p->cells;

    for (size_t i = 0; i < states; i++)
        p->later[i] = (struct rest){ .cost = i % p->cells == p->cells - 1 ? 0 : INFINITY };
    for (size_t tick = p->ticks; tick-- > 0;) {
        double price = spotnik_tick_price(p->terms, (double)tick * p->tick_s, p->tick_s);
        for (size_t i = 0; i < states; i++)
            p->now[i] = i % p->cells == p->cells - 1
                            ? (struct rest){ 0 }
                            : choose(p, tick, price, i / p->cells, i % p->cells);
        struct rest *swap = p->now;
        p->now = p->later;
        p->later = swap;
    }
}

static struct spotnik_job_result result_of(const struct rest *rest,
                                           const struct spotnik_job_terms *terms, double tick_s,
                                           double unit_s)
{
    double spot_s = rest->spot_work * unit_s, on_demand_s = rest->on_demand_work * unit_s;
    /* the last tick may do more than is left */
    double whole = terms->work_s / (spot_s + on_demand_s);

    return (struct spotnik_job_result){
        .spot_work_s = spot_s * whole,
        .on_demand_work_s = on_demand_s * whole,
        .spot_billed_s = rest->spot_ticks * tick_s,
        .on_demand_billed_s = rest->on_demand_ticks * tick_s,
        .spot_paid_s = rest->spot_paid * tick_s,
        .finish_s = terms->deadline_s,
        .changeovers = rest->changeovers,
    };
}

int spotnik_offline_optimum_run(const struct spotnik_window *window, double tick_s,
                                const struct spotnik_job_terms *terms,
                                struct spotnik_job_result *result_out, struct spotnik_fault *fault)
{
    int tick_units = units_per_tick(tick_s, terms->changeover_s);
    double unit_s = tick_s / tick_units;
    struct programme p = {
        .window = window,
        .terms = terms,
        .tick_s = tick_s,
        .price_ratio = terms->price_ratio,
        .tick_units = tick_units,
        .changeover_units = (int)round(terms->changeover_s / unit_s),
        .ticks = (size_t)floor(terms->deadline_s / tick_s + 1e-9),
    };

    if (spotnik_job_terms_check(terms, fault))
        return -1;
    if (window->ticks < p.ticks)
        return spotnik_fault_set(fault,
                                 "the window is shorter than the deadline; take a longer trace");
    p.debt = 4 * (size_t)p.changeover_units;
    p.cells = p.debt + (size_t)ceil(terms->work_s / unit_s - 1e-9) + 1;
    p.now = malloc(MACHINES * p.cells * sizeof(*p.now));
    p.later = malloc(MACHINES * p.cells * sizeof(*p.later));
    int rc = p.now && p.later ? 0 : spotnik_fault_set(fault, "out of memory");
    if (!rc) {
        solve(&p);
        *result_out = result_of(&p.later[p.debt], terms, tick_s, unit_s);
        if (!isfinite(p.later[p.debt].cost))
            rc = spotnik_fault_set(fault,
                                   "no way to finish in whole ticks; take a later --deadline");
    }
    free(p.now);
    free(p.later);
    return rc;
}

static int by_price(const void *left, const void *right)
{
    const double *a = left, *b = right;

    return (*a > *b) - (*a < *b);
}

/* The least price in a stretch. */
static double cheapest_within(const struct spotnik_job_terms *terms, double at_s, double stretch_s)
{
    double least = INFINITY, stays_s, end_s = at_s + stretch_s;

    if (!terms->prices)
        return 1;
    for (; at_s < end_s; at_s += fmax(stays_s, 1e-3))
        least =
            fmin(least, spotnik_prices_at(terms->prices, terms->prices_from_s + at_s, &stays_s));
    return least;
}

int spotnik_bound_run(const struct spotnik_window *window, double tick_s,
                      const struct spotnik_job_terms *terms, struct spotnik_job_result *result_out,
                      struct spotnik_fault *fault)
{
    size_t slices = (size_t)floor(terms->deadline_s / BOUND_SLICE_S + 1e-9);
    double *prices = malloc((slices + 1) * sizeof(*prices)),
           left_s = terms->work_s + terms->changeover_s;
    size_t count = 0;

    if (spotnik_job_terms_check(terms, fault) || !prices) {
        free(prices);
        return prices ? -1 : spotnik_fault_set(fault, "out of memory");
    }
    for (size_t i = 0; i < slices; i++) {
        size_t tick = (size_t)((double)i * BOUND_SLICE_S / tick_s);
        double price = cheapest_within(terms, (double)i * BOUND_SLICE_S, BOUND_SLICE_S);
        if (tick < window->ticks && window->machines[tick] && price < terms->price_ratio)
            prices[count++] = price;
    }
    qsort(prices, count, sizeof(*prices), by_price);
    struct spotnik_job_result result = { .finish_s = terms->deadline_s, .changeovers = 1 };
    for (size_t i = 0; i < count && left_s > 0; i++) {
        double take_s = fmin(left_s, BOUND_SLICE_S);
        result.spot_billed_s += take_s;
        result.spot_paid_s += take_s * prices[i];
        left_s -= take_s;
    }
    result.on_demand_billed_s = fmax(0, left_s);
    result.spot_work_s = fmin(terms->work_s, result.spot_billed_s);
    result.on_demand_work_s = terms->work_s - result.spot_work_s;
    *result_out = result;
    free(prices);
    return 0;
}
