/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier jobs of a history saved against Uniform Progress, which a bounded policy may spend.
 * Jobs that overlap in time do not know of each other: each begins with what those saved that
 * follow one after another and end before it. */
#ifndef SPOTNIK_RESEARCH_CARRYOVER_H
#define SPOTNIK_RESEARCH_CARRYOVER_H

#include "regret_bound.h"

#include <stddef.h>

struct spotnik_carryover {
    struct spotnik_regret_bound *bound;
    size_t count;
    double *saved;
};

/* For jobs of `length_s` that begin every `stride_s`; 0: one after another. */
int spotnik_carryover_open(struct spotnik_carryover *carryover, struct spotnik_regret_bound *bound,
                           double length_s, double stride_s, struct spotnik_fault *fault);
/* Before job `i`, and after it. */
void spotnik_carryover_take(const struct spotnik_carryover *carryover, size_t i);
void spotnik_carryover_put(struct spotnik_carryover *carryover, size_t i,
                           const struct spotnik_job_result *result, double price_ratio);
void spotnik_carryover_close(struct spotnik_carryover *carryover);

#endif
