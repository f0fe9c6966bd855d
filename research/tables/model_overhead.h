/* SPDX-License-Identifier: Apache-2.0 */
/* The times around training: writing a checkpoint, starting a machine, replacing a worker, and what
 * is left to do after a revocation (CM-DARE, ICDCS'20, and its released measurements). */
#ifndef SPOTNIK_RESEARCH_MODEL_OVERHEAD_H
#define SPOTNIK_RESEARCH_MODEL_OVERHEAD_H

#include "plan/curvefit.h"

/* Mean seconds from request to a booted machine, CM-DARE's measurements on GCE (provision + staging
 * + boot). */
#define SPOTNIK_STARTUP_SPOT_S 90.0
#define SPOTNIK_STARTUP_ON_DEMAND_S 75.0

/* Checkpoint to cloud storage: a constant and a rate. */
static inline double spotnik_checkpoint_write_s(const struct spotnik_line *line, double megabytes)
{
    return line->intercept + line->slope * megabytes;
}

/* Replacing a worker: the machine has to start, then the framework. */
static inline double spotnik_replacement_s(double startup_s, double framework_s)
{
    return startup_s + framework_s;
}

/* remaining = (steps - step) / speed + overhead, fitted in relative error: a late revocation leaves
 * little time, and a planner needs that little right. */
struct spotnik_remaining {
    double steps_per_s;
    double end_s; /* remaining time at step 0: steps / speed + overhead */
};

int spotnik_remaining_fit(const double *step, const double *remaining_s, size_t count,
                          struct spotnik_remaining *model_out);
double spotnik_remaining_s(const struct spotnik_remaining *model, double step);

#endif
