/* SPDX-License-Identifier: Apache-2.0 */
/* How long spot machines live.
 *
 * Kaplan-Meier is the estimate; for those who want a formula there is a bathtub F(t) = A (1 -
 * exp(-t/tau1) + exp((t-b)/tau2)) (Kadupitiya et al., HPDC'20). A lifetime that the user ended is
 * censored: it says that the machine lived at least so long, and leaving it out (as the published
 * fits do) overstates early loss. */
#ifndef SPOTNIK_COMMON_MODEL_LIFETIME_H
#define SPOTNIK_COMMON_MODEL_LIFETIME_H

#include "common/fault.h"

#include <stdbool.h>
#include <stddef.h>

struct spotnik_life {
    double age_s;
    bool lost; /* false: censored */
};

/* A step function: after `age_s[i]` a share `alive[i]` is left; `variance[i]` is Greenwood's. */
struct spotnik_survival {
    size_t count;
    double *age_s, *alive, *variance;
};

/* Sorts `lives`. With `count_censored` false, censored lives are left out (the published way, for
 * comparison). */
int spotnik_survival_estimate(struct spotnik_life *lives, size_t count, bool count_censored,
                              struct spotnik_survival *survival_out, struct spotnik_fault *fault);
void spotnik_survival_free(struct spotnik_survival *survival);
/* Share lost by `age_s`, and its standard error when `error_out` is not null. */
double spotnik_survival_lost(const struct spotnik_survival *survival, double age_s,
                             double *error_out);

struct spotnik_bathtub {
    double scale, early_s, late_s, cap_s; /* A, tau1, tau2, b */
};
/* The parameters of the authors' released code: A .4137, tau1 .9 h, tau2 .76 h, b 24 h. */
extern const struct spotnik_bathtub spotnik_bathtub_published;
double spotnik_bathtub_lost(const struct spotnik_bathtub *bathtub, double age_s);

/* A share of a trailing month to a rate per hour: 1 - (1-r)^(1/730). */
double spotnik_monthly_to_hourly(double monthly_share);

#endif
