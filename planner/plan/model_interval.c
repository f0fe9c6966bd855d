/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint intervals. Pure but for the table that the programme allocates. */
#include "plan/model_interval.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

double spotnik_interval_young_s(double write_s, double mttf_s)
{
    return sqrt(2 * write_s * mttf_s);
}

double spotnik_interval_daly_s(double write_s, double mttf_s)
{
    double ratio = write_s / (2 * mttf_s);

    if (write_s >= 2 * mttf_s)
        return mttf_s;
    return sqrt(2 * write_s * mttf_s) * (1 + sqrt(ratio) / 3 + ratio / 9) - write_s;
}

double spotnik_interval_available_s(double write_s, double mttf_s, double recover_s)
{
    return write_s + sqrt(2 * (mttf_s + recover_s) * write_s + write_s * write_s);
}

double spotnik_interval_waste(double interval_s, double write_s, double mttf_s, double recover_s)
{
    return write_s / interval_s + interval_s / (2 * mttf_s) + recover_s / mttf_s;
}

struct programme {
    const struct spotnik_interval_terms *terms;
    size_t jobs, ages, write; /* in ticks */
    double *lost, *moment;    /* F and the integral of t dF, per age tick */
    float *cost;              /* M(J, t) in ticks */
    uint16_t *first;          /* the interval that attains it */
};

static void programme_free(struct programme *p)
{
    free(p->lost);
    free(p->moment);
    free(p->cost);
    free(p->first);
}

static int programme_make(struct programme *p, const struct spotnik_interval_terms *terms)
{
    p->terms = terms;
    p->jobs = (size_t)lround(terms->job_s / terms->tick_s);
    p->write = (size_t)lround(terms->write_s / terms->tick_s);
    p->ages = p->jobs * (1 + p->write) + 2;
    p->lost = calloc(p->ages, sizeof(*p->lost));
    p->moment = calloc(p->ages, sizeof(*p->moment));
    p->cost = calloc((p->jobs + 1) * p->ages, sizeof(*p->cost));
    p->first = calloc((p->jobs + 1) * p->ages, sizeof(*p->first));
    if (!p->lost || !p->moment || !p->cost || !p->first)
        return -1;
    for (size_t t = 0; t < p->ages; t++) {
        p->lost[t] = terms->lost_by(terms->context, terms->start_age_s + (double)t * terms->tick_s);
        if (t)
            p->moment[t] = p->moment[t - 1] + ((double)t - 0.5) * (p->lost[t] - p->lost[t - 1]);
    }
    return 0;
}

/* Expected ticks when the next checkpoint comes after `i` ticks of work; the cost of starting over is left
 * out and its probability is returned. */
static double try_interval(const struct programme *p, size_t job, size_t age, size_t i, double *fail_out)
{
    size_t end = age + i + p->write;
    double window = (double)(i + p->write), fail = p->lost[end] - p->lost[age], lost = window / 2;

    if (p->terms->exact_loss && fail > 0)
        lost = (p->moment[end] - p->moment[age]) / fail - (double)age;
    if (p->terms->conditional)
        fail = p->lost[age] < 1 ? fail / (1 - p->lost[age]) : 1;
    fail = fmin(fmax(fail, 0), 1);
    *fail_out = fail;
    return (1 - fail) * (window + (double)p->cost[(job - i) * p->ages + end])
           + fail * (lost + p->terms->restart_s / p->terms->tick_s);
}

static void solve_state(struct programme *p, size_t job, size_t age)
{
    double best = INFINITY, fresh = (double)p->cost[job * p->ages];
    size_t best_i = job;

    for (size_t i = 1; i <= job; i++) {
        double fail, cost = try_interval(p, job, age, i, &fail);
        cost = age ? cost + fail * fresh : cost / (1 - fmin(fail, 1 - 1e-9));
        if (cost < best) {
            best = cost;
            best_i = i;
        }
    }
    p->cost[job * p->ages + age] = (float)best;
    p->first[job * p->ages + age] = (uint16_t)best_i;
}

static void read_plan(const struct programme *p, struct spotnik_interval_plan *plan)
{
    size_t age = 0;

    plan->count = 0;
    plan->expected_s = (double)p->cost[p->jobs * p->ages] * p->terms->tick_s;
    for (size_t job = p->jobs; job && plan->count < SPOTNIK_INTERVALS_MAX;) {
        size_t i = p->first[job * p->ages + age];
        plan->interval_s[plan->count++] = (double)i * p->terms->tick_s;
        job -= i;
        age += i + p->write;
    }
}

int spotnik_interval_programme(const struct spotnik_interval_terms *terms,
                               struct spotnik_interval_plan *plan_out, struct spotnik_fault *fault)
{
    struct programme p = { 0 };

    if (!(terms->tick_s > 0) || !(terms->job_s >= terms->tick_s) || terms->write_s < 0)
        return spotnik_fault_set(
            fault, "the job must be at least one tick (%g s) long and a checkpoint not negative",
            terms->tick_s);
    if (terms->job_s / terms->tick_s > SPOTNIK_INTERVAL_TICKS_MAX)
        return spotnik_fault_set(fault, "the job is longer than %d ticks; use a tick of at least %.0f s",
                                 SPOTNIK_INTERVAL_TICKS_MAX, ceil(terms->job_s / SPOTNIK_INTERVAL_TICKS_MAX));
    if (terms->write_s / terms->tick_s > 60)
        return spotnik_fault_set(fault, "a checkpoint takes more than 60 ticks; use a larger tick");
    if (programme_make(&p, terms)) {
        programme_free(&p);
        return spotnik_fault_set(fault, "out of memory for the programme's table; use a larger tick");
    }
    for (size_t job = 1; job <= p.jobs; job++)
        for (size_t age = 0; age <= (p.jobs - job) * (1 + p.write); age++)
            solve_state(&p, job, age);
    read_plan(&p, plan_out);
    programme_free(&p);
    return 0;
}
