/* SPDX-License-Identifier: Apache-2.0 */
/* What measured steps make of a profile. */
#include "plan/profile_fit.h"

#include <math.h>

#include "tests.h"

static void near(double value, double wanted, double apart)
{
    if (!(fabs(value - wanted) <= apart))
        fail_msg("%.9g, wanted %.9g within %g", value, wanted, apart);
}

TEST(constant_and_rate)
{
    /* 2 ms and 10 us a sample; two workers have half of the batch each and do not share a core */
    const struct spotnik_step_point points[] = {
        { 1, 256, 4.56e-3, 0 },
        { 1, 512, 7.12e-3, 0 },
        { 2, 256, 3.28e-3, 1e-3 },
        { 2, 512, 4.56e-3, 2e-3 },
    };
    struct spotnik_device device = { .batch_most = 7 };

    spotnik_profile_fit_device(points, 4, &device);
    near(device.fixed_s, 2e-3, 1e-9);
    near(device.sample_s, 10e-6, 1e-12);
    near(device.contention, 0, 1e-9);
    near(device.batch_most, 7, 0);
}

/* Half of the batch for each of two workers, and hardly less time: they share what is short. */
TEST(workers_of_one_host_slow_each_other)
{
    const struct spotnik_step_point points[] = { { 1, 256, 10.9e-3, 0 },
                                                 { 2, 256, 11.9e-3, 1.5e-3 } };
    struct spotnik_device device = { 0 };

    spotnik_profile_fit_device(points, 2, &device);
    near(device.fixed_s, 0, 0);
    near(device.sample_s * 256, 10.9e-3, 1e-12);
    near(device.contention, 11.9 / 5.45 - 1, 1e-9);
}

/* 2 ms with two workers: some of it memory, which grows with the workers, the rest the slower
 * one. */
TEST(waits)
{
    struct spotnik_step_point points[4] = { { 1, 256, 1, 9 }, { 2, 256, 1, 2e-3 } };
    struct spotnik_profile p;

    spotnik_profile_empty(&p);
    p.gradient_bytes = 12.5e6;
    spotnik_profile_fit_waits(points, 1, &p); /* one worker waits for no other */
    near(p.skew_s, 0, 0);
    spotnik_profile_fit_waits(points, 2, &p);
    near(p.host_bytes_per_s, 25e9, 1); /* as where nothing was measured: 0.5 ms a worker */
    near(p.skew_s, 1e-3, 1e-9);
    /* with four and eight workers the memory of this host shows: 2 ms a worker, 3 ms of skew */
    for (size_t i = 1; i < 4; i++) {
        points[i].workers = 1u << i;
        points[i].wait_s = 2e-3 * points[i].workers + 3e-3 * spotnik_skew_growth(points[i].workers);
    }
    spotnik_profile_fit_waits(points, 4, &p);
    near(p.host_bytes_per_s, 12.5e6 / 2e-3, 1e3);
    near(p.skew_s, 3e-3, 1e-8);
}

int main(void)
{
    return tests_run(NULL, NULL);
}
