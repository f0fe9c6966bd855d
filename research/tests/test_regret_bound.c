/* SPDX-License-Identifier: Apache-2.0 */
/* Claim: a bounded policy pays at most its share more than Uniform Progress on any window, whatever
 * the policy inside does: at random, nothing ever, both always, spot never. Nobody is late. Only a
 * price below all that were seen before adds a term, and that is bounded too. */
#include "tables/regret_bound.h"

#include "tables/backtest_policy.h"

#include <math.h>
#include <string.h>

#include "tests.h"

#define TICK_S 600.0
#define TICKS 360
#define HOURS (TICKS / 6)

static unsigned next(unsigned *seed)
{
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

/* Any set that may be had, for a random while. */
static struct spotnik_choice at_random(void *self, const struct spotnik_job_view *view)
{
    unsigned set = next(self) % 4;

    if (!view->offered)
        set &= ~(unsigned)SPOTNIK_SPOT;
    return (struct spotnik_choice){ (enum spotnik_machine)set, 60.0 * (1 + next(self) % 200),
                                    next(self) % 2 };
}

static struct spotnik_choice nothing(void *self, const struct spotnik_job_view *view)
{
    (void)self;
    (void)view;
    return (struct spotnik_choice){ SPOTNIK_IDLE, 1e30, false };
}

static struct spotnik_choice everything(void *self, const struct spotnik_job_view *view)
{
    (void)self;
    return (struct spotnik_choice){ view->available ? SPOTNIK_BOTH : SPOTNIK_ON_DEMAND, 1e30,
                                    false };
}

/* Spot that comes and goes, in one of several ways. */
static void window_make(uint8_t *machines, unsigned *seed)
{
    unsigned kind = next(seed) % 4, on = 1 + next(seed) % 12, off = 1 + next(seed) % 24;
    unsigned goes = 2 + next(seed) % 50, comes = 2 + next(seed) % 50;

    for (size_t i = 0; i < TICKS; i++) {
        unsigned up = i && machines[i - 1];
        machines[i] = kind == 0   ? next(seed) % 100 >= (up ? goes : 100 - comes)
                      : kind == 1 ? i % (on + off) < on
                      : kind == 2 ? next(seed) % (off + 1) == 0
                                  : i > 10 * on; /* late, and for good */
    }
}

static void terms_make(struct spotnik_job_terms *terms, unsigned *seed)
{
    static const double spare[] = { 1.05, 1.2, 1.5, 2 }, ratio[] = { 1.2, 2, 3.33, 8 };
    double start_s = 60.0 * (1 + next(seed) % 20), work_s = 3600.0 * (2 + next(seed) % 25);

    *terms = (struct spotnik_job_terms){
        .work_s = work_s,
        .changeover_s = start_s,
        .deadline_s = fmin(work_s * spare[next(seed) % 4] + 2.2 * start_s, TICKS * TICK_S),
        .price_ratio = ratio[next(seed) % 4],
        .pair_speed = 1.2 + 0.2 * (next(seed) % 5),
    };
}

/* Cost beyond 1.02 of Uniform Progress, in hours of on-demand. */
static double beyond(const struct spotnik_job_terms *terms, const uint8_t *machines,
                     struct spotnik_policy inner, unsigned seed)
{
    const struct spotnik_window window = { machines, TICKS };
    struct spotnik_job_result result;
    struct spotnik_regret_bound bound;
    struct spotnik_fault fault;
    struct spotnik_policy policy = spotnik_policy_bounded(&bound, inner, 0.02);

    if (spotnik_backtest_run(&window, 1, TICK_S, terms, &policy, &result, &fault))
        fail_msg("seed %u: %s", seed, fault.text);
    if (result.missed)
        fail_msg("seed %u: %s is late", seed, inner.name);
    return (spotnik_backtest_cost(&result, terms->price_ratio) - 1.02 * result.beside_paid)
           / terms->price_ratio;
}

static void all_inside(const struct spotnik_job_terms *terms, const uint8_t *machines,
                       unsigned seed, double may)
{
    unsigned own = seed;
    const struct spotnik_policy inside[] = {
        { .name = "random", .self = &own, .choose = at_random },
        { .name = "nothing", .choose = nothing },
        { .name = "everything", .choose = everything },
        spotnik_policy_greedy(),
        spotnik_policy_on_demand(),
    };

    for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
        double over = beyond(terms, machines, inside[i], seed);
        if (over > may)
            fail_msg("seed %u: %s is %.4f h of on-demand too dear (work %.1f of %.1f h, start %.0f "
                     "s, ratio %.2f, pair %.1f)",
                     seed, inside[i].name, over, terms->work_s / 3600, terms->deadline_s / 3600,
                     terms->changeover_s, terms->price_ratio, terms->pair_speed);
    }
}

TEST(whatever_is_inside)
{
    uint8_t machines[TICKS];
    struct spotnik_job_terms terms;

    for (unsigned seed = 1; seed <= 1500; seed++) {
        unsigned draw = seed * 2654435761U;
        terms_make(&terms, &draw);
        window_make(machines, &draw);
        all_inside(&terms, machines, seed, 0.002);
    }
}

/* Prices are never below the first one, so that no term is added. */
static void prices_that_were_seen(double taken_back, double worth)
{
    double at_s[HOURS + 1], usd[HOURS + 1];
    struct spotnik_prices prices = { HOURS + 1, at_s, usd };
    uint8_t machines[TICKS];
    struct spotnik_job_terms terms;

    for (unsigned seed = 1; seed <= 500; seed++) {
        unsigned draw = seed * 2654435761U;
        terms_make(&terms, &draw);
        window_make(machines, &draw);
        for (size_t i = 0; i <= HOURS; i++) {
            at_s[i] = 3600.0 * (double)i;
            usd[i] = i ? 0.2 * (1 + next(&draw) % 12) : 0.2;
        }
        terms.prices = &prices;
        terms.cap = taken_back * terms.price_ratio;
        terms.worth = worth * terms.price_ratio;
        all_inside(&terms, machines, seed, 0.002);
    }
}

TEST(taken_back_above_on_demand)
{
    prices_that_were_seen(1, 0);
}

/* Uniform Progress as published pays any price. */
TEST(any_price)
{
    prices_that_were_seen(0, 0);
    prices_that_were_seen(0, 1);
}
