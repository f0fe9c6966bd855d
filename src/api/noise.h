/* SPDX-License-Identifier: Apache-2.0 */
/* The gradient noise of a running job. Every N steps the estimators of src/adapt/noise.h take
 * squared norms: of each member's own gradient (step_stats.h carries them), and of the averaged
 * one. People read them; nothing here decides by them. Everything belongs to the caller's thread.
 *
 * A gradient is what goes into MEAN of a floating type, in the buckets before those that strategies
 * use. */
#ifndef SPOTNIK_API_NOISE_H
#define SPOTNIK_API_NOISE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adapt/noise.h"
#include "spotnik/spotnik.h"

#define SPOTNIK_NOISE_BUCKETS 230

struct spotnik_noise_watch {
    struct spotnik_noise noise;
    uint64_t steps; /* estimates have been made of */
    /* measured every N steps, so that it costs at most 1 %; 0: not known yet */
    uint32_t every;
    bool measuring; /* the begun step */
    uint64_t bytes; /* of gradients in the begun step */
    double norm2;   /* of ours in it */
    bool used[SPOTNIK_NOISE_BUCKETS];
};

struct spotnik_job;

/* With the config's `noise`. Errors: MEMORY. */
int spotnik_noise_open(struct spotnik_job *job);

/* step.c: a step was begun; a bucket was started in it; it is about to be sealed; it was
 * committed. */
void spotnik_noise_begin(struct spotnik_job *job);
void spotnik_noise_reduce(struct spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                          enum spotnik_dtype dtype, enum spotnik_op op);
void spotnik_noise_seal(struct spotnik_job *job);
void spotnik_noise_committed(struct spotnik_job *job);

/* The noise is measured in one of so many steps: its two passes over the gradients then cost 1 % at
 * most. Powers of two let members with unequal intervals still share some steps. */
uint32_t spotnik_noise_interval(uint64_t bytes, double step_s);

#endif
