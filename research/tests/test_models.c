/* SPDX-License-Identifier: Apache-2.0 */
/* The models against numbers that are known otherwise: closed forms, limits, and the printed
 * examples. */
#include "plan/draw.h"
#include "tables/intervals.h"
#include "tables/life_fits.h"
#include "tables/model_forms.h"
#include "tables/model_noise.h"
#include "tables/model_overhead.h"
#include "tables/model_speed.h"

#include <math.h>

#include "tests.h"

static void near(double value, double wanted, double apart)
{
    if (!(fabs(value - wanted) <= apart))
        fail_msg("%.9g, wanted %.9g within %g", value, wanted, apart);
}

TEST(speed_meets_two_points)
{
    const struct spotnik_speed truth = { 2.5, 14, 6 };
    double n[] = { 2, 8, 3, 5, 6 }, x[5];

    for (size_t i = 0; i < 5; i++)
        x[i] = spotnik_speed_predict(&truth, n[i]);
    struct spotnik_speed two = spotnik_speed_fit(n, x, 2, 6), five = spotnik_speed_fit(n, x, 5, 6);
    near(two.worker_steps_per_s, 2.5, 1e-9);
    near(two.cap_steps_per_s, 14, 1e-6);
    near(five.worker_steps_per_s, 2.5, 1e-5);
    near(five.cap_steps_per_s, 14, 1e-3);
    struct spotnik_speed one = spotnik_speed_fit(n, x, 1, 6);
    near(spotnik_speed_predict(&one, 4), 2 * x[0], 1e-9);
}

TEST(speed_more_than_linear_is_noise)
{
    double n[] = { 2, 8 }, x[] = { 2, 8.2 };

    struct spotnik_speed speed = spotnik_speed_fit(n, x, 2, 6);
    assert_true(isinf(speed.cap_steps_per_s));
    near(spotnik_speed_predict(&speed, 4), 4.05, 0.02);
}

/* Between two sizes no shape of saturation is left out; beyond them the interval grows. */
TEST(speed_intervals)
{
    const double n[] = { 2, 8 }, x[] = { 20, 40 };
    double low, high, wide = 0;

    spotnik_speed_interval(n, x, 2, 4, 0, &low, &high);
    near(low, 20 + 20 / 3.0, 1e-9); /* the chord */
    near(high, 40, 1e-9);           /* no saturation yet */
    spotnik_speed_interval(n, x, 2, 1, 0, &low, &high);
    near(low, 10, 1e-9);
    near(high, 20 - 20 / 6.0, 1e-9);
    spotnik_speed_interval(n, x, 2, 8, 0.1, &low, &high);
    near(log(high / low), 0.2, 1e-9);
    for (double at = 9; at <= 64; at *= 2) {
        spotnik_speed_interval(n, x, 2, at, 0, &low, &high);
        assert_true(low < 40 && high > 40 && high / low > wide);
        wide = high / low;
    }
}

TEST(batch_time_meets_corners)
{
    const struct spotnik_batch_row rows[] = {
        { 384, 8, 12.4 }, { 384, 20, 6.8 }, { 1024, 8, 8.68 }, { 1024, 20, 4.26 }
    };
    struct spotnik_batch_time model;

    assert_int_equal(spotnik_batch_time_fit(rows, 4, SPOTNIK_NOISE_SHARPNESS, &model), 0);
    for (size_t i = 0; i < 4; i++)
        near(spotnik_batch_time_h(&model, rows[i].batch, rows[i].workers), rows[i].time_h, 1e-6);
    assert_int_equal(spotnik_batch_time_fit(rows, 2, SPOTNIK_NOISE_SHARPNESS, &model), -1);
    near(spotnik_cluster_cost_usd(12.4, 8, 0.13402), 13.29, 0.01);
}

TEST(batches_that_were_not_fitted_are_less_sure)
{
    const struct spotnik_batch_row rows[] = {
        { 384, 8, 12.4 }, { 384, 20, 6.8 }, { 1024, 8, 8.68 }, { 1024, 20, 4.26 }
    };
    double low_h, high_h, far_low_h, far_high_h;

    assert_int_equal(spotnik_batch_time_interval(rows, 4, 1024, 8, &low_h, &high_h), 0);
    near(log(high_h / low_h), 2 * SPOTNIK_NOISE_SCATTER, 1e-6);
    assert_int_equal(spotnik_batch_time_interval(rows, 4, 4096, 8, &far_low_h, &far_high_h), 0);
    assert_true(far_high_h / far_low_h > 1.1 * high_h / low_h);
    assert_int_equal(spotnik_batch_time_interval(rows, 2, 512, 8, &low_h, &high_h), -1);
}

TEST(exponential_and_weibull)
{
    struct spotnik_life lives[2000];
    struct spotnik_weibull weibull;

    for (size_t i = 0; i < 2000; i++) { /* quantiles of shape 0.7, scale 10 h, capped at 24 h */
        double age_h = 10 * pow(-log(1 - ((double)i + 0.5) / 2000), 1 / 0.7);
        lives[i] = (struct spotnik_life){ fmin(age_h, 24) * 3600, age_h < 24 };
    }
    assert_int_equal(spotnik_weibull_fit(lives, 2000, 86400, &weibull), 0);
    near(weibull.shape, 0.7, 0.01);
    near(weibull.scale_s / 3600, 10, 0.15);
    const struct spotnik_life plain[] = { { 100, true }, { 200, false }, { 300, true } };
    near(spotnik_exponential_fit(plain, 3, 1e9), 2 / 600.0, 1e-12);
}

TEST(losses_together)
{
    double alone[] = { 100, 300, 200 }, pairs[] = { 10, 500, 11, 501 };

    near(spotnik_loss_cluster(alone, 3, 5), 1, 1e-12);
    near(spotnik_loss_cluster(pairs, 4, 5), 2, 1e-12);
}

TEST(closed_intervals)
{
    near(spotnik_interval_young_s(60, 3600), 657.3, 0.1); /* "11 min" */
    near(spotnik_interval_daly_s(100, 40), 40, 1e-12);
    near(spotnik_interval_available_s(1, 100, 10), 1 + sqrt(221), 1e-12);
}

TEST(remaining_time)
{
    const double step[] = { 0, 32000, 60000 }, left_s[] = { 3560, 1800, 260 };
    struct spotnik_remaining model;

    assert_int_equal(spotnik_remaining_fit(step, left_s, 3, &model), 0);
    near(model.steps_per_s, 18.18, 0.01);
    near(spotnik_remaining_s(&model, 1e9), 0, 0);
    const double rising[] = { 1, 2, 3 };
    assert_int_equal(spotnik_remaining_fit(step, rising, 3, &model), -1);
}

/* A richer form that is no better than chance on series left out gives way to the simpler one,
 * which comes first. */
TEST(forms_are_simple)
{
    static const unsigned sets[] = { 1, 1 | 2 };
    double x[12 * 2], y[12];
    unsigned series[12];
    struct spotnik_prng prng;
    struct spotnik_form form;

    spotnik_prng_seed(&prng, 5);
    for (unsigned row = 0; row < 12; row++) {
        x[2 * row] = 1 + row;
        x[2 * row + 1] = spotnik_draw_uniform(&prng);
        y[row] = (2 + x[2 * row]) * (1 + 0.05 * spotnik_draw_normal(&prng));
        series[row] = row % 3;
    }
    const struct spotnik_samples samples = { 12, 2, x, y, series };
    assert_int_equal(spotnik_form_choose(&samples, sets, 2, &form, NULL), 0);
    assert_int_equal(form.use, 1);
    /* three series that err alike: as wide as Student's t of two degrees of freedom makes it */
    assert_true(form.interval > 2.9 * form.error && form.coverage >= 0.9);
}

/* Of two sets of features the one that carries over to unseen groups is chosen, and its interval
 * holds what it promises. */
TEST(forms_carry_over)
{
    enum { GROUPS = 20, EACH = 5, ROWS = GROUPS * EACH };
    static const unsigned sets[] = { 1, 2 | 4, 1 | 2 | 4 | 8 };
    double x[ROWS * 4], y[ROWS];
    unsigned group[ROWS];
    struct spotnik_prng prng;
    struct spotnik_form form;

    spotnik_prng_seed(&prng, 3);
    for (unsigned g = 0; g < GROUPS; g++) {
        double a = 1 + 9 * spotnik_draw_uniform(&prng), b = 50 * spotnik_draw_uniform(&prng);
        for (unsigned i = 0; i < EACH; i++) {
            unsigned row = g * EACH + i;
            double *own = x + row * 4;
            own[0] = a + b; /* their sum says less than both */
            own[1] = a;
            own[2] = b;
            own[3] = g % 3;
            y[row] = (3 + 0.5 * a + 0.02 * b) * (1 + 0.04 * spotnik_draw_normal(&prng));
            group[row] = g;
        }
    }
    const struct spotnik_samples samples = { ROWS, 4, x, y, group };
    assert_int_equal(spotnik_form_choose(&samples, sets, 3, &form, NULL), 0);
    assert_int_equal(form.use, 2 | 4);
    near(form.constant, 3, 0.2);
    near(form.weight[1], 0.5, 0.05);
    near(form.weight[2], 0.02, 0.005);
    near(form.error, 0.04 * 0.8, 0.01); /* mean of |normal| */
    near(form.coverage, 0.9, 0.06);
    assert_true(form.interval > 0.05 && form.interval < 0.1);
    /* two series: a form, and no interval */
    const struct spotnik_samples few = { 2 * EACH, 4, x, y, group };
    assert_int_equal(spotnik_form_choose(&few, sets, 1, &form, NULL), 0);
    assert_true(isnan(form.interval));
    const struct spotnik_samples one = { 1, 4, x, y, group };
    struct spotnik_fault fault;
    assert_int_equal(spotnik_form_choose(&one, sets, 1, &form, &fault), -1);
}
