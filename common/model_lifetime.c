/* SPDX-License-Identifier: Apache-2.0 */
/* Kaplan-Meier and what goes with it. */
#include "common/model_lifetime.h"

#include <math.h>
#include <stdlib.h>

const struct spotnik_bathtub spotnik_bathtub_published = { 0.4137, 0.9 * 3600, 0.76 * 3600,
                                                           24 * 3600 };

/* Losses before censorings at the same age, as usual: a machine that is seen at t was at risk at
 * t. */
static int by_age(const void *left, const void *right)
{
    const struct spotnik_life *a = left, *b = right;

    if (a->age_s != b->age_s)
        return a->age_s < b->age_s ? -1 : 1;
    return (int)b->lost - (int)a->lost;
}

int spotnik_survival_estimate(struct spotnik_life *lives, size_t count, bool count_censored,
                              struct spotnik_survival *survival_out, struct spotnik_fault *fault)
{
    struct spotnik_survival s = { 0 };
    double alive = 1, greenwood = 0;
    size_t at_risk = 0;

    s.age_s = calloc(count + 1, sizeof(double));
    s.alive = calloc(count + 1, sizeof(double));
    s.variance = calloc(count + 1, sizeof(double));
    if (!s.age_s || !s.alive || !s.variance) {
        spotnik_survival_free(&s);
        return spotnik_fault_set(fault, "out of memory for %zu lifetimes", count);
    }
    qsort(lives, count, sizeof(*lives), by_age);
    for (size_t i = 0; i < count; i++)
        at_risk += count_censored || lives[i].lost;
    for (size_t i = 0; i < count; i++) {
        if (!lives[i].lost) {
            at_risk -= count_censored;
            continue;
        }
        alive *= 1 - 1 / (double)at_risk;
        if (at_risk > 1)
            greenwood += 1 / ((double)at_risk * (double)(at_risk - 1));
        at_risk--;
        if (s.count && s.age_s[s.count - 1] == lives[i].age_s)
            s.count--;
        s.age_s[s.count] = lives[i].age_s;
        s.alive[s.count] = alive;
        s.variance[s.count++] = alive * alive * greenwood;
    }
    *survival_out = s;
    return 0;
}

void spotnik_survival_free(struct spotnik_survival *survival)
{
    free(survival->age_s);
    free(survival->alive);
    free(survival->variance);
    *survival = (struct spotnik_survival){ 0 };
}

double spotnik_survival_lost(const struct spotnik_survival *survival, double age_s,
                             double *error_out)
{
    size_t low = 0, high = survival->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (survival->age_s[middle] <= age_s)
            low = middle + 1;
        else
            high = middle;
    }
    if (error_out)
        *error_out = low ? sqrt(survival->variance[low - 1]) : 0;
    return low ? 1 - survival->alive[low - 1] : 0;
}

double spotnik_bathtub_lost(const struct spotnik_bathtub *b, double age_s)
{
    double lost = b->scale * (1 - exp(-age_s / b->early_s) + exp((age_s - b->cap_s) / b->late_s));

    return fmin(fmax(lost, 0), 1);
}

double spotnik_monthly_to_hourly(double monthly_share)
{
    return 1 - pow(1 - fmin(monthly_share, 0.999), 1 / 730.0);
}
