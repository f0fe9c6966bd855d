/* SPDX-License-Identifier: Apache-2.0 */
/* How often to write checkpoints on machines whose loss is likelier at some ages than at others:
 * the dynamic programme of "Temporally constrained preemptions" (Kadupitiya et al., HPDC'20). */
#ifndef SPOTNIK_COMMON_MODEL_INTERVAL_H
#define SPOTNIK_COMMON_MODEL_INTERVAL_H

#include "common/fault.h"

#include <stddef.h>

/* Probability that a machine is lost by age t. */
typedef double (*spotnik_lost_by)(const void *context, double age_s);

/* The job begins on a machine of start_age_s; one that replaces it is new. */
struct spotnik_interval_terms {
    double job_s, write_s, restart_s, start_age_s, tick_s;
    spotnik_lost_by lost_by;
    const void *context;
};

#define SPOTNIK_INTERVALS_MAX 4096
#define SPOTNIK_INTERVAL_TICKS_MAX 3000

struct spotnik_interval_plan {
    double interval_s[SPOTNIK_INTERVALS_MAX];
    size_t count;
    double expected_s;
};

/* M(J, t) = min over i of P_ok (i + delta + M(J-i, t+i+delta)) + P_fail (E[lost] + restart + M(J,
 * 0)): the work of a job in ticks, a lost machine replaced by a fresh one. P_fail is that of a
 * machine that has lived so far. The printed equations have another, and let a failed job stay on
 * the old machine's clock. */
int spotnik_interval_programme(const struct spotnik_interval_terms *terms,
                               struct spotnik_interval_plan *plan_out, struct spotnik_fault *fault);

#endif
