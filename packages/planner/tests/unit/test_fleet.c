/* SPDX-License-Identifier: Apache-2.0 */
/* Steps: what members of one machine wait for each other, and how sure a step is that was not
 * measured. */
#include "plan/fleet.h"
#include "plan/profile_fit.h"

#include <math.h>
#include <stdio.h>

#include "tests.h"

static void near(double value, double wanted, double apart)
{
    if (!(fabs(value - wanted) <= apart))
        fail_msg("%.9g, wanted %.9g within %g", value, wanted, apart);
}

static struct spotnik_profile profile_of(const char *accelerator, double sample_s, double bytes)
{
    struct spotnik_profile p;

    spotnik_profile_empty(&p);
    snprintf(p.devices[0].accelerator, sizeof(p.devices[0].accelerator), "%s", accelerator);
    p.devices[0].sample_s = sample_s;
    p.devices[0].batch_most = 1e9;
    p.device_count = 1;
    p.samples_per_epoch = 1e5;
    p.gradient_bytes = bytes;
    p.overlap = 0;
    p.error = 0;
    return p;
}

static double step_s(const struct spotnik_profile *p, const struct spotnik_offer *offer,
                     unsigned machines, double batch)
{
    struct spotnik_fleet fleet = { { { offer, &p->devices[0], machines, false, 0 } }, 1, batch };

    return spotnik_fleet_step_s(p, &fleet, &machines);
}

static const struct spotnik_offer eight = { .instance = "p4d.24xlarge",
                                            .accelerator = "A100",
                                            .accelerators = 8,
                                            .on_demand_usd_per_h = 1,
                                            .link_gbps = 400 };

TEST(gpus_of_one_machine_wait)
{
    struct spotnik_profile p = profile_of("A100", 1e-3, 100e6);

    /* 128 ms of compute, and 8 x 100 MB through 25 GB/s of memory and PCIe */
    near(step_s(&p, &eight, 1, 1024), 0.128 + 0.032, 1e-9);
    p.overlap = 0.5;
    near(step_s(&p, &eight, 1, 1024), 0.128, 1e-9);
    /* between machines the ring takes 4 ms and 2 hops: memory is slower, and both work at a time */
    p.overlap = 0;
    near(step_s(&p, &eight, 2, 1024), 0.064 + 0.032, 1e-9);
    const struct spotnik_offer one = { .accelerators = 1, .link_gbps = 8, .accelerator = "A100" };
    near(step_s(&p, &one, 1, 1024), 1.024, 1e-9);
    near(step_s(&p, &one, 2, 1024), 0.512 + 0.1 + 2 * p.hop_s, 1e-9);
    p.skew_s = 1e-3; /* all sixteen wait for the slowest */
    near(step_s(&p, &eight, 2, 1024), 0.064 + 0.032 + 3.1e-3, 1e-9);
}

/* Measured with one and two workers: 10.9 and 13.4 ms, 1.5 of which are spent waiting. */
TEST(processors_of_one_machine_wait)
{
    const struct spotnik_step_point points[] = { { 1, 256, 10.9e-3, 0 },
                                                 { 2, 256, 11.9e-3, 1.5e-3 } };
    struct spotnik_profile p = profile_of("cpu", 0, 1e6);
    struct spotnik_offer offer = { .vcpus = 16, .link_gbps = 10 };

    spotnik_profile_fit_device(points, 2, &p.devices[0]);
    spotnik_profile_fit_waits(points, 2, &p);
    double sixteen_s = step_s(&p, &offer, 1, 256);
    /* the wait for the slowest grows, and the work does not shrink, as it did not with two */
    assert_true(sixteen_s > 3 * 1.5e-3 + 10.9e-3 && sixteen_s < 4 * 1.5e-3 + 13e-3);
    offer.vcpus = 2;
    near(step_s(&p, &offer, 1, 256), 13.4e-3, 1e-9);
    /* a step that was measured counts as it is; on two machines it is no faster */
    p.measured[p.measured_count++] = (struct spotnik_measured){ "cpu", 2, 256, 15e-3 };
    near(step_s(&p, &offer, 1, 256), 15e-3, 0);
    offer.vcpus = 1;
    near(step_s(&p, &offer, 2, 256), 15e-3, 0);
}

TEST(beyond_what_was_measured_is_less_sure)
{
    struct spotnik_profile p = profile_of("A100", 1e-3, 0);
    struct spotnik_fleet fleet = { { { &eight, &p.devices[0], 2, false, 0 } }, 1, 1024 };
    const struct spotnik_work work = { .epochs = 10, .losses_per_h = NAN };

    p.error = 0.03;
    near(spotnik_fleet_doublings(&p, &fleet), 4, 1e-9); /* from a rate of one device */
    near(spotnik_fleet_error(&p, &fleet), hypot(0.03, 0.13 * 2), 1e-9);
    struct spotnik_outcome far =
        spotnik_fleet_simulate(&p, &fleet, &work, INFINITY, INFINITY, 400, 1);
    p.measured[p.measured_count++] = (struct spotnik_measured){ "A100", 16, 512, 1 };
    near(spotnik_fleet_doublings(&p, &fleet), 0, 1e-9);
    near(spotnik_fleet_error(&p, &fleet), 0.03, 1e-9);
    struct spotnik_outcome close =
        spotnik_fleet_simulate(&p, &fleet, &work, INFINITY, INFINITY, 400, 1);
    assert_true(far.time_high_s - far.time_low_s > 3 * (close.time_high_s - close.time_low_s));
    p.measured_count = 0;
    p.paced_devices = 8; /* a job of eight has measured its own steps */
    near(spotnik_fleet_doublings(&p, &fleet), 1, 1e-9);
}

int main(void)
{
    return tests_run(NULL, NULL);
}
