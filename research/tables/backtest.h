/* SPDX-License-Identifier: Apache-2.0 */
/* One job of a fixed amount of work, a deadline, and machines that are one spot, one on-demand, or
 * none: what Can't Be Late (Wu et al., NSDI'24) simulates, in continuous time. Availability changes
 * at tick boundaries; everything else (the end of a changeover, the safety net, the end of the
 * work) happens when it happens, not at the next tick.
 *
 * Rules that hold for every policy, so that no policy can miss the deadline:
 *   thrifty      nothing runs once the work is done;
 *   safety net   a job that holds nothing and has no slack to lose goes to on-demand;
 *   guard        on-demand is left only while there is time to come back to it.
 * A machine that is started is paid for at once and works one changeover later. Published policies
 * have one machine at a time (pair_speed 0): moving drops the old machine first, and the net and
 * the guard keep two changeovers. An elastic job (pair_speed 1 to 2) may hold both: the old machine
 * works on while its successor starts; a start that fails costs money but no time; two that are up
 * work pair_speed machines' worth.
 *
 * Several places (regions): the job's state is at one of them, at first the first. Spot is held at
 * the place of the state, or the state moves: that is paid for when the move begins, and the start
 * takes move_s longer. A policy sees one availability: spot here, or, once spot has been away from
 * here for so long that its saving would have paid for a move, spot anywhere. So a move costs no
 * more than the wait before it (the rule of the ski rental). The policy need not know anything of
 * other places. */
#ifndef SPOTNIK_RESEARCH_BACKTEST_H
#define SPOTNIK_RESEARCH_BACKTEST_H

#include "common/prices.h"
#include "common/windows.h"

#include <stdbool.h>

/* A set: BOTH is SPOT | ON_DEMAND. */
enum spotnik_machine { SPOTNIK_IDLE, SPOTNIK_SPOT, SPOTNIK_ON_DEMAND, SPOTNIK_BOTH };

struct spotnik_job_terms {
    double work_s, deadline_s, changeover_s;
    double price_ratio; /* on-demand price / spot price */
    /* of a spot and an on-demand machine together, in machines; 0: one at a time */
    double pair_speed;
    double notice_s; /* warning before spot is lost; 0: none */
    /* NULL: the spot price is 1 throughout. Else in the same money as on-demand, which costs
     * price_ratio. */
    const struct spotnik_prices *prices;
    double prices_from_s; /* where in `prices` the job starts */
    double price_typical; /* of spot while it is at most the cap; 0: 1. What a policy plans with */
    /* spot is taken back above this price (the most one offers to pay); 0: never */
    double cap;
    /* the policy does not want spot above this price: a view says that there is none, but what is
     * held stays until the policy drops it; 0: at any price. The policy beside does not know it */
    double worth;
    /* of the state to another place: time, and money (in the unit of prices) */
    double move_s, move_cost;
};

/* How far a job is, and what it has paid, in spot-hours. */
struct spotnik_job_standing {
    double paid, work_left_s;
    unsigned held;                    /* a set */
    double starts_in_s[SPOTNIK_BOTH]; /* by machine that is held: until it works; 0: it does */
};

/* What a policy may know at one moment. */
struct spotnik_job_view {
    const struct spotnik_job_terms *terms;
    struct spotnik_job_standing own, beside; /* beside: of the policy that is run beside, if any */
    double now_s, work_left_s, time_left_s;
    double run_age_s;              /* how long availability has been what it is */
    enum spotnik_machine machine;  /* what works; while nothing does, what is starting */
    enum spotnik_machine starting; /* held, but not up yet */
    bool available;                /* spot, at a price that it is worth */
    bool offered;                  /* spot, at whatever price */
    bool warned;                   /* spot will be gone within the notice */
    /* of spot: now, and the mean of the week before; both 1 without a history */
    double price, price_usual;
    /* how long the price stayed above or below the usual one, on average, in that week */
    double price_stays_s;
    double price_least; /* since the history began; 1 without one */
};

struct spotnik_choice {
    enum spotnik_machine machine;
    double again_s; /* ask again after this long at the latest */
    bool at_once;   /* an elastic job too drops the rest before anything of the set is up */
};

/* A policy: one object for many windows. `start` (may be null) forgets the last window; `observe`
 * (may be null) is told every stretch of constant availability before the policy is asked again. */
struct spotnik_policy {
    const char *name;
    void *self;
    void (*start)(void *self);
    void (*observe)(void *self, bool available, double age_s, double stretch_s, bool ended);
    struct spotnik_choice (*choose)(void *self, const struct spotnik_job_view *view);
    /* may be null: run on the same window at the same time, one machine after the other, and shown
     * in the view. It decides first, and so is never ahead in what it knows */
    const struct spotnik_policy *beside;
};

struct spotnik_job_result {
    double on_demand_work_s, spot_work_s;     /* work done, changeovers not counted */
    double on_demand_billed_s, spot_billed_s; /* machine time paid for */
    double spot_paid_s;                       /* the spot price, integrated over the time billed */
    double finish_s;
    double moves_paid;  /* the cost of all moves */
    double beside_paid; /* what the policy beside paid in the end; 0 without one */
    unsigned changeovers, revocations, moves;
    bool missed;
};

/* Runs the windows of `count` places, which begin at the same instant; the shortest counts. A
 * window that is shorter than the deadline is a fault. Two machines of different places share no
 * step: a pair_speed above 1 is a fault. */
int spotnik_backtest_run(const struct spotnik_window *places, size_t count, double tick_s,
                         const struct spotnik_job_terms *terms, const struct spotnik_policy *policy,
                         struct spotnik_job_result *result_out, struct spotnik_fault *fault);

/* Cost in hours of spot price (in the money of the price history when there is one). */
double spotnik_backtest_cost(const struct spotnik_job_result *result, double price_ratio);

/* Refuses terms that no policy can meet, saying which one binds and the nearest that can be met. */
int spotnik_job_terms_check(const struct spotnik_job_terms *terms, struct spotnik_fault *fault);

#endif
