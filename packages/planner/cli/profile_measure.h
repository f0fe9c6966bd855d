/* SPDX-License-Identifier: Apache-2.0 */
/* From runs of the user's job to a profile. */
#ifndef SPOTNIK_PLANNER_PROFILE_MEASURE_H
#define SPOTNIK_PLANNER_PROFILE_MEASURE_H

#include "plan/profile.h"

#define SPOTNIK_GRID_MAX 11

struct spotnik_profile_order {
    char *const *command;
    const char *device, *name;
    double workers[SPOTNIK_GRID_MAX], batches[SPOTNIK_GRID_MAX]; /* ascending */
    size_t worker_count, batch_count;
    double seconds, samples_per_epoch;
    unsigned
        /* rounds of the whole grid; medians count, and their spread is the profile's error */
        rounds;
};

#define SPOTNIK_ROUNDS_MAX 9

/* Runs the job with every number of workers and every batch, and that some rounds; what each run
 * showed goes to stderr, and so does a warning when the host was busy with something else. */
int spotnik_profile_measure(const struct spotnik_profile_order *order,
                            struct spotnik_profile *profile_out, struct spotnik_fault *fault);

#endif
