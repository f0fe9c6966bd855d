/* SPDX-License-Identifier: Apache-2.0 */
/* `excess` bounds what the way back may cost beyond what Uniform Progress has yet to pay. Names and
 * cases are those of docs/design/0006-planner.md. */
#include "regret_bound.h"

#include "backtest_policy.h"

#include <math.h>

#define AGAIN_LEAST_S 10.0

/* Both jobs as the bound sees them. */
struct both {
    const struct spotnik_job_view *view;
    double k, beta, least;   /* on-demand, a second of lag at its worst, spot at its least */
    double lag_s;            /* of our work behind theirs */
    unsigned held, theirs;   /* sets */
    double spot_s, demand_s; /* until ours of that kind would work */
    double their_s;          /* until theirs works */
    double lock_s;           /* they certainly hold on-demand for so long from now on */
};

static double starts_in(const struct spotnik_job_view *view, unsigned held, unsigned kind)
{
    return (view->own.held & held & kind) ? view->own.starts_in_s[kind] : view->terms->changeover_s;
}

/* Uniform Progress leaves on-demand only once it is two changeovers ahead of its line. */
static double lock_of(const struct spotnik_job_view *view)
{
    const struct spotnik_job_terms *terms = view->terms;
    double rate = terms->work_s / terms->deadline_s, left_s = view->beside.work_left_s;
    double ahead_s = (view->now_s + 2 * terms->changeover_s) * rate;

    if (view->beside.held != SPOTNIK_ON_DEMAND || rate >= 1)
        return 0;
    return fmin(fmax(0, ahead_s - (terms->work_s - left_s)) / (1 - rate), left_s);
}

/* As it would be while `held` is held. */
static struct both both_make(const struct spotnik_job_view *view, unsigned held)
{
    const struct spotnik_job_terms *terms = view->terms;
    unsigned theirs = view->beside.held;

    return (struct both){
        .view = view,
        .k = terms->price_ratio,
        .beta = terms->price_ratio / (terms->pair_speed - 1),
        .least = fmin(view->price_least, terms->price_ratio),
        .lag_s = view->own.work_left_s - view->beside.work_left_s,
        .held = held,
        .theirs = theirs,
        .spot_s = starts_in(view, held, SPOTNIK_SPOT),
        .demand_s = starts_in(view, held, SPOTNIK_ON_DEMAND),
        .their_s = theirs ? view->beside.starts_in_s[theirs] : 0,
        .lock_s = lock_of(view),
    };
}

static bool they_are_done(const struct both *b)
{
    return b->view->beside.work_left_s <= 1e-6;
}

/* Behind by `lag_s`, worst; ahead, what is not bought at the end costs the least price. */
static double lag_costs(const struct both *b, double lag_s)
{
    return lag_s * (lag_s > 0 ? b->beta : b->least);
}

/* They are on spot: can theirs be followed with spot alone? */
static bool spot_follows(const struct both *b)
{
    return fmax(b->lag_s, b->lag_s + b->spot_s - b->their_s) <= 0;
}

static double excess_on_spot(const struct both *b)
{
    double none_s = fmax(0, fmin(b->demand_s, b->spot_s) - b->their_s);
    double alone_s = fmax(0, b->spot_s - fmax(b->their_s, b->demand_s));

    if (spot_follows(b))
        return lag_costs(b, fmax(b->lag_s, b->lag_s + b->spot_s - b->their_s));
    return b->k * (b->demand_s + alone_s) + fmax(0, lag_costs(b, b->lag_s + none_s));
}

/* They are locked on on-demand, and we hold nothing until our lead is used up but for a start: what
 * that saves. */
static double lead_saves(const struct both *b)
{
    double lead_s = fmax(0, -(b->lag_s + b->view->terms->changeover_s));
    double locked_s = fmin(lead_s, b->lock_s);

    return b->k * locked_s + b->least * (lead_s - locked_s);
}

static double excess_on_demand(const struct both *b)
{
    double costs = lag_costs(b, b->lag_s + b->demand_s - b->their_s);

    return costs > 0 ? costs : fmin(costs, -lead_saves(b));
}

/* In price times seconds. */
static double excess(const struct both *b)
{
    if (they_are_done(b))
        return b->k * (b->demand_s + b->view->own.work_left_s);
    if (b->theirs == SPOTNIK_SPOT)
        return excess_on_spot(b);
    if (b->theirs == SPOTNIK_ON_DEMAND)
        return excess_on_demand(b);
    return b->lag_s > 0 ? b->k * b->demand_s + lag_costs(b, b->lag_s) : lag_costs(b, b->lag_s);
}

/* What may still be lost while `held` is held, in price times seconds. */
static double room(const struct spotnik_regret_bound *bound, const struct spotnik_job_view *view,
                   unsigned held)
{
    const struct both b = both_make(view, held);
    double theirs =
        (1 + bound->share) * view->beside.paid * 3600
        + bound->share * (b.k * b.lock_s + b.least * fmax(0, view->beside.work_left_s - b.lock_s));

    return theirs + (bound->saved - view->own.paid) * 3600 - excess(&b);
}

/* While they are on spot and we are not, following them by spot alone may end at any instant. */
static double jump(const struct spotnik_job_view *view, unsigned held)
{
    bool may = (view->beside.held & SPOTNIK_SPOT) && !(held & SPOTNIK_SPOT);

    return may ? view->terms->price_ratio * view->terms->changeover_s : 0;
}

/* The fastest that room may shrink: two machines paid for in vain, and lag. */
static double shrinks(const struct spotnik_job_view *view)
{
    double k = view->terms->price_ratio;

    return k + fmax(k, view->price) + k / (view->terms->pair_speed - 1);
}

/* What is started works on until `set` is up; spot that costs more than on-demand does not. */
static struct spotnik_choice until_up(const struct spotnik_job_view *view, unsigned set)
{
    unsigned up = view->starting ? view->own.held & ~view->starting : view->own.held;

    if (view->price > view->terms->price_ratio)
        return (struct spotnik_choice){ (enum spotnik_machine)set, INFINITY, true };
    return (struct spotnik_choice){ (enum spotnik_machine)(up & set ? set : up | set), INFINITY,
                                    false };
}

static bool lead_is_worth(const struct both *b)
{
    double lead_s = -(b->lag_s + b->view->terms->changeover_s);

    return fmin(lead_s, b->lock_s) > AGAIN_LEAST_S
           && lead_saves(b) > -lag_costs(b, b->lag_s + b->demand_s - b->their_s);
}

/* The way back: catch up with both machines, then do as they do. */
static struct spotnik_choice way_back_set(const struct spotnik_job_view *view)
{
    const struct both b = both_make(view, view->own.held);

    if (b.theirs == SPOTNIK_ON_DEMAND && lead_is_worth(&b))
        return (struct spotnik_choice){ SPOTNIK_IDLE, -(b.lag_s + view->terms->changeover_s),
                                        true };
    if (they_are_done(&b) || b.theirs == SPOTNIK_ON_DEMAND)
        return until_up(view, SPOTNIK_ON_DEMAND);
    if (b.theirs == SPOTNIK_SPOT)
        return spot_follows(&b) ? (struct spotnik_choice){ SPOTNIK_SPOT, INFINITY, true }
                                : (struct spotnik_choice){ SPOTNIK_BOTH, INFINITY, false };
    if (b.lag_s > 0)
        return until_up(view, SPOTNIK_ON_DEMAND);
    return (struct spotnik_choice){ SPOTNIK_IDLE, INFINITY, true };
}

/* On-demand ends when nothing is to be caught up with any more. */
static struct spotnik_choice way_back(const struct spotnik_job_view *view)
{
    struct spotnik_choice choice = way_back_set(view);
    double lag_s = view->own.work_left_s - view->beside.work_left_s;

    if (lag_s > 0)
        choice.again_s = fmin(choice.again_s, fmax(1, lag_s / view->terms->pair_speed));
    return choice;
}

static double room_beside(const struct spotnik_regret_bound *bound,
                          const struct spotnik_job_view *view, unsigned held)
{
    return room(bound, view, held) - jump(view, held);
}

/* The least room of what may come of a choice: it is held, it is up, or the simulator refuses to
 * leave on-demand. */
static double room_of(const struct spotnik_regret_bound *bound, const struct spotnik_job_view *view,
                      unsigned set)
{
    unsigned now = view->own.held;
    double least = fmin(room_beside(bound, view, set), room_beside(bound, view, set | now));

    return now & ~set & SPOTNIK_ON_DEMAND ? fmin(least, room_beside(bound, view, now)) : least;
}

static double lasts_s(const struct spotnik_regret_bound *bound, const struct spotnik_job_view *view,
                      unsigned set)
{
    return room_of(bound, view, set) / shrinks(view);
}

/* What is wanted; or that with on-demand; or what they hold, though we are behind: the first that
 * there is room for. */
static struct spotnik_choice bound_choose(void *self, const struct spotnik_job_view *view)
{
    const struct spotnik_regret_bound *bound = self;
    struct spotnik_choice choice = bound->inner.choose(bound->inner.self, view);
    const unsigned sets[] = { choice.machine, choice.machine | SPOTNIK_ON_DEMAND,
                              view->beside.held };

    for (size_t i = 0; i < sizeof(sets) / sizeof(*sets); i++) {
        double again_s = lasts_s(bound, view, sets[i]);
        if (!(again_s >= AGAIN_LEAST_S))
            continue;
        if (choice.again_s > 0)
            again_s = fmin(again_s, choice.again_s);
        return (struct spotnik_choice){ (enum spotnik_machine)sets[i], again_s,
                                        choice.at_once && i < 2 };
    }
    return way_back(view);
}

static void bound_start(void *self)
{
    const struct spotnik_regret_bound *bound = self;

    if (bound->inner.start)
        bound->inner.start(bound->inner.self);
}

static void bound_observe(void *self, bool available, double age_s, double stretch_s, bool ended)
{
    const struct spotnik_regret_bound *bound = self;

    if (bound->inner.observe)
        bound->inner.observe(bound->inner.self, available, age_s, stretch_s, ended);
}

struct spotnik_policy spotnik_policy_bounded(struct spotnik_regret_bound *bound,
                                             struct spotnik_policy inner, double share)
{
    *bound = (struct spotnik_regret_bound){ .inner = inner,
                                            .uniform = spotnik_policy_uniform(),
                                            .share = share };
    return (struct spotnik_policy){ .name = inner.name,
                                    .self = bound,
                                    .start = bound_start,
                                    .observe = bound_observe,
                                    .choose = bound_choose,
                                    .beside = &bound->uniform };
}
