/* SPDX-License-Identifier: Apache-2.0 */
/* How often to write checkpoints on machines whose loss is likelier at some ages than at others:
 * the dynamic programme of "Temporally constrained preemptions" (Kadupitiya et al., HPDC'20). */
#ifndef SPOTNIK_COMMON_MODEL_INTERVAL_H
#define SPOTNIK_COMMON_MODEL_INTERVAL_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>

/* Probability that a machine is lost by age t. */
typedef double (*spotnik_lost_by)(const void *context, double age_s);

struct spotnik_interval_terms {
    double job_s, write_s, restart_s, start_age_s, tick_s;
    spotnik_lost_by lost_by;
    const void *context;
    bool conditional; /* P(loss) given survival so far (right) or not (the authors' code) */
    /* expected work lost from the curve (right) or half the interval (the authors' code) */
    bool exact_loss;
    /* the job begins on a machine of start_age_s, but one that replaces it is new; else of that
     * age, too */
    bool replaced_by_fresh;
};

#define SPOTNIK_INTERVALS_MAX 4096
#define SPOTNIK_INTERVAL_TICKS_MAX 3000

struct spotnik_interval_plan {
    double interval_s[SPOTNIK_INTERVALS_MAX];
    size_t count;
    double expected_s;
};

/* M(J, t) = min over i of P_ok (i + delta + M(J-i, t+i+delta)) + P_fail (E[lost] + restart + M(J,
 * 0)): the work of a job in ticks, a lost machine replaced by a fresh one. The printed equations
 * have a wrong P_fail and let a failed job stay on the old machine's clock; this is what the
 * authors' released simulator does. */
int spotnik_interval_programme(const struct spotnik_interval_terms *terms,
                               struct spotnik_interval_plan *plan_out, struct spotnik_fault *fault);

#endif
