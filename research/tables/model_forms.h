/* SPDX-License-Identifier: Apache-2.0 */
/* Linear forms of a few features, in relative error, chosen by how well they predict whole series
 * that they were not fitted to. The simplest form wins whose error is within one standard error of
 * the least. Those errors also give the interval of a prediction; with few series it is wide. */
#ifndef SPOTNIK_RESEARCH_MODEL_FORMS_H
#define SPOTNIK_RESEARCH_MODEL_FORMS_H

#include "common/fault.h"

#include <stddef.h>

#define SPOTNIK_FEATURES_MAX 6
#define SPOTNIK_FORMS_MAX 8
#define SPOTNIK_INTERVAL 0.9 /* the share of unseen values that an interval is to hold */

/* `x` has `features` numbers a row; `use` is a set of them, one bit each. */
struct spotnik_samples {
    size_t count, features;
    const double *x, *y;
    const unsigned *group; /* the series of each row, numbers from 0 */
};

struct spotnik_form {
    unsigned use;
    double constant, weight[SPOTNIK_FEATURES_MAX];
    /* mean of |ln (predicted / observed)| with each series left out, and its standard error;
     * NAN with one series */
    double error, error_deviation;
    /* a prediction p lies in p exp(-interval) to p exp(interval); NAN with fewer than three
     * series */
    double interval;
    /* share of left-out values in intervals made without their series; NAN likewise */
    double coverage;
    size_t groups;
};

double spotnik_form_at(const struct spotnik_form *form, const double *x);
/* One of `sets` (bit sets of features, the simplest first, SPOTNIK_FORMS_MAX at most), fitted to
 * all samples. Sets that the samples cannot fix are passed over. */
int spotnik_form_choose(const struct spotnik_samples *samples, const unsigned *sets,
                        size_t set_count, struct spotnik_form *form_out,
                        struct spotnik_fault *fault);

#endif
