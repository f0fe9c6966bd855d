/* SPDX-License-Identifier: Apache-2.0 */
/* Parametric lifetimes beside Kaplan-Meier: bathtub by least squares, exponential and Weibull by
 * maximum likelihood. A provider's cap (24 h on GCE preemptible machines) is a known deadline, not
 * wear-out: lifetimes at or past it are censored there. */
#ifndef SPOTNIK_RESEARCH_LIFE_FITS_H
#define SPOTNIK_RESEARCH_LIFE_FITS_H

#include "common/model_lifetime.h"

/* Mean lifetime up to the cap, in closed form. */
double spotnik_bathtub_mean_s(const struct spotnik_bathtub *bathtub);
/* Least squares on the survival curve at the losses before the cap. `r_squared_out` may be null. */
int spotnik_bathtub_fit(const struct spotnik_survival *survival, double cap_s,
                        struct spotnik_bathtub *bathtub_out, double *r_squared_out);

/* Losses / time at risk, before the cap. */
double spotnik_exponential_fit(const struct spotnik_life *lives, size_t count, double cap_s);
struct spotnik_weibull {
    double shape, scale_s;
};
int spotnik_weibull_fit(const struct spotnik_life *lives, size_t count, double cap_s,
                        struct spotnik_weibull *weibull_out);
double spotnik_weibull_lost(const struct spotnik_weibull *weibull, double age_s);

/* How far losses come together: mean number of losses (itself included) within `apart_s` of a loss.
 * `ended_s` need not be sorted; it is sorted in place. 1 means that every loss comes alone. */
double spotnik_loss_cluster(double *ended_s, size_t count, double apart_s);

#endif
