/* SPDX-License-Identifier: Apache-2.0 */
/* The job simulator: an event loop over one window. It decides nothing about spot or on-demand
 * beyond the three rules in the header; policies do. */
#include "backtest.h"

#include <math.h>

#define TIME_EPSILON_S 1e-6
#define WEEK_S (7 * 86400.0)
#define SAMPLE_S 1800.0
#define USUAL_EVERY_S 3600.0

struct run {
    const struct spotnik_window *places;
    size_t place_count, home, spot_at; /* where the state is, and where spot is held */
    double left_alone_s;               /* since when home has no spot; below zero: it has */
    const struct spotnik_job_terms *terms;
    const struct spotnik_policy *policy;
    struct spotnik_job_result result;
    double tick_s, now_s, work_left_s, run_started_s;
    /* by SPOTNIK_SPOT and SPOTNIK_ON_DEMAND: until it works; 0: it does */
    double starts_in_s[SPOTNIK_BOTH];
    /* sets; what is not in `goal` goes once something in it is up */
    unsigned held, goal;
    bool committed, available;
    /* the usual price, how long prices stay beyond it, and when both are looked at again */
    double usual, stays_s, usual_until_s;
    double least, least_until_s; /* the least price until an instant of the history */
    const struct run *beside;    /* or NULL */
};

int spotnik_job_terms_check(const struct spotnik_job_terms *terms, struct spotnik_fault *fault)
{
    double least_s = terms->work_s + 2 * terms->changeover_s;

    if (!(terms->work_s > 0) || !(terms->deadline_s > 0) || !(terms->changeover_s >= 0))
        return spotnik_fault_set(
            fault, "work and deadline must be above zero, the changeover not below it");
    if (!(terms->price_ratio > 0))
        return spotnik_fault_set(fault, "the price ratio (on-demand / spot) must be above zero");
    if (terms->pair_speed != 0 && !(terms->pair_speed >= 1 && terms->pair_speed <= 2))
        return spotnik_fault_set(fault,
                                 "two machines are as fast as 1 to 2 (0: one at a time), not %g",
                                 terms->pair_speed);
    if (terms->deadline_s < least_s)
        return spotnik_fault_set(
            fault,
            "the deadline binds: %.2f h of work and two changeovers of %.2f h need %.2f h, "
            "the deadline is %.2f h; nearest feasible: --deadline %.2fh",
            terms->work_s / 3600, terms->changeover_s / 3600, least_s / 3600,
            terms->deadline_s / 3600, ceil(least_s / 36) / 100);
    return 0;
}

/* The price of the moment; `stays_s` may be null. */
static double price_at(const struct run *run, double now_s, double *stays_s)
{
    const struct spotnik_job_terms *terms = run->terms;

    if (terms->prices)
        return spotnik_prices_at(terms->prices, terms->prices_from_s + now_s + TIME_EPSILON_S,
                                 stays_s);
    if (stays_s)
        *stays_s = INFINITY;
    return 1;
}

static bool place_has_spot(const struct run *run, size_t place, double now_s)
{
    const struct spotnik_window *window = &run->places[place];
    size_t tick = (size_t)((now_s + TIME_EPSILON_S) / run->tick_s);

    if (run->terms->cap > 0 && price_at(run, now_s, NULL) > run->terms->cap)
        return false;
    return window->machines[tick < window->ticks ? tick : window->ticks - 1] > 0;
}

/* When staying without spot will have cost as much as a move: on-demand instead of spot, or time
 * that will have to be made up for by it. */
static double move_pays_s(const struct run *run)
{
    double dearer = run->terms->price_ratio - 1,
           costs = 3600 * run->terms->move_cost + run->terms->move_s;

    if (run->place_count == 1 || run->left_alone_s < 0 || run->work_left_s * dearer <= costs)
        return INFINITY; /* also where the work that is left could never pay for it */
    return run->left_alone_s + costs / dearer;
}

/* How long a place has had spot, as far as this window tells. */
static double spot_age_s(const struct run *run, size_t place, double now_s)
{
    double at_s = now_s;

    while (at_s > 0 && place_has_spot(run, place, at_s - run->tick_s))
        at_s -= run->tick_s;
    return now_s - at_s;
}

/* Where spot would be started now: at home, or where it has been longest; place_count: nowhere. */
static size_t spot_place(const struct run *run, double now_s)
{
    size_t best = run->place_count;
    double oldest_s = -1;

    if (place_has_spot(run, run->home, now_s))
        return run->home;
    if (now_s + TIME_EPSILON_S < move_pays_s(run))
        return best;
    for (size_t place = 0; place < run->place_count; place++) {
        if (!place_has_spot(run, place, now_s))
            continue;
        double age_s = spot_age_s(run, place, now_s);
        if (age_s > oldest_s) {
            oldest_s = age_s;
            best = place;
        }
    }
    return best;
}

static bool offered_at(const struct run *run, double now_s)
{
    return spot_place(run, now_s) < run->place_count;
}

static bool is_dear(const struct run *run)
{
    return run->terms->worth > 0 && price_at(run, run->now_s, NULL) > run->terms->worth;
}

/* Above both the policy holds no spot for long. */
static double most_paid(const struct spotnik_job_terms *terms)
{
    return fmin(terms->cap > 0 ? terms->cap : INFINITY, terms->worth > 0 ? terms->worth : INFINITY);
}

/* When the warning of the next loss comes, if it comes within this tick; infinite otherwise. */
static double warning_s(const struct run *run)
{
    double at_s = (floor((run->now_s + TIME_EPSILON_S) / run->tick_s) + 1) * run->tick_s;

    for (; at_s <= run->now_s + run->terms->notice_s + run->tick_s; at_s += run->tick_s)
        if (!place_has_spot(run, run->held & SPOTNIK_SPOT ? run->spot_at : run->home, at_s))
            return at_s - run->terms->notice_s;
    return INFINITY;
}

static double slack_s(const struct run *run)
{
    return run->terms->deadline_s - run->now_s - run->work_left_s;
}

static bool elastic(const struct run *run)
{
    return run->terms->pair_speed > 0;
}

/* The machines that are held and up. */
static unsigned ready(const struct run *run)
{
    unsigned set = 0;

    for (unsigned kind = SPOTNIK_SPOT; kind <= SPOTNIK_ON_DEMAND; kind++)
        if ((run->held & kind) && run->starts_in_s[kind] <= TIME_EPSILON_S)
            set |= kind;
    return set;
}

static double speed(const struct run *run, unsigned set)
{
    return set == SPOTNIK_IDLE ? 0 : set == SPOTNIK_BOTH ? run->terms->pair_speed : 1;
}

/* Time passes with nothing changing but the clock, the work and the bill. */
static void run_pass(struct run *run, double stretch_s)
{
    unsigned working = ready(run);
    double work_s = speed(run, working) * stretch_s,
           each_s = working == SPOTNIK_BOTH ? work_s / 2 : work_s;

    run->result.spot_work_s += working & SPOTNIK_SPOT ? each_s : 0;
    run->result.on_demand_work_s += working & SPOTNIK_ON_DEMAND ? each_s : 0;
    run->work_left_s -= work_s;
    run->result.on_demand_billed_s += run->held & SPOTNIK_ON_DEMAND ? stretch_s : 0;
    if (run->held & SPOTNIK_SPOT) {
        run->result.spot_billed_s += stretch_s;
        run->result.spot_paid_s +=
            run->terms->prices
                ? spotnik_prices_paid(run->terms->prices, run->terms->prices_from_s + run->now_s,
                                      stretch_s)
                : stretch_s;
    }
    for (unsigned kind = SPOTNIK_SPOT; kind <= SPOTNIK_ON_DEMAND; kind++)
        run->starts_in_s[kind] = fmax(0, run->starts_in_s[kind] - stretch_s);
    if (run->policy->observe)
        run->policy->observe(run->policy->self, run->available, run->now_s - run->run_started_s,
                             stretch_s, false);
    run->now_s += stretch_s;
}

/* What a start of spot takes now, the move of the state included. */
static double spot_start_s(const struct run *run)
{
    bool moves = spot_place(run, run->now_s) != run->home;

    return run->terms->changeover_s + (moves ? run->terms->move_s : 0);
}

static void spot_begin(struct run *run)
{
    run->spot_at = spot_place(run, run->now_s);
    if (run->spot_at == run->home)
        return;
    run->result.moves++;
    run->result.moves_paid += run->terms->move_cost;
}

/* Holds `set` from now on: what is new in it starts, what is not in it is gone. */
static void run_hold(struct run *run, unsigned set)
{
    for (unsigned kind = SPOTNIK_SPOT; kind <= SPOTNIK_ON_DEMAND; kind++) {
        if (!(set & ~run->held & kind))
            continue;
        run->starts_in_s[kind] =
            kind == SPOTNIK_SPOT ? spot_start_s(run) : run->terms->changeover_s;
        run->result.changeovers++;
        if (kind == SPOTNIK_SPOT)
            spot_begin(run);
    }
    run->held = set;
}

/* The state is where spot works; a place without spot is left alone from then on. */
static void run_settle(struct run *run)
{
    if (ready(run) & SPOTNIK_SPOT)
        run->home = run->spot_at;
    if (place_has_spot(run, run->home, run->now_s))
        run->left_alone_s = -1;
    else if (run->left_alone_s < 0)
        run->left_alone_s = run->now_s;
}

/* Looks at availability; a spot machine that is no longer available is gone. */
static void run_look(struct run *run)
{
    run_settle(run);
    bool available = offered_at(run, run->now_s) && !is_dear(run);

    if (available != run->available) {
        if (run->policy->observe)
            run->policy->observe(run->policy->self, run->available, run->now_s - run->run_started_s,
                                 0, true);
        run->available = available;
        run->run_started_s = run->now_s;
    }
    if ((run->held & SPOTNIK_SPOT) && !place_has_spot(run, run->spot_at, run->now_s)) {
        run->held &= ~(unsigned)SPOTNIK_SPOT;
        run->goal = run->held;
        run->result.revocations++;
    }
    if (ready(run) & run->goal)
        run->held &= run->goal; /* the successor is up */
}

/* The policy's choice, as far as the guard lets it through. */
static void run_obey(struct run *run, struct spotnik_choice choice)
{
    unsigned set = choice.machine;
    double d_s = run->terms->changeover_s;
    bool leaves = (run->held & SPOTNIK_ON_DEMAND) && !(set & SPOTNIK_ON_DEMAND);
    bool drops = choice.at_once && !(ready(run) & set);
    bool covered = elastic(run) && (set == SPOTNIK_IDLE || (ready(run) && !drops));
    bool alone = set == SPOTNIK_SPOT && !run->held; /* if it fails to start, a changeover is gone */

    if ((set & SPOTNIK_SPOT) && !offered_at(run, run->now_s))
        return;
    double start_s = set & ~run->held & SPOTNIK_SPOT ? spot_start_s(run)
                     : run->held & SPOTNIK_SPOT      ? run->starts_in_s[SPOTNIK_SPOT]
                                                /* until spot works, the move included */
                                                : d_s;
    if ((leaves || alone) && slack_s(run) < d_s + (covered ? 0 : start_s) - TIME_EPSILON_S)
        return;
    if (!elastic(run) && set == SPOTNIK_BOTH)
        return;
    run->goal = set;
    bool waits = elastic(run) && !choice.at_once && set && ready(run) && !(ready(run) & set);
    run_hold(run, waits ? set | ready(run) : set);
}

/* The mean price of a week until now, while it might be paid at all; before that, that of the
 * moment. */
static double usual_price(const struct run *run)
{
    const struct spotnik_job_terms *terms = run->terms;
    double until_s = terms->prices_from_s + run->now_s, from_s = fmax(0, until_s - WEEK_S),
           total = 0, passed_s = 0;
    double cap = most_paid(terms);

    if (!terms->prices)
        return 1;
    for (double at_s = from_s; at_s < until_s - TIME_EPSILON_S; at_s += SAMPLE_S) {
        double price = spotnik_prices_at(terms->prices, at_s, NULL);
        total += price <= cap ? price : 0;
        passed_s += price <= cap;
    }
    return passed_s > 0 ? total / passed_s : fmin(cap, price_at(run, run->now_s, NULL));
}

/* How long a price stays on one side of the usual one; infinite where it never changed sides. */
static double price_stays_s(const struct run *run)
{
    const struct spotnik_job_terms *terms = run->terms;
    double until_s = terms->prices_from_s + run->now_s, from_s = fmax(0, until_s - WEEK_S);
    double cap = most_paid(terms), passed_s = 0;
    unsigned turns = 0;
    bool above = false;

    for (double at_s = from_s; terms->prices && at_s < until_s - TIME_EPSILON_S; at_s += SAMPLE_S) {
        double price = spotnik_prices_at(terms->prices, at_s, NULL);
        if (price > cap)
            continue;
        turns += passed_s > 0 && above != (price > run->usual);
        above = price > run->usual;
        passed_s += SAMPLE_S;
    }
    return turns ? passed_s / turns : INFINITY;
}

/* Follows the least price up to now. */
static double price_least(struct run *run)
{
    const struct spotnik_job_terms *terms = run->terms;
    double until_s = terms->prices_from_s + run->now_s, stays_s;

    if (!terms->prices)
        return 1;
    for (; run->least_until_s <= until_s; run->least_until_s += fmax(stays_s, 1e-3))
        run->least =
            fmin(run->least, spotnik_prices_at(terms->prices, run->least_until_s, &stays_s));
    return run->least;
}

static struct spotnik_job_standing standing(const struct run *run)
{
    struct spotnik_job_standing now = { .paid = spotnik_backtest_cost(&run->result,
                                                                      run->terms->price_ratio),
                                        .work_left_s = run->work_left_s,
                                        .held = run->held };

    for (unsigned kind = SPOTNIK_SPOT; kind <= SPOTNIK_ON_DEMAND; kind++)
        now.starts_in_s[kind] = run->held & kind ? run->starts_in_s[kind] : 0;
    return now;
}

/* What the policy is shown; nothing of the future but the warning. */
static struct spotnik_choice run_ask(struct run *run)
{
    unsigned up = ready(run);
    const struct spotnik_job_view view = {
        .terms = run->terms,
        .now_s = run->now_s,
        .work_left_s = run->work_left_s,
        .time_left_s = run->terms->deadline_s - run->now_s,
        .run_age_s = run->now_s - run->run_started_s,
        .machine = (enum spotnik_machine)(up ? up : run->held),
        .starting = (enum spotnik_machine)(run->held & ~up),
        .available = run->available,
        .offered = offered_at(run, run->now_s),
        .warned = run->terms->notice_s > 0 && warning_s(run) <= run->now_s + TIME_EPSILON_S,
        .price = price_at(run, run->now_s, NULL),
        .price_usual = run->usual,
        .price_stays_s = run->stays_s,
        .price_least = price_least(run),
        .own = standing(run),
        .beside = run->beside ? standing(run->beside) : (struct spotnik_job_standing){ 0 },
    };

    return run->policy->choose(run->policy->self, &view);
}

/* The rules first, then the policy. Returns when to look again, as a stretch from now. */
static double run_decide(struct run *run)
{
    double net_s = run->terms->changeover_s * (elastic(run) ? 1 : 2), again_s = INFINITY;

    if (!run->held && slack_s(run) < net_s + TIME_EPSILON_S) {
        run->committed = !elastic(run);
        run->goal = SPOTNIK_ON_DEMAND;
        run_hold(run, SPOTNIK_ON_DEMAND);
    }
    if (run->committed)
        return again_s;
    struct spotnik_choice choice = run_ask(run);
    run_obey(run, choice);
    if (choice.again_s > 0)
        again_s = choice.again_s;
    if (!run->held)
        again_s = fmin(again_s, fmax(slack_s(run) - net_s, TIME_EPSILON_S));
    if (run->terms->notice_s > 0 && warning_s(run) > run->now_s + TIME_EPSILON_S)
        again_s = fmin(again_s, warning_s(run) - run->now_s);
    return again_s;
}

static bool run_done(const struct run *run)
{
    return run->work_left_s <= TIME_EPSILON_S;
}

/* Decides what is held now, and says for how long it may stay so. */
static double run_hold_for(struct run *run)
{
    run_look(run);
    if (run->now_s >= run->usual_until_s) {
        run->usual = usual_price(run);
        run->stays_s = price_stays_s(run);
        run->usual_until_s = run->now_s + USUAL_EVERY_S;
    }
    double stretch_s = run_decide(run), now = speed(run, ready(run));
    double tick_end_s =
        (floor((run->now_s + TIME_EPSILON_S) / run->tick_s) + 1) * run->tick_s - run->now_s;

    stretch_s = fmin(stretch_s, tick_end_s);
    if (isfinite(most_paid(run->terms)) || run->beside) { /* a price may change what is best */
        double stays_s;
        price_at(run, run->now_s, &stays_s);
        stretch_s = fmin(stretch_s, fmax(stays_s, TIME_EPSILON_S));
    }
    if (move_pays_s(run) > run->now_s + TIME_EPSILON_S)
        stretch_s = fmin(stretch_s, move_pays_s(run) - run->now_s);
    if (now > 0)
        stretch_s = fmin(stretch_s, run->work_left_s / now);
    for (unsigned kind = SPOTNIK_SPOT; kind <= SPOTNIK_ON_DEMAND; kind++)
        if ((run->held & kind) && run->starts_in_s[kind] > TIME_EPSILON_S)
            stretch_s = fmin(stretch_s, run->starts_in_s[kind]);
    return fmax(stretch_s, TIME_EPSILON_S);
}

/* Both step together, so that neither sees what the other cannot. */
static void runs_step(struct run *run, struct run *beside)
{
    double beside_s = beside && !run_done(beside) ? run_hold_for(beside) : INFINITY,
           stretch_s = fmin(run_hold_for(run), beside_s);

    run_pass(run, stretch_s);
    if (isfinite(beside_s))
        run_pass(beside, stretch_s);
    if (beside && run_done(beside))
        beside->held = 0;
}

static void run_start(struct run *run)
{
    run_settle(run);
    run->available = offered_at(run, 0) && !is_dear(run);
    if (run->policy->start)
        run->policy->start(run->policy->self);
}

static int places_check(const struct spotnik_window *places, size_t count, double tick_s,
                        const struct spotnik_job_terms *terms, struct spotnik_fault *fault)
{
    if (spotnik_job_terms_check(terms, fault))
        return -1;
    if (count > 1 && terms->pair_speed > 1)
        return spotnik_fault_set(fault,
                                 "machines of two places share no step: with several places "
                                 "--pair-speed is 0 or 1, not %g",
                                 terms->pair_speed);
    for (size_t i = 0; i < count; i++)
        if ((double)places[i].ticks * tick_s < terms->deadline_s)
            return spotnik_fault_set(
                fault, "the window covers %.1f h, the deadline is %.1f h; take a longer trace",
                (double)places[i].ticks * tick_s / 3600, terms->deadline_s / 3600);
    return 0;
}

int spotnik_backtest_run(const struct spotnik_window *places, size_t count, double tick_s,
                         const struct spotnik_job_terms *terms, const struct spotnik_policy *policy,
                         struct spotnik_job_result *result_out, struct spotnik_fault *fault)
{
    struct run run = { .places = places,
                       .place_count = count,
                       .left_alone_s = -1,
                       .terms = terms,
                       .policy = policy,
                       .tick_s = tick_s,
                       .least = INFINITY,
                       .work_left_s = terms->work_s };
    struct spotnik_job_terms single = *terms;
    struct run other = run;

    if (places_check(places, count, tick_s, terms, fault))
        return -1;
    single.pair_speed = single.worth = 0;
    other.terms = &single;
    other.policy = policy->beside;
    run.beside = policy->beside ? &other : NULL;
    run_start(&run);
    if (policy->beside)
        run_start(&other);
    while (!run_done(&run))
        runs_step(&run, policy->beside ? &other : NULL);
    while (policy->beside && !run_done(&other))
        run_pass(&other, run_hold_for(&other));
    run.result.beside_paid = spotnik_backtest_cost(&other.result, terms->price_ratio);
    run.result.finish_s = run.now_s;
    run.result.missed = run.now_s > terms->deadline_s + 1;
    *result_out = run.result;
    return 0;
}

double spotnik_backtest_cost(const struct spotnik_job_result *result, double price_ratio)
{
    return (result->spot_paid_s + price_ratio * result->on_demand_billed_s) / 3600
           + result->moves_paid;
}
