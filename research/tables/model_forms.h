/* SPDX-License-Identifier: Apache-2.0 */
/* Linear forms of a few features, in relative error, chosen by how well they predict groups
 * (models) that they were not fitted to: of several sets of features the one with the least
 * leave-one-group-out error wins, and those errors also say how unsure a prediction is. With few
 * groups the interval is wide, as it should be. */
#ifndef SPOTNIK_RESEARCH_MODEL_FORMS_H
#define SPOTNIK_RESEARCH_MODEL_FORMS_H

#include "common/fault.h"

#include <stddef.h>

#define SPOTNIK_FEATURES_MAX 6
#define SPOTNIK_INTERVAL 0.9 /* the share of unseen values that an interval is to hold */

/* `x` has `features` numbers a row; `use` is a set of them, one bit each. */
struct spotnik_samples {
    size_t count, features;
    const double *x, *y;
    const unsigned *group; /* numbers from 0 */
};

struct spotnik_form {
    unsigned use;
    double constant, weight[SPOTNIK_FEATURES_MAX];
    double error; /* leave-one-group-out MAPE, a share; NAN with one group */
    double
        /* a prediction p is p (1 - interval) to p (1 + interval); NAN with fewer than three
         * groups */
        interval;
    /* share of left-out values in intervals made without their group; NAN likewise */
    double coverage;
    size_t groups;
};

double spotnik_form_at(const struct spotnik_form *form, const double *x);
/* The best of `sets` (bit sets of features), fitted to all samples. Sets that the samples cannot
 * fix are passed over. */
int spotnik_form_choose(const struct spotnik_samples *samples, const unsigned *sets,
                        size_t set_count, struct spotnik_form *form_out,
                        struct spotnik_fault *fault);

#endif
