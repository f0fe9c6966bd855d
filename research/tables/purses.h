/* SPDX-License-Identifier: Apache-2.0 */
/* What earlier jobs of a history saved against Uniform Progress, which a guarded policy may spend.
 * Jobs that overlap in time do not know of each other: each begins with what those saved that
 * follow one after another and end before it. */
#ifndef SPOTNIK_RESEARCH_PURSES_H
#define SPOTNIK_RESEARCH_PURSES_H

#include "guard.h"

#include <stddef.h>

struct spotnik_purses {
    struct spotnik_guard *guard;
    size_t count;
    double *saved;
};

/* For jobs of `length_s` that begin every `stride_s`; 0: one after another. */
int spotnik_purses_open(struct spotnik_purses *purses, struct spotnik_guard *guard, double length_s,
                        double stride_s, struct spotnik_fault *fault);
/* Before job `i`, and after it. */
void spotnik_purses_take(const struct spotnik_purses *purses, size_t i);
void spotnik_purses_put(struct spotnik_purses *purses, size_t i,
                        const struct spotnik_job_result *result, double price_ratio);
void spotnik_purses_close(struct spotnik_purses *purses);

#endif
