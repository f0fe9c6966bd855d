/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetimes of machines against numbers that are known otherwise: closed forms, and the printed
 * examples. */
#include "common/model_interval.h"
#include "common/model_lifetime.h"

#include <math.h>

#include "tests.h"

static void near(double value, double wanted, double apart)
{
    if (!(fabs(value - wanted) <= apart))
        fail_msg("%.9g, wanted %.9g within %g", value, wanted, apart);
}

TEST(kaplan_meier_by_hand)
{
    /* 5 machines: lost at 1 and 3, censored at 2, lost at 4, censored at 5 */
    struct spotnik_life lives[] = {
        { 3, true }, { 1, true }, { 2, false }, { 5, false }, { 4, true }
    };
    struct spotnik_survival s, naive;
    double error;

    assert_int_equal(spotnik_survival_estimate(lives, 5, true, &s, NULL), 0);
    near(spotnik_survival_lost(&s, 0.5, NULL), 0, 0);
    near(spotnik_survival_lost(&s, 1, &error), 0.2, 1e-12);
    near(error, sqrt(0.64 / 20), 1e-12);
    near(spotnik_survival_lost(&s, 3.5, NULL), 1 - 0.8 * 2 / 3, 1e-12);
    near(spotnik_survival_lost(&s, 9, NULL), 1 - 0.8 * 2 / 3 / 2, 1e-12);
    assert_int_equal(spotnik_survival_estimate(lives, 5, false, &naive, NULL), 0);
    near(spotnik_survival_lost(&naive, 3.5, NULL), 2.0 / 3, 1e-12);
    spotnik_survival_free(&s);
    spotnik_survival_free(&naive);
}

TEST(bathtub)
{
    const struct spotnik_bathtub b = { 0.45, 3600, 0.8 * 3600, 86400 };

    near(spotnik_bathtub_lost(&b, 6 * 3600), 0.449, 0.001);
    near(spotnik_monthly_to_hourly(0.05), 7.026e-5, 1e-7);
}

static double paper_lost(const void *context, double age_s)
{
    return spotnik_bathtub_lost(context, age_s);
}

static void check_programme(bool conditional, const double *minutes, size_t count,
                            double expected_min)
{
    static struct spotnik_interval_plan plan;
    const struct spotnik_interval_terms terms = { .job_s = 5 * 3600,
                                                  .write_s = 60,
                                                  .tick_s = 60,
                                                  .lost_by = paper_lost,
                                                  .context = &spotnik_bathtub_published,
                                                  .conditional = conditional,
                                                  .exact_loss = conditional };
    double total = 0;

    assert_int_equal(spotnik_interval_programme(&terms, &plan, NULL), 0);
    assert_int_equal(plan.count, count);
    for (size_t i = 0; i < count; i++) {
        near(plan.interval_s[i] / 60, minutes[i], 1e-9);
        total += plan.interval_s[i];
    }
    near(total, terms.job_s, 1e-6);
    near(plan.expected_s / 60, expected_min, 0.05);
}

TEST(checkpoint_programme)
{
    const double authors[] = { 15, 18, 21, 27, 38, 59, 122 },
                 right[] = { 16, 18, 21, 25, 33, 50, 137 };

    check_programme(false, authors, 7, 314.6);
    check_programme(true, right, 7, 316.4);
}
