/* SPDX-License-Identifier: Apache-2.0 */
/* The programme. Work left C and slack S = time left - C are on a grid of step h; availability is a
 * chain of phases, one per age bucket for up and for down (a Coxian clock: a phase either ends the
 * stretch or ages into the next). The job holds a set of machines. Per step one that works does h
 * and keeps S, two gain slack, none costs S; starting from nothing costs S by one changeover d. C
 * never grows, and where it stays S falls, so one sweep over (C, S) solves it exactly on the grid.
 * The deadline is not weighed against money here: a choice after which it could be missed is not
 * there. */
#include "dp_policy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS SPOTNIK_HAZARD_BUCKETS
#define PHASES (2 * BUCKETS) /* down ages first, then up ages */
#define STEPS_PER_DEADLINE 300
#define REVERSION 0.5      /* how much of what is beyond the usual price passes in a long wait */
#define FIRST_STEP_S 600.0 /* in which the age of the first stretch is followed */
#define SETS 4             /* nothing, spot, on-demand, both: enum spotnik_machine as a set */
/* the grid ends at so much of the first slack; more than that counts as that */
#define SLACK_GROWTH 1.5

/* Where one phase goes to, without the phases that it cannot reach. */
struct row {
    size_t count, phase[PHASES];
    double share[PHASES];
};

struct solved {
    /* [C][S][length][phase][set]: expected cost to go after a step of that length from here */
    float *ahead;
    struct row step[PHASES], long_step[PHASES];
    double log_end[2][BUCKETS], end_per_s[2][BUCKETS];
    /* of what there is when the job begins, by age: before anything is seen, and by now */
    double first[2][BUCKETS], first_now[2][BUCKETS];
};

struct spotnik_dp_policy {
    struct spotnik_job_terms terms;
    struct solved *solved;
    double *belief; /* log weights */
    size_t count, work_cells, slack_cells, lengths;
    bool changed;       /* availability has, since the job began */
    double unit;        /* the typical price of spot */
    double h_s, long_s; /* grid step; the step in which a changeover is paid. Equal: lengths is 1 */
};

static bool phase_up(size_t phase)
{
    return phase >= BUCKETS;
}

static size_t phase_of(bool available, double age_s)
{
    return (available ? BUCKETS : 0) + spotnik_hazard_bucket(age_s);
}

/* One step of length h of the chain. */
static void chain_make(const struct spotnik_hazard_table *hazards, double h_s,
                       double chain[PHASES][PHASES])
{
    memset(chain, 0, sizeof(double) * PHASES * PHASES);
    for (size_t phase = 0; phase < PHASES; phase++) {
        size_t bucket = phase % BUCKETS;
        bool up = phase_up(phase), last = bucket == BUCKETS - 1;
        double before_h = bucket ? spotnik_hazard_age_h[bucket - 1] : 0;
        double width_s = last ? INFINITY : 3600 * (spotnik_hazard_age_h[bucket] - before_h);
        double end = 1 - exp(-hazards->end_per_h[up][bucket] * h_s / 3600);
        double age = last ? 0 : fmin(1, h_s / width_s);
        chain[phase][up ? 0 : BUCKETS] += end;
        if (!last)
            chain[phase][phase + 1] += (1 - end) * age;
        chain[phase][phase] += (1 - end) * (1 - age);
    }
}

static void chain_power(double chain[PHASES][PHASES], unsigned times, double power[PHASES][PHASES])
{
    double next[PHASES][PHASES];

    memset(power, 0, sizeof(next));
    for (size_t i = 0; i < PHASES; i++)
        power[i][i] = 1;
    for (unsigned n = 0; n < times; n++) {
        memset(next, 0, sizeof(next));
        for (size_t i = 0; i < PHASES; i++)
            for (size_t k = 0; k < PHASES; k++)
                for (size_t j = 0; j < PHASES && power[i][k] > 0; j++)
                    next[i][j] += power[i][k] * chain[k][j];
        memcpy(power, next, sizeof(next));
    }
}

/* Ends of a bucket by age, per second. */
static double ages_per_s(size_t bucket)
{
    double before_h = bucket ? spotnik_hazard_age_h[bucket - 1] : 0;

    return bucket == BUCKETS - 1 ? 0 : 1 / (3600 * (spotnik_hazard_age_h[bucket] - before_h));
}

/* Nobody tells how old a stretch is in which a job begins. Each age is as likely as stretches of
 * this hazard table are of that age at any instant: long ones fill more of the time. */
static void first_make(struct solved *solved)
{
    for (int up = 0; up < 2; up++) {
        double total = 0, reach = 1;
        for (size_t b = 0; b < BUCKETS; b++) {
            double leaves_per_s = solved->end_per_s[up][b] + ages_per_s(b);
            solved->first[up][b] = reach / leaves_per_s;
            total += solved->first[up][b];
            reach *= ages_per_s(b) / leaves_per_s;
        }
        for (size_t b = 0; b < BUCKETS; b++)
            solved->first[up][b] /= total;
    }
}

/* The first stretch has lasted for so much longer; returns how likely that was. */
static double first_pass(const struct solved *solved, double first[BUCKETS], bool up,
                         double stretch_s)
{
    double comes = 0, total = 0;

    for (size_t b = 0; b < BUCKETS; b++) {
        double leaves_per_s = solved->end_per_s[up][b] + ages_per_s(b);
        double gone = first[b] * (1 - exp(-leaves_per_s * stretch_s));
        first[b] += comes - gone;
        comes = gone * ages_per_s(b) / leaves_per_s;
        total += first[b];
    }
    for (size_t b = 0; b < BUCKETS; b++)
        first[b] /= total;
    return total;
}

static void rows_make(double chain[PHASES][PHASES], struct row rows[PHASES])
{
    memset(rows, 0, sizeof(*rows) * PHASES);
    for (size_t i = 0; i < PHASES; i++) {
        for (size_t j = 0; j < PHASES; j++) {
            if (!(chain[i][j] > 0))
                continue;
            rows[i].phase[rows[i].count] = j;
            rows[i].share[rows[i].count++] = chain[i][j];
        }
    }
}

static float *cell(const struct spotnik_dp_policy *f, const struct solved *solved, size_t c,
                   size_t s, bool changes)
{
    size_t length = changes && f->lengths == 2;

    return solved->ahead + (((c * f->slack_cells + s) * f->lengths + length) * PHASES) * SETS;
}

/* A place on the grid, from 0 on: the point below, and the share of the way to the next. */
static size_t grid_split(double at, double *share_out)
{
    size_t below = (size_t)(at + 1e-6);

    *share_out = at > (double)below ? at - (double)below : 0;
    return below;
}

/* What a step leads to: its price, and the cells that the cost to go is read from. The same for all
 * phases, so it is looked up once for them. */
struct step {
    double price;
    const float *corner[4];
    double share[4];
    size_t corners;
};

/* Where the cost to go is found once (work, slack) is left; bilinear. Where a start takes less than
 * a cell, a step may end between the very cell that the sweep is at and others. Then it is bilinear
 * in work and time left: every step shortens the time left by whole cells, so all that it looks up
 * is earlier. (Elsewhere that was up to 2 % dearer on traces.) */
static void ahead_find(const struct spotnik_dp_policy *f, const struct solved *solved,
                       double work_s, double slack_s, unsigned set, bool changes, struct step *step)
{
    bool by_time = f->terms.changeover_s < f->h_s;
    double work = fmin(fmax(work_s / f->h_s, 0), (double)f->work_cells - 1);
    double slack = slack_s > 0 ? slack_s / f->h_s : 0, cf, tf;
    size_t c0 = grid_split(work, &cf), t0 = grid_split(slack + (by_time ? work : 0), &tf);

    step->corners = 0;
    for (unsigned corner = 0; corner < 4; corner++) {
        double weight = (corner & 1 ? cf : 1 - cf) * (corner & 2 ? tf : 1 - tf);
        size_t c = c0 + (corner & 1), t = t0 + (corner >> 1), less = by_time ? c : 0;
        size_t s = t > less ? t - less : 0;
        if (weight <= 1e-9)
            continue;
        step->share[step->corners] = weight;
        step->corner[step->corners++] =
            cell(f, solved, c, s < f->slack_cells ? s : f->slack_cells - 1, changes) + set;
    }
}

static double step_cost(const struct step *step, size_t phase)
{
    double total = 0;

    for (size_t i = 0; i < step->corners; i++)
        total += step->share[i] * (double)step->corner[i][phase * SETS];
    return step->price + total;
}

static double speed(const struct spotnik_dp_policy *f, unsigned set)
{
    return set == SPOTNIK_IDLE ? 0 : set == SPOTNIK_BOTH ? f->terms.pair_speed : 1;
}

/* May `to` be held when `slack_s` will be left after the step, and still no deadline be missed? */
static bool safe(const struct spotnik_dp_policy *f, double slack_s, double left_s, unsigned from,
                 unsigned to)
{
    double d_s = f->terms.changeover_s - 1; /* a second of grace for the grid */

    if (to & SPOTNIK_ON_DEMAND)
        return true;
    if (f->terms.pair_speed > 0)
        return left_s >= d_s;
    return (from == SPOTNIK_SPOT || slack_s >= 2 * d_s) && (to == SPOTNIK_SPOT || left_s >= d_s);
}

/* Holding `to` for one step; false where the rules forbid it. A step in which something starts is
 * as long as a changeover; what an elastic job holds already works on meanwhile. */
static bool step_make(const struct spotnik_dp_policy *f, const struct solved *solved, double work_s,
                      double slack_s, unsigned from, unsigned to, struct step *step)
{
    bool changes = to & ~from, drops = from & ~to, elastic = f->terms.pair_speed > 0;
    double long_s = changes ? f->long_s : f->h_s, d_s = changes ? f->terms.changeover_s : 0;
    double price =
        (to & SPOTNIK_ON_DEMAND ? f->terms.price_ratio : 0) + (to & SPOTNIK_SPOT ? 1 : 0);
    double before = elastic ? speed(f, from) : 0, after = speed(f, to);
    double done_s = before * d_s + after * (long_s - d_s), left_s = slack_s + done_s - long_s;

    if (to == SPOTNIK_BOTH && !elastic)
        return false;
    if ((elastic && changes && drops) || !safe(f, slack_s, left_s, from, to))
        /* an elastic job drops the old machine when the new one is up: the next choice */
        return false;
    double end_s = before > 0 && changes ? work_s / before
                   : after > 0           ? d_s + work_s / after
                                         : long_s;
    step->price = price * fmin(long_s, end_s) / 3600;
    ahead_find(f, solved, work_s - done_s, left_s, to, changes, step);
    return true;
}

/* Cost (spot-hours) of one step and of acting optimally afterwards; infinite when the rules forbid
 * it. */
static double choice_cost(const struct spotnik_dp_policy *f, const struct solved *solved,
                          double work_s, double slack_s, size_t phase, unsigned from, unsigned to)
{
    struct step step;

    if (((to & SPOTNIK_SPOT) && !phase_up(phase))
        || !step_make(f, solved, work_s, slack_s, from, to, &step))
        return INFINITY;
    return step_cost(&step, phase);
}

/* The cost to go of every (phase, set) that may be found here; without spot a set that holds spot
 * goes on without it. */
static void values_make(const struct spotnik_dp_policy *f, const struct solved *solved, size_t c,
                        size_t s, double values[PHASES][SETS])
{
    double work_s = (double)c * f->h_s, slack_s = (double)s * f->h_s;
    struct step step;

    for (size_t i = 0; i < PHASES * SETS; i++)
        values[i / SETS][i % SETS] = INFINITY;
    for (unsigned from = 0; from < SETS; from++)
        for (unsigned to = 0; to < SETS; to++) {
            if (!step_make(f, solved, work_s, slack_s, from, to, &step))
                continue;
            /* phases without spot come first */
            for (size_t phase = (from | to) & SPOTNIK_SPOT ? BUCKETS : 0; phase < PHASES; phase++)
                values[phase][from] = fmin(values[phase][from], step_cost(&step, phase));
        }
    for (size_t phase = 0; phase < BUCKETS; phase++) {
        values[phase][SPOTNIK_SPOT] = values[phase][SPOTNIK_IDLE];
        values[phase][SPOTNIK_BOTH] = values[phase][SPOTNIK_ON_DEMAND];
    }
}

/* One step earlier. */
static void solve_cell(const struct spotnik_dp_policy *f, const struct solved *solved, size_t c,
                       size_t s)
{
    double values[PHASES][SETS];

    values_make(f, solved, c, s, values);
    for (size_t length = 0; length < f->lengths; length++) {
        const struct row *rows = length ? solved->long_step : solved->step;
        float *to = cell(f, solved, c, s, length);
        for (size_t phase = 0; phase < PHASES; phase++) {
            double sum[SETS] = { 0 };
            for (size_t i = 0; i < rows[phase].count; i++)
                for (unsigned set = 0; set < SETS; set++)
                    sum[set] += rows[phase].share[i] * values[rows[phase].phase[i]][set];
            for (unsigned set = 0; set < SETS; set++)
                to[phase * SETS + set] = (float)sum[set];
        }
    }
}

static size_t cells(const struct spotnik_dp_policy *f)
{
    return f->work_cells * f->slack_cells * f->lengths * PHASES * SETS;
}

/* Nothing is left to pay without work left; the sweep starts from there. */
static void solve(const struct spotnik_dp_policy *f, struct solved *solved,
                  const struct spotnik_hazard_table *hazards)
{
    double step[PHASES][PHASES], long_step[PHASES][PHASES];

    chain_make(hazards, f->h_s, step);
    chain_power(step, (unsigned)fmax(1, round(f->long_s / f->h_s)), long_step);
    rows_make(step, solved->step);
    rows_make(long_step, solved->long_step);
    for (int up = 0; up < 2; up++) {
        for (size_t b = 0; b < BUCKETS; b++) {
            solved->end_per_s[up][b] = hazards->end_per_h[up][b] / 3600;
            solved->log_end[up][b] = log(hazards->end_per_h[up][b]);
        }
    }
    first_make(solved);
    memset(solved->ahead, 0, f->slack_cells * f->lengths * PHASES * SETS * sizeof(float));
    for (size_t c = 1; c < f->work_cells; c++)
        for (size_t s = 0; s < f->slack_cells; s++)
            solve_cell(f, solved, c, s);
}

/* A hazard table that nobody has seen yet: spot machines that last half as long. Learned from few
 * places, a belief needs room for worse ones; leave-one-trace-out on the training traces gains by
 * it. */
static struct spotnik_hazard_table rougher(const struct spotnik_hazard_table *hazards)
{
    struct spotnik_hazard_table rough = *hazards;

    for (size_t b = 0; b < BUCKETS; b++)
        rough.end_per_h[1][b] *= 2;
    return rough;
}

int spotnik_dp_policy_new(const struct spotnik_job_terms *terms,
                          const struct spotnik_hazard_table *tables, size_t count,
                          struct spotnik_dp_policy **dp_out, struct spotnik_fault *fault)
{
    struct spotnik_dp_policy *f = calloc(1, sizeof(*f));
    double base_s = terms->deadline_s / STEPS_PER_DEADLINE;

    if (!f)
        return spotnik_fault_set(fault, "out of memory");
    f->terms = *terms;
    f->unit = terms->price_typical > 0 ? terms->price_typical : 1;
    f->terms.price_ratio /= f->unit; /* the programme counts in typical prices */
    f->count = 2 * count;
    f->h_s = terms->changeover_s >= base_s
                 ? terms->changeover_s / ceil(terms->changeover_s / base_s - 1e-9)
                 : base_s;
    f->long_s = fmax(f->h_s, terms->changeover_s);
    f->work_cells = (size_t)ceil(terms->work_s / f->h_s) + 2;
    f->lengths = f->long_s > f->h_s ? 2 : 1;
    f->slack_cells = (size_t)ceil((terms->deadline_s - terms->work_s) / f->h_s
                                  * (terms->pair_speed > 1 ? SLACK_GROWTH : 1))
                     + 2;
    f->solved = calloc(f->count, sizeof(*f->solved));
    f->belief = calloc(f->count, sizeof(*f->belief));
    bool whole = f->solved && f->belief;
    for (size_t i = 0; whole && i < f->count; i++) {
        struct spotnik_hazard_table hazards = i < count ? tables[i] : rougher(&tables[i - count]);
        f->solved[i].ahead = malloc(cells(f) * sizeof(float));
        whole = f->solved[i].ahead != NULL;
        if (whole)
            solve(f, &f->solved[i], &hazards);
    }
    if (!whole) {
        spotnik_dp_policy_free(f);
        return spotnik_fault_set(fault, "out of memory for the policy's tables");
    }
    *dp_out = f;
    return 0;
}

void spotnik_dp_policy_free(struct spotnik_dp_policy *f)
{
    if (!f)
        return;
    for (size_t i = 0; f->solved && i < f->count; i++)
        free(f->solved[i].ahead);
    free(f->solved);
    free(f->belief);
    free(f);
}

static void dp_start(void *self)
{
    struct spotnik_dp_policy *f = self;

    memset(f->belief, 0, f->count * sizeof(*f->belief));
    f->changed = false;
    for (size_t i = 0; i < f->count; i++)
        memcpy(f->solved[i].first_now, f->solved[i].first, sizeof(f->solved[i].first));
}

/* The log of how likely a hazard table made what was seen of the first stretch. */
static double first_see(struct solved *solved, bool up, double stretch_s, bool ended)
{
    double *now = solved->first_now[up], ends_per_s = 0, likely = 1;

    for (size_t b = 0; b < BUCKETS; b++)
        ends_per_s += now[b] * solved->end_per_s[up][b];
    if (ended)
        return log(ends_per_s * 3600);
    for (; stretch_s > 0; stretch_s -= FIRST_STEP_S)
        likely *= first_pass(solved, now, up, fmin(stretch_s, FIRST_STEP_S));
    return log(likely);
}

static void dp_observe(void *self, bool available, double age_s, double stretch_s, bool ended)
{
    struct spotnik_dp_policy *f = self;
    size_t bucket = spotnik_hazard_bucket(age_s);

    for (size_t i = 0; i < f->count; i++)
        f->belief[i] += !f->changed ? first_see(&f->solved[i], available, stretch_s, ended)
                        : ended     ? f->solved[i].log_end[available][bucket]
                                    : -f->solved[i].end_per_s[available][bucket] * stretch_s;
    f->changed |= ended;
}

/* How much of what the price is beyond the usual one is thought to pass while the job can wait.
 * Below two changeovers of slack it cannot: spot would not be begun any more. */
static double reversion(const struct spotnik_dp_policy *f, const struct spotnik_job_view *view)
{
    double slack_s = view->time_left_s - view->work_left_s,
           waits_s = fmax(0, slack_s - 2 * f->terms.changeover_s);

    return REVERSION * (1 - exp(-waits_s / view->price_stays_s));
}

/* The programme knows one price. What spot costs now beyond the usual is paid for this step; later
 * ones are thought to be usual again, if the job can wait for that. So the job waits out what is
 * dear while waiting is cheap, and hurries where it is cheap. */
static void price_add(const struct spotnik_dp_policy *f, const struct spotnik_job_view *view,
                      unsigned from, double weight, double cost[SETS])
{
    double usual = fmin(view->price_usual / f->unit, f->terms.price_ratio),
           beyond = view->price / f->unit - usual, passes = reversion(f, view);

    for (unsigned to = 0; to < SETS; to++)
        if (to & SPOTNIK_SPOT)
            cost[to] += weight * passes * beyond * (to & ~from ? f->long_s : f->h_s) / 3600;
}

/* Under one hazard table; the first stretch may be of any age. */
static double hazard_cost(const struct spotnik_dp_policy *f, const struct solved *solved,
                          const struct spotnik_job_view *view, size_t phase, unsigned from,
                          unsigned to)
{
    double slack_s = view->time_left_s - view->work_left_s, total = 0;
    size_t youngest = phase_up(phase) ? BUCKETS : 0;

    if (f->changed || phase_up(phase) != view->available)
        return choice_cost(f, solved, view->work_left_s, slack_s, phase, from, to);
    for (size_t b = 0; b < BUCKETS; b++)
        total += solved->first_now[view->available][b]
                 * choice_cost(f, solved, view->work_left_s, slack_s, youngest + b, from, to);
    return total;
}

/* Expected cost of each set, under the belief. */
static void costs_make(const struct spotnik_dp_policy *f, const struct spotnik_job_view *view,
                       size_t phase, unsigned from, double cost[SETS])
{
    double highest = -INFINITY, total = 0;

    memset(cost, 0, SETS * sizeof(*cost));
    for (size_t i = 0; i < f->count; i++)
        highest = fmax(highest, f->belief[i]);
    for (size_t i = 0; i < f->count; i++) {
        double weight = exp(f->belief[i] - highest);
        if (weight < 1e-3)
            continue;
        for (unsigned to = 0; to < SETS; to++)
            cost[to] += weight * hazard_cost(f, &f->solved[i], view, phase, from, to);
        total += weight;
    }
    price_add(f, view, from, total, cost);
}

static bool holds_dear(const struct spotnik_job_view *view)
{
    return view->terms->worth > 0 && view->price > view->terms->worth
           && (view->own.held & SPOTNIK_SPOT);
}

/* With a warning, what would be chosen without spot is started now, and spot works on to its
 * end. */
static struct spotnik_choice dp_choose(void *self, const struct spotnik_job_view *view)
{
    const struct spotnik_dp_policy *f = self;
    bool losing = view->warned && (view->machine & SPOTNIK_SPOT) && f->terms.pair_speed > 0;
    bool dear = !losing && holds_dear(view);
    unsigned from = losing || dear ? view->machine & SPOTNIK_ON_DEMAND : view->machine,
             best = SPOTNIK_ON_DEMAND;
    unsigned stay = view->machine | view->starting;
    double cost[SETS];

    costs_make(f, view, losing ? phase_of(false, 0) : phase_of(view->available, view->run_age_s),
               from, cost);
    for (unsigned to = 0; to < SETS; to++)
        if (cost[to] < cost[best] - 1e-6)
            best = to;
    if (!losing && cost[stay] <= cost[best] + 1e-6)
        best = stay;
    if (losing)
        best |= SPOTNIK_SPOT;
    return (struct spotnik_choice){ (enum spotnik_machine)best, f->h_s, dear };
}

struct spotnik_policy spotnik_policy_dp(struct spotnik_dp_policy *dp)
{
    return (struct spotnik_policy){
        .name = "dp", .self = dp, .start = dp_start, .observe = dp_observe, .choose = dp_choose
    };
}
