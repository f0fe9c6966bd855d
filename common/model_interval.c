/* SPDX-License-Identifier: Apache-2.0 */
/* Checkpoint intervals. Pure but for the table that the programme allocates. */
#include "common/model_interval.h"

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

struct programme {
    const struct spotnik_interval_terms *terms;
    size_t jobs, ages, write; /* in ticks */
    /* a checkpoint in ticks: less than half a tick makes a machine no older, and costs all the
     * same */
    double pause;
    const float *fresh;    /* M(J, 0) on a new machine; NULL: that of this table */
    double *lost, *moment; /* F and the integral of t dF, per age tick */
    float *cost;           /* M(J, t) in ticks */
    uint16_t *first;       /* the interval that attains it */
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
    p->pause = terms->write_s / terms->tick_s;
    p->write = (size_t)lround(p->pause);
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

/* Expected ticks when the next checkpoint comes after `i` ticks of work; the cost of starting over
 * is left out and its probability is returned. */
static double try_interval(const struct programme *p, size_t job, size_t age, size_t i,
                           double *fail_out)
{
    size_t end = age + i + p->write;
    double window = (double)i + p->pause, fail = p->lost[end] - p->lost[age], lost = window / 2;

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
    double best = INFINITY,
           fresh = p->fresh ? (double)p->fresh[job] : (double)p->cost[job * p->ages];
    size_t best_i = job;

    for (size_t i = 1; i <= job; i++) {
        double fail, cost = try_interval(p, job, age, i, &fail);
        cost = age || p->fresh ? cost + fail * fresh : cost / (1 - fmin(fail, 1 - 1e-9));
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

static int solve(struct programme *p, const struct spotnik_interval_terms *terms,
                 const float *fresh, struct spotnik_interval_plan *plan_out,
                 struct spotnik_fault *fault)
{
    if (programme_make(p, terms))
        return spotnik_fault_set(fault,
                                 "out of memory for the programme's table; use a larger tick");
    p->fresh = fresh;
    for (size_t job = 1; job <= p->jobs; job++)
        for (size_t age = 0; age <= (p->jobs - job) * (1 + p->write); age++)
            solve_state(p, job, age);
    read_plan(p, plan_out);
    return 0;
}

/* M(J, 0) of a new machine for every J. The caller frees it; NULL: no memory, or a fault. */
static float *solve_fresh(const struct spotnik_interval_terms *terms,
                          struct spotnik_interval_plan *plan, struct spotnik_fault *fault)
{
    struct spotnik_interval_terms new = *terms;
    struct programme p = { 0 };
    float *fresh = NULL;

    new.start_age_s = 0;
    if (!solve(&p, &new, NULL, plan, fault))
        fresh = calloc(p.jobs + 1, sizeof(*fresh));
    for (size_t job = 0; fresh && job <= p.jobs; job++)
        fresh[job] = p.cost[job * p.ages];
    programme_free(&p);
    return fresh;
}

int spotnik_interval_programme(const struct spotnik_interval_terms *terms,
                               struct spotnik_interval_plan *plan_out, struct spotnik_fault *fault)
{
    struct programme p = { 0 };
    float *fresh = NULL;

    if (!(terms->tick_s > 0) || !(terms->job_s >= terms->tick_s) || terms->write_s < 0)
        return spotnik_fault_set(
            fault, "the job must be at least one tick (%g s) long and a checkpoint not negative",
            terms->tick_s);
    if (terms->job_s / terms->tick_s > SPOTNIK_INTERVAL_TICKS_MAX)
        return spotnik_fault_set(fault,
                                 "the job is longer than %d ticks; use a tick of at least %.0f s",
                                 SPOTNIK_INTERVAL_TICKS_MAX,
                                 ceil(terms->job_s / SPOTNIK_INTERVAL_TICKS_MAX));
    if (terms->write_s / terms->tick_s > 60)
        return spotnik_fault_set(fault, "a checkpoint takes more than 60 ticks; use a larger tick");
    if (terms->replaced_by_fresh && terms->start_age_s > 0
        && !(fresh = solve_fresh(terms, plan_out, fault)))
        return -1;
    int rc = solve(&p, terms, fresh, plan_out, fault);
    programme_free(&p);
    free(fresh);
    return rc;
}
