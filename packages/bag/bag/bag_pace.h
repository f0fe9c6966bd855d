/* SPDX-License-Identifier: Apache-2.0 */
/* What the age of a machine means for a bag: when to save, and which job to take. The models are
 * the planner's (common/model_lifetime.h, common/model_interval.h). Times are seconds. */
#ifndef BAG_PACE_H
#define BAG_PACE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/fault.h"
#include "common/model_lifetime.h"

/* How long machines of this kind live. */
struct bag_life {
    enum { BAG_LIFE_NONE, BAG_LIFE_CURVE, BAG_LIFE_BATHTUB, BAG_LIFE_MTTF } kind;
    struct spotnik_survival curve;
    struct spotnik_bathtub bathtub;
    double mttf_s;
    double cap_s; /* nobody lives longer; 0: no such age */
};

/* Share of machines lost by this age. `life` is a struct bag_life. */
double bag_life_lost_by(const void *life, double age_s);

/* Chance that a machine of this age is lost within the next `span_s`. */
double bag_life_risk(const struct bag_life *life, double age_s, double span_s);

/* Of a job with `rest_s` of work left, on a machine of age `age_s`: how much to work before the
 * next save, and what the rest is expected to take in all, losses included. -1: the programme
 * cannot be solved. */
int bag_pace_next(const struct bag_life *life, double rest_s, double age_s, double write_s,
                  double restart_s, double *ret_work_s, double *ret_expected_s,
                  struct spotnik_fault *fault);

/* Which of `count` jobs to take on a machine of this age: the longest whose risk is no higher than
 * on a machine of random age, the first of equals; where there is none, the shortest. count > 0. */
size_t bag_slot_choose(const struct bag_life *life, double age_s, const double *length_s,
                       size_t count);

#endif
