/* SPDX-License-Identifier: Apache-2.0 */
/* The programme. Work left C and slack S = time left - C are on a grid of step h; availability is a chain
 * of phases, one per age bucket for up and for down (a Coxian clock: a phase either ends the stretch or
 * ages into the next). Per step a machine that is running works h and keeps S; idling costs S; a
 * changeover of d costs S by d. Work, money and time only ever fall, so one sweep over (C, S) solves it
 * exactly on the grid. The deadline is not weighed against money here: states from which it could be
 * missed have no idle or spot choice. */
#include "plan/foresight.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS SPOTNIK_CLIMATE_BUCKETS
#define PHASES (2 * BUCKETS) /* down ages first, then up ages */
#define STEPS_PER_DEADLINE 300
#define MACHINES 3

/* Where one phase goes to, without the phases that it cannot reach. */
struct row {
    size_t count, phase[PHASES];
    double share[PHASES];
};

struct solved {
    float *value; /* [C][S][phase][machine] */
    struct row step[PHASES], long_step[PHASES];
    double log_end[2][BUCKETS], end_per_s[2][BUCKETS];
};

struct spotnik_foresight {
    struct spotnik_job_terms terms;
    struct solved *solved;
    double *belief; /* log weights */
    size_t count, work_cells, slack_cells;
    double h_s, long_s; /* grid step; the step in which a changeover is paid */
};

static bool phase_up(size_t phase)
{
    return phase >= BUCKETS;
}

static size_t phase_of(bool available, double age_s)
{
    return (available ? BUCKETS : 0) + spotnik_climate_bucket(age_s);
}

/* One step of length h of the chain. */
static void chain_make(const struct spotnik_climate *climate, double h_s, double chain[PHASES][PHASES])
{
    memset(chain, 0, sizeof(double) * PHASES * PHASES);
    for (size_t phase = 0; phase < PHASES; phase++) {
        size_t bucket = phase % BUCKETS;
        bool up = phase_up(phase), last = bucket == BUCKETS - 1;
        double before_h = bucket ? spotnik_climate_age_h[bucket - 1] : 0;
        double width_s = last ? INFINITY : 3600 * (spotnik_climate_age_h[bucket] - before_h);
        double end = 1 - exp(-climate->end_per_h[up][bucket] * h_s / 3600);
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

static float *cell(const struct spotnik_foresight *f, const struct solved *solved, size_t c, size_t s)
{
    return solved->value + (c * f->slack_cells + s) * PHASES * MACHINES;
}

/* Expected cost to go at (work, slack), bilinear between cells, after the step that `row` is: for a job
 * that is on `machine` if there is spot then, and on `without` if there is none. */
static double ahead(const struct spotnik_foresight *f, const struct solved *solved, double work_s,
                    double slack_s, const struct row *row, enum spotnik_machine machine,
                    enum spotnik_machine without)
{
    double c = fmin(fmax(work_s / f->h_s, 0), (double)f->work_cells - 1);
    double s = fmin(fmax(slack_s / f->h_s, 0), (double)f->slack_cells - 1);
    size_t c0 = (size_t)c, s0 = (size_t)s;
    double cf = c - (double)c0, sf = s - (double)s0, total = 0;

    for (int corner = 0; corner < 4; corner++) {
        double weight = (corner & 1 ? cf : 1 - cf) * (corner & 2 ? sf : 1 - sf);
        if (weight <= 1e-9)
            continue;
        const float *values = cell(f, solved, c0 + (corner & 1), s0 + (corner >> 1));
        double sum = 0;
        for (size_t i = 0; i < row->count; i++)
            sum += row->share[i]
                   * (double)values[row->phase[i] * MACHINES + (phase_up(row->phase[i]) ? machine : without)];
        total += weight * sum;
    }
    return total;
}

/* On-demand works on while spot starts: both are paid for one long step; if spot is lost meanwhile nothing
 * is. */
static double overlap_cost(const struct spotnik_foresight *f, const struct solved *solved, double work_s,
                           double slack_s, size_t phase)
{
    double run_s = fmin(f->long_s, work_s);

    if (slack_s < f->terms.changeover_s - 1)
        return INFINITY;
    return (f->terms.price_ratio + 1) * run_s / 3600
           + ahead(f, solved, work_s - f->long_s, slack_s, &solved->long_step[phase], SPOTNIK_SPOT,
                   SPOTNIK_ON_DEMAND);
}

/* Cost (spot-hours) of choosing `to` now and acting optimally afterwards; infinite when the rules forbid
 * it. */
static double choice_cost(const struct spotnik_foresight *f, const struct solved *solved, double work_s,
                          double slack_s, size_t phase, enum spotnik_machine from, enum spotnik_machine to)
{
    enum spotnik_machine without = to == SPOTNIK_SPOT ? SPOTNIK_IDLE : to;
    double d_s = f->terms.changeover_s,
           price = to == SPOTNIK_ON_DEMAND ? f->terms.price_ratio : to == SPOTNIK_SPOT;

    if (to == SPOTNIK_SPOT && !phase_up(phase))
        return INFINITY;
    if (f->terms.overlap && from == SPOTNIK_ON_DEMAND && to == SPOTNIK_SPOT)
        return overlap_cost(f, solved, work_s, slack_s, phase);
    if (to != SPOTNIK_ON_DEMAND && from != SPOTNIK_SPOT && slack_s < 2 * d_s - 1)
        return INFINITY;
    if (to == SPOTNIK_IDLE)
        return slack_s - f->h_s < d_s
                   ? INFINITY
                   : ahead(f, solved, work_s, slack_s - f->h_s, &solved->step[phase], to, without);
    if (to == from) {
        double run_s = fmin(f->h_s, work_s);
        return price * run_s / 3600
               + ahead(f, solved, work_s - f->h_s, slack_s, &solved->step[phase], to, without);
    }
    double run_s = fmin(f->long_s, d_s + work_s);
    return price * run_s / 3600
           + ahead(f, solved, work_s - (f->long_s - d_s), slack_s - d_s, &solved->long_step[phase], to,
                   without);
}

static void solve_cell(const struct spotnik_foresight *f, struct solved *solved, size_t c, size_t s)
{
    float *values = cell(f, solved, c, s);
    double work_s = (double)c * f->h_s, slack_s = (double)s * f->h_s, cost[MACHINES][MACHINES];
    bool guarded = slack_s < 2 * f->terms.changeover_s;

    for (size_t phase = 0; phase < PHASES; phase++) {
        for (int from = 0; from < MACHINES; from++) {
            double best = INFINITY;
            for (int to = 0; to < MACHINES; to++) {
                /* a move costs the same wherever it comes from, but for guards and overlap */
                bool same = from != SPOTNIK_IDLE && from != to && !guarded
                            && !(f->terms.overlap && from == SPOTNIK_ON_DEMAND);
                cost[from][to] = same && to != SPOTNIK_IDLE
                                     ? cost[SPOTNIK_IDLE][to]
                                     : choice_cost(f, solved, work_s, slack_s, phase, from, to);
                best = fmin(best, cost[from][to]);
            }
            values[phase * MACHINES + from] = (float)best;
        }
    }
}

/* Slack below two changeovers leaves only on-demand to an idle job; the sweep starts from there. */
static void solve(const struct spotnik_foresight *f, struct solved *solved,
                  const struct spotnik_climate *climate)
{
    double step[PHASES][PHASES], long_step[PHASES][PHASES];

    chain_make(climate, f->h_s, step);
    chain_power(step, (unsigned)fmax(1, round(f->long_s / f->h_s)), long_step);
    rows_make(step, solved->step);
    rows_make(long_step, solved->long_step);
    for (int up = 0; up < 2; up++) {
        for (size_t b = 0; b < BUCKETS; b++) {
            solved->end_per_s[up][b] = climate->end_per_h[up][b] / 3600;
            solved->log_end[up][b] = log(climate->end_per_h[up][b]);
        }
    }
    memset(cell(f, solved, 0, 0), 0, f->slack_cells * PHASES * MACHINES * sizeof(float));
    for (size_t c = 1; c < f->work_cells; c++)
        for (size_t s = 0; s < f->slack_cells; s++)
            solve_cell(f, solved, c, s);
}

/* A climate that nobody has seen yet: spot machines that last half as long. Learned from few places, a
 * belief needs room for worse ones; leave-one-trace-out on the training traces gains by it. */
static struct spotnik_climate rougher(const struct spotnik_climate *climate)
{
    struct spotnik_climate rough = *climate;

    for (size_t b = 0; b < BUCKETS; b++)
        rough.end_per_h[1][b] *= 2;
    return rough;
}

int spotnik_foresight_new(const struct spotnik_job_terms *terms, const struct spotnik_climate *climates,
                          size_t count, struct spotnik_foresight **foresight_out, struct spotnik_fault *fault)
{
    struct spotnik_foresight *f = calloc(1, sizeof(*f));
    double base_s = terms->deadline_s / STEPS_PER_DEADLINE;

    if (!f)
        return spotnik_fault_set(fault, "out of memory");
    f->terms = *terms;
    f->count = 2 * count;
    f->h_s = terms->changeover_s >= base_s ? terms->changeover_s / ceil(terms->changeover_s / base_s - 1e-9)
                                           : base_s;
    f->long_s = fmax(f->h_s, terms->changeover_s);
    f->work_cells = (size_t)ceil(terms->work_s / f->h_s) + 2;
    f->slack_cells = (size_t)ceil((terms->deadline_s - terms->work_s) / f->h_s) + 2;
    f->solved = calloc(f->count, sizeof(*f->solved));
    f->belief = calloc(f->count, sizeof(*f->belief));
    bool whole = f->solved && f->belief;
    for (size_t i = 0; whole && i < f->count; i++) {
        struct spotnik_climate climate = i < count ? climates[i] : rougher(&climates[i - count]);
        f->solved[i].value = malloc(f->work_cells * f->slack_cells * PHASES * MACHINES * sizeof(float));
        whole = f->solved[i].value != NULL;
        if (whole)
            solve(f, &f->solved[i], &climate);
    }
    if (!whole) {
        spotnik_foresight_free(f);
        return spotnik_fault_set(fault, "out of memory for the policy's tables");
    }
    *foresight_out = f;
    return 0;
}

void spotnik_foresight_free(struct spotnik_foresight *f)
{
    if (!f)
        return;
    for (size_t i = 0; f->solved && i < f->count; i++)
        free(f->solved[i].value);
    free(f->solved);
    free(f->belief);
    free(f);
}

static void foresight_start(void *self)
{
    struct spotnik_foresight *f = self;

    memset(f->belief, 0, f->count * sizeof(*f->belief));
}

static void foresight_observe(void *self, bool available, double age_s, double stretch_s, bool ended)
{
    struct spotnik_foresight *f = self;
    size_t bucket = spotnik_climate_bucket(age_s);

    for (size_t i = 0; i < f->count; i++)
        f->belief[i] += ended ? f->solved[i].log_end[available][bucket]
                              : -f->solved[i].end_per_s[available][bucket] * stretch_s;
}

static struct spotnik_choice foresight_choose(void *self, const struct spotnik_job_view *view)
{
    const struct spotnik_foresight *f = self;
    double cost[MACHINES] = { 0 }, highest = -INFINITY, slack_s = view->time_left_s - view->work_left_s;
    size_t phase = phase_of(view->available, view->run_age_s);
    int best = SPOTNIK_ON_DEMAND;

    for (size_t i = 0; i < f->count; i++)
        highest = fmax(highest, f->belief[i]);
    for (size_t i = 0; i < f->count; i++) {
        double weight = exp(f->belief[i] - highest);
        if (weight < 1e-3)
            continue;
        for (int to = 0; to < MACHINES; to++)
            cost[to] += weight
                        * choice_cost(f, &f->solved[i], view->work_left_s, slack_s, phase, view->machine,
                                      (enum spotnik_machine)to);
    }
    for (int to = 0; to < MACHINES; to++)
        if (cost[to] < cost[best] - 1e-6)
            best = to;
    int stay = view->joining ? SPOTNIK_SPOT : (int)view->machine;
    if (cost[stay] <= cost[best] + 1e-6)
        best = stay;
    return (struct spotnik_choice){ (enum spotnik_machine)best, f->h_s };
}

struct spotnik_policy spotnik_policy_foresight(struct spotnik_foresight *foresight)
{
    return (struct spotnik_policy){ .name = "foresight",
                                    .self = foresight,
                                    .start = foresight_start,
                                    .observe = foresight_observe,
                                    .choose = foresight_choose };
}
