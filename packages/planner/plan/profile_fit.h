/* SPDX-License-Identifier: Apache-2.0 */
/* From measured steps on one host to the numbers of a profile: a worker's time for its share of the
 * batch, what workers of one host slow each other down, and how long they wait for each other. */
#ifndef SPOTNIK_PLAN_PROFILE_FIT_H
#define SPOTNIK_PLAN_PROFILE_FIT_H

#include "plan/profile.h"

/* One measured step: `workers` on one host, `batch` over all of them. */
struct spotnik_step_point {
    double workers, batch;
    double compute_s, wait_s; /* of one worker: its own work; waiting for the others */
};

/* Sets fixed_s, sample_s and contention of the device. Points with the fewest workers come
 * first. */
void spotnik_profile_fit_device(const struct spotnik_step_point *points, size_t count,
                                struct spotnik_device *device_out);
/* Sets skew_s and, where the waits of two numbers of workers tell it, or are shorter than memory
 * allows, host_bytes_per_s. Points of one worker do not count. */
void spotnik_profile_fit_waits(const struct spotnik_step_point *points, size_t count,
                               struct spotnik_profile *profile);

#endif
