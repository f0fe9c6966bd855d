/* SPDX-License-Identifier: Apache-2.0 */
/* Saves and slots by the age of the machine. See bag_pace.h. */
#include "bag/bag_pace.h"

#include <math.h>
#include <stdlib.h>

#include "common/model_interval.h"

#define TICKS 120 /* of a job in the programme: some 10 ms to solve */
#define FINE 4    /* ticks in an interval, at least */
#define AGES 48   /* at which the risk of a machine of random age is taken */
#define AGE_MAX_S (24 * 3600.0)

double bag_life_lost_by(const void *context, double age_s)
{
    const struct bag_life *life = context;
    if (life->cap_s > 0 && age_s >= life->cap_s)
        return 1;
    switch (life->kind) {
    case BAG_LIFE_CURVE:
        return spotnik_survival_lost(&life->curve, age_s, NULL);
    case BAG_LIFE_BATHTUB:
        return spotnik_bathtub_lost(&life->bathtub, age_s);
    case BAG_LIFE_MTTF:
        return -expm1(-age_s / life->mttf_s);
    case BAG_LIFE_NONE:
        break;
    }
    return 0;
}

/* An old machine is as good as a new one; its age would only cost digits. */
static bool is_ageless(const struct bag_life *life)
{
    return life->kind == BAG_LIFE_MTTF && life->cap_s <= 0;
}

double bag_life_risk(const struct bag_life *life, double age_s, double span_s)
{
    double before = bag_life_lost_by(life, age_s);
    if (is_ageless(life))
        return bag_life_lost_by(life, span_s);
    if (before >= 1)
        return 1;
    return (bag_life_lost_by(life, age_s + span_s) - before) / (1 - before);
}

static int solve(const struct bag_life *life, const struct spotnik_interval_terms *terms,
                 double *ret_work_s, double *ret_expected_s, struct spotnik_fault *fault)
{
    struct spotnik_interval_terms all = *terms;
    all.start_age_s = is_ageless(life) ? 0 : terms->start_age_s;
    all.lost_by = bag_life_lost_by;
    all.context = life;
    all.conditional = all.exact_loss = all.replaced_by_fresh = true;
    struct spotnik_interval_plan *plan = malloc(sizeof *plan);
    int rc = plan != NULL ? spotnik_interval_programme(&all, plan, fault)
                          : spotnik_fault_set(fault, "no memory");
    if (rc == 0) {
        *ret_work_s = plan->interval_s[0];
        *ret_expected_s = plan->expected_s;
    }
    free(plan);
    return rc;
}

/* Young's interval for the rate of losses within the next `span_s`; 0: nobody is lost, or all. */
static double young_s(const struct bag_life *life, double age_s, double write_s, double span_s)
{
    double risk = bag_life_risk(life, age_s, span_s);
    return risk > 0 && risk < 1 ? sqrt(2 * write_s * span_s / -log1p(-risk)) : 0;
}

/* The ticks of a long job are longer than its first interval should be. Then that is found anew
 * with short ones, for as much of the rest as these reach: what comes later hardly counts. */
int bag_pace_next(const struct bag_life *life, double rest_s, double age_s, double write_s,
                  double restart_s, double *ret_work_s, double *ret_expected_s,
                  struct spotnik_fault *fault)
{
    double tick_s = fmax(rest_s / TICKS, write_s / 50), reach_s;
    struct spotnik_interval_terms terms = { .job_s = fmax(rest_s, tick_s),
                                            .write_s = write_s,
                                            .restart_s = restart_s,
                                            .start_age_s = age_s,
                                            .tick_s = tick_s };
    int rc = solve(life, &terms, ret_work_s, ret_expected_s, fault);
    if (rc != 0)
        return rc;
    double fine_s = fmax(young_s(life, age_s, write_s, *ret_work_s + write_s) / FINE, write_s / 50);
    if (fine_s >= tick_s || *ret_work_s > FINE * tick_s)
        return 0;
    terms.tick_s = fine_s;
    terms.job_s = fmin(rest_s, TICKS * fine_s);
    return solve(life, &terms, ret_work_s, &reach_s, fault);
}

/* Over the ages that machines have: those that are alive count. */
static double risk_mean(const struct bag_life *life, double span_s)
{
    double last_s = life->cap_s > 0 ? life->cap_s : AGE_MAX_S, risk = 0, weight = 0;
    for (int i = 0; i < AGES; i++) {
        double age_s = last_s * (i + 0.5) / AGES, alive = 1 - bag_life_lost_by(life, age_s);
        risk += alive * bag_life_risk(life, age_s, span_s);
        weight += alive;
    }
    return weight > 0 ? risk / weight : 1;
}

size_t bag_slot_choose(const struct bag_life *life, double age_s, const double *length_s,
                       size_t count)
{
    size_t longest = count, shortest = 0;
    double known_s = -1;
    bool fits = false;
    for (size_t i = 0; i < count; i++) {
        shortest = length_s[i] < length_s[shortest] ? i : shortest;
        if (longest < count && length_s[i] <= length_s[longest])
            continue;
        if (length_s[i] != known_s) { /* jobs of one length come together */
            known_s = length_s[i];
            fits = bag_life_risk(life, age_s, known_s) <= risk_mean(life, known_s) * (1 + 1e-9);
        }
        longest = fits ? i : longest;
    }
    return longest < count ? longest : shortest;
}
