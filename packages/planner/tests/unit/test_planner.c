/* SPDX-License-Identifier: Apache-2.0 */
/* Fleets, the search, the catalog, profiles. */
#include "plan/planner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests.h"

static char folder[] = "/tmp/spotnik-plan-XXXXXX";

static int setup(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static const char *file(const char *name, const char *text)
{
    static char path[128];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    if (text) {
        FILE *out = fopen(path, "w");
        assert_non_null(out);
        fputs(text, out);
        fclose(out);
    }
    return path;
}

static struct spotnik_profile profile(void)
{
    struct spotnik_profile p;

    spotnik_profile_builtin(&p);
    p.error = 0;
    p.paced_devices = 1e6; /* no fleet is beyond what was measured */
    return p;
}

static struct spotnik_fleet fleet_of(const struct spotnik_profile *p,
                                     const struct spotnik_offer *offer, unsigned n, bool spot)
{
    return (struct spotnik_fleet){
        { { offer, spotnik_profile_device(p, offer->accelerator), n, spot, false } }, 1, 1024
    };
}

static const struct spotnik_offer v100 = { "p3.2xlarge", "us-east-1", "",  "V100", 1,  8,
                                           61,           3.06,        1.2, 0.5,    10, NULL,
                                           NULL,         0,           0,   "aws",  "" };

TEST(without_losses_the_simulation_is_the_estimate)
{
    struct spotnik_profile p = profile();
    struct spotnik_fleet fleet = fleet_of(&p, &v100, 4, false);
    const struct spotnik_work work = { .epochs = 10, .losses_per_h = NAN, .together = 0.25 };

    struct spotnik_estimate e = spotnik_fleet_estimate(&p, &fleet, &work);
    struct spotnik_outcome o = spotnik_fleet_simulate(&p, &fleet, &work, INFINITY, INFINITY, 20, 1);
    assert_true(fabs(o.time_mean_s / e.time_s - 1) < 1e-9);
    assert_true(fabs(o.cost_mean_usd / e.cost_usd - 1) < 1e-9);
    assert_true(o.time_low_s == o.time_high_s);
    /* step: 10 ms + 1024 / 3000 s of compute; a ring of 102 MB over 10 Gbit/s is mostly hidden */
    assert_true(fabs(e.step_s - (0.01 + 1024 / 3000.0)) < 1e-6);
}

TEST(losses_cost_time)
{
    struct spotnik_profile p = profile();
    struct spotnik_fleet spot = fleet_of(&p, &v100, 4, true), sure = fleet_of(&p, &v100, 4, false);
    const struct spotnik_work work = { .epochs = 10, .losses_per_h = NAN, .together = 0.25 };

    struct spotnik_outcome a = spotnik_fleet_simulate(&p, &spot, &work, INFINITY, INFINITY, 400, 1);
    struct spotnik_outcome b = spotnik_fleet_simulate(&p, &sure, &work, INFINITY, INFINITY, 400, 1);
    struct spotnik_outcome again =
        spotnik_fleet_simulate(&p, &spot, &work, INFINITY, INFINITY, 400, 1);
    assert_true(a.time_mean_s == again.time_mean_s && a.cost_high_usd == again.cost_high_usd
                && a.losses == again.losses);
    assert_true(a.time_mean_s > b.time_mean_s && a.cost_mean_usd < b.cost_mean_usd);
    /* each machine is lost 0.5 times an hour, however losses cluster */
    double wanted = 0.5 * a.machine_h;
    if (fabs(a.losses / wanted - 1) > 0.15)
        fail_msg("%.2f losses a run, %.2f wanted", a.losses, wanted);
}

TEST(data_and_checkpoints_cost)
{
    struct spotnik_profile p = profile();
    struct spotnik_fleet fleet = fleet_of(&p, &v100, 4, false);
    struct spotnik_work work = {
        .epochs = 10, .losses_per_h = NAN, .data_gb = 500, .egress_usd_per_gb = 0.02
    };

    double machines = spotnik_fleet_estimate(&p, &fleet, &work).cost_usd;
    work.data_region = "us-east-1"; /* there they are */
    assert_true(spotnik_fleet_estimate(&p, &fleet, &work).cost_usd == machines);
    work.data_region = "eu-west-1";
    fleet.group_count = 2; /* moved once, though two groups read them */
    fleet.groups[1] = fleet.groups[0];
    assert_true(fabs(spotnik_fleet_extra_usd(&p, &fleet, &work, 3600) - 10) < 1e-9);
    fleet.group_count = 1;
    work.storage_usd_per_gb_month = 730;
    p.state_bytes = 3e9;
    struct spotnik_outcome o = spotnik_fleet_simulate(&p, &fleet, &work, INFINITY, INFINITY, 20, 1);
    assert_true(fabs(o.cost_mean_usd - machines - 10 - 2 * 3 * o.time_mean_s / 3600) < 1e-6);
}

static struct spotnik_wish wish_of(double deadline_h, double budget_usd)
{
    return (struct spotnik_wish){ .deadline_s = deadline_h * 3600,
                                  .budget_usd = budget_usd,
                                  .confidence = 0.95,
                                  .work = { .epochs = 90, .losses_per_h = NAN, .together = 0.25 },
                                  .machines_most = 16,
                                  .spot = true,
                                  .on_demand = true,
                                  .seed = 1,
                                  .runs = 100 };
}

TEST(plan_meets_what_it_promises)
{
    struct spotnik_profile p = profile();
    struct spotnik_wish wish = wish_of(6, 100);
    struct spotnik_catalog catalog;
    struct spotnik_plan *plan = calloc(1, sizeof(*plan));

    assert_int_equal(spotnik_catalog_builtin(&catalog, NULL), 0);
    assert_int_equal(spotnik_plan_make(&catalog, &p, &wish, plan, NULL), 0);
    assert_true(plan->found);
    assert_true(plan->candidates[0].outcome.both >= 0.95);
    for (size_t i = 1; i < plan->count; i++) {
        assert_true(plan->candidates[i].reason[0]);
        if (plan->candidates[i].feasible)
            assert_true(plan->candidates[i].outcome.cost_mean_usd
                        >= plan->candidates[0].outcome.cost_mean_usd);
    }
    spotnik_catalog_free(&catalog);
    free(plan);
}

TEST(impossible_wishes)
{
    struct spotnik_profile p = profile();
    struct spotnik_wish late = wish_of(0.05, 1e6), poor = wish_of(6, 1);
    struct spotnik_catalog catalog;
    struct spotnik_plan *plan = calloc(1, sizeof(*plan));
    struct spotnik_fault fault;

    assert_int_equal(spotnik_catalog_builtin(&catalog, NULL), 0);
    assert_int_equal(spotnik_plan_make(&catalog, &p, &late, plan, NULL), 0);
    assert_false(plan->found);
    assert_non_null(strstr(plan->binding, "the deadline binds"));
    assert_int_equal(spotnik_plan_make(&catalog, &p, &poor, plan, NULL), 0);
    assert_non_null(strstr(plan->binding, "the budget binds"));
    p.device_count = 1;
    snprintf(p.devices[0].accelerator, sizeof(p.devices[0].accelerator), "TPU");
    assert_int_equal(spotnik_plan_make(&catalog, &p, &poor, plan, &fault), -1);
    assert_non_null(strstr(fault.text, "no machine of the catalog"));
    spotnik_catalog_free(&catalog);
    free(plan);
}

TEST(survivors_stay)
{
    struct spotnik_profile p = profile();
    struct spotnik_wish wish = wish_of(60, 1000);
    struct spotnik_catalog catalog;
    struct spotnik_plan *plan = calloc(1, sizeof(*plan));

    assert_int_equal(spotnik_catalog_builtin(&catalog, NULL), 0);
    wish.kept[0] = (struct spotnik_group){ &v100, spotnik_profile_device(&p, "V100"), 2, true, 2 };
    wish.kept_count = 1;
    assert_int_equal(spotnik_plan_make(&catalog, &p, &wish, plan, NULL), 0);
    for (size_t i = 0; i < plan->count; i++) {
        assert_ptr_equal(plan->candidates[i].fleet.groups[0].offer, &v100);
        assert_true(plan->candidates[i].fleet.groups[0].running);
    }
    spotnik_catalog_free(&catalog);
    free(plan);
}

static void refused_prices(const char *text, const char *part)
{
    struct spotnik_catalog catalog = { 0 };
    struct spotnik_fault fault;

    assert_int_equal(spotnik_catalog_read(&catalog, file("p.csv", text), &fault), -1);
    if (!strstr(fault.text, part))
        fail_msg("'%s' does not say '%s'", fault.text, part);
    spotnik_catalog_free(&catalog);
}

TEST(catalogs)
{
    struct spotnik_catalog catalog = { 0 };

    refused_prices("InstanceType,Price,SpotPrice\na,1.0,-0.2\n",
                   "p.csv:2: column 3 (SpotPrice): -0.2 is outside");
    refused_prices("InstanceType,Price,SpotPrice\na,,\n", "no row has a price");
    refused_prices("InstanceType,Price\na,\"1,5\"\n", "decimals are written with a point");
    refused_prices("type,Price\na,1\n", "no column 'InstanceType'");
    assert_int_equal(
        spotnik_catalog_read(
            &catalog,
            file("q.csv",
                 "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,"
                 "MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"
                 "p3.2xlarge,V100,1,8,61,\"{'Gpus': [{'Name': 'V100', 'Count': 1}]}\",3.06,,"
                 "us-east-1,us-east-1b\n"),
            NULL),
        0);
    assert_true(
        /* a zone without spot is not a zone with free spot */
        isnan(catalog.offers[0].spot_usd_per_h));
    assert_int_equal(spotnik_catalog_advise(&catalog,
                                            file("a.json",
                                                 "{\"spot_advisor\":{\"us-east-1\":{\"Linux\":"
                                                 "{\"p3.2xlarge\":{\"s\":70,\"r\":1}}}}}"),
                                            NULL),
                     0);
    assert_true(fabs(catalog.offers[0].spot_usd_per_h - 0.918) < 1e-9);
    /* 5 to 11 % a month are a band, and may tell nothing of the hours to come */
    assert_true(fabs(catalog.offers[0].losses_per_h - (1 - pow(0.95, 1 / 730.0))) < 1e-12);
    assert_true(fabs(catalog.offers[0].losses_most_per_h - (1 - pow(0.89, 1 / 730.0))) < 1e-12);
    assert_true(catalog.offers[0].losses_doubt > 0);
    spotnik_catalog_complete(&catalog);
    assert_true(catalog.offers[0].link_gbps == 2.5);
    spotnik_catalog_free(&catalog);
}

TEST(histories)
{
    struct spotnik_prices prices;
    struct spotnik_fault fault;

    assert_int_equal(
        spotnik_prices_read(file("h.csv", "timestamp_utc,spot_usd_per_h\n2015-03-11T00:00:00Z,1\n"
                                          "2015-03-11T03:00:00Z,2\n2015-03-11T05:00:00+01:00,9\n"),
                            &prices, NULL),
        0);
    assert_true(fabs(spotnik_prices_mean(&prices) - 1.25) < 1e-12 && prices.usd_per_h[2] == 9);
    /* 1 for three hours, 2 for one, and from the beginning again */
    assert_true(fabs(spotnik_prices_paid(&prices, 0, 4 * 3600) / 3600 - 5) < 1e-9);
    assert_true(fabs(spotnik_prices_paid(&prices, 9000, 3600) / 3600 - 1.5) < 1e-9);
    assert_true(fabs(spotnik_prices_paid(&prices, 3 * 3600, 10 * 3600) / 3600 - 13) < 1e-9);
    assert_true(fabs(spotnik_prices_paid(&prices, 4 * 3600, 7200) / 3600 - 2) < 1e-9);
    spotnik_prices_free(&prices);
    assert_int_equal(
        spotnik_prices_read(file("h.csv", "timestamp_utc,spot_usd_per_h\n2015-03-11T00:00:00,1\n"),
                            &prices, &fault),
        -1);
    assert_non_null(strstr(fault.text, "h.csv:2: column 1"));
    assert_int_equal(
        spotnik_prices_read(file("h.csv", "timestamp_utc,spot_usd_per_h\n2015-03-11T01:00:00Z,1\n"
                                          "2015-03-11T00:00:00Z,1\n"),
                            &prices, &fault),
        -1);
    assert_non_null(strstr(fault.text, "backwards"));
}

static struct spotnik_trace trace_of(const char *text)
{
    struct spotnik_trace trace;
    struct spotnik_fault fault;

    if (spotnik_trace_parse("trace", text, strlen(text), NULL, &trace, &fault))
        fail_msg("%s", fault.text);
    return trace;
}

/* Two machines step once a second, one every two seconds; no start-up beyond 10 s, 5 s for a loss,
 * 3 s for a join. */
static struct spotnik_profile plain(void)
{
    struct spotnik_profile p;

    spotnik_profile_empty(&p);
    snprintf(p.devices[0].accelerator, sizeof(p.devices[0].accelerator), "V100");
    p.device_count = 1;
    p.batches[0] = p.reference_batch = p.samples_per_epoch = 100;
    p.batch_count = 1;
    p.measured_count = 2;
    p.measured[0] = (struct spotnik_measured){ "V100", 1, 100, 2 };
    p.measured[1] = (struct spotnik_measured){ "V100", 2, 100, 1 };
    p.startup_s = 10;
    p.recover_s = 5;
    p.join_s = 3;
    p.error = 0;
    p.paced_devices = 1e6;
    return p;
}

/* Two spot machines and a trace: both at 0, the second lost at 100 s and another one there at 200
 * s. */
TEST(replays)
{
    struct spotnik_trace churn =
        trace_of("0,add,a\n0,add,b\n100000,remove,b\n200000,add,c\n900000,remove,c\n");
    struct spotnik_profile p = plain();
    struct spotnik_fleet fleet = { .group_count = 1, .batch = 100 };
    struct spotnik_work work = { .epochs = 200, .losses_per_h = NAN, .churn = &churn };

    fleet.groups[0] = (struct spotnik_group){ &v100, &p.devices[0], 2, true, false };
    /* 13 to 100 s: 87 steps; 105 to 210 s at half speed: 52.5; from 213 s on 60.5 more */
    struct spotnik_run r = spotnik_fleet_replay(&p, &fleet, &work, 0);
    assert_true(fabs(r.time_s - 273.5) < 1e-9);
    assert_int_equal(r.losses, 1);
    assert_true(fabs(r.cost_usd - 1.2 * (273.5 + 100 + 73.5) / 3600) < 1e-9);
    /* from 150 s on: one machine until 200 s, both of them up at 60 s */
    r = spotnik_fleet_replay(&p, &fleet, &work, 150);
    assert_true(fabs(r.time_s - (63 + 200 - (60 - 13) / 2.0)) < 1e-9);
    spotnik_trace_free(&churn);
    /* both gone from 50 to 100 s: all steps are lost, for the last checkpoint was at 0 */
    churn = trace_of("seconds,machines\n0,2\n50,0\n100,2\n1000,2\n");
    r = spotnik_fleet_replay(&p, &fleet, &work, 0);
    assert_true(fabs(r.time_s - (110 + 3 + 200)) < 1e-9);
    spotnik_trace_free(&churn);
    /* from a given start on, what is there at the end stays; otherwise the trace begins again */
    churn = trace_of("seconds,machines\n0,1\n100,2\n200,2\n");
    churn.start_given = true;
    work.epochs = 400; /* one machine for 110 s, then two for good: about 460 s */
    double held_s =
        spotnik_fleet_simulate(&p, &fleet, &work, INFINITY, INFINITY, 20, 1).time_high_s;
    churn.start_given = false;
    double again_s = spotnik_fleet_replay(&p, &fleet, &work, 0).time_s;
    assert_true(held_s < 480 && again_s > 520);
    spotnik_trace_free(&churn);
    work.epochs = 200;
    /* eight machines are wanted, the trace has two: no third one works */
    churn = trace_of("seconds,machines\n0,2\n1000,1\n");
    fleet.groups[0].machines = 8;
    r = spotnik_fleet_replay(&p, &fleet, &work, 0);
    assert_true(fabs(r.time_s - 213) < 1e-9);
    /* on-demand machines are not in the trace, and stay */
    fleet.groups[0].machines = 2;
    fleet.groups[0].spot = false;
    assert_true(fabs(spotnik_fleet_replay(&p, &fleet, &work, 0).time_s - 213) < 1e-9);
    spotnik_trace_free(&churn);
}

/* What is lost comes back when there is capacity, not after a start-up: half an hour without
 * machines costs as much. */
TEST(capacity_is_waited_for)
{
    struct spotnik_profile p = plain();
    struct spotnik_fleet fleet = { .group_count = 1, .batch = 100 };
    struct spotnik_trace churn = trace_of("seconds,machines\n0,1\n3600,0\n5400,1\n9000,1\n");
    struct spotnik_work work = { .epochs = 10 * 3600, .losses_per_h = NAN, .churn = &churn };

    fleet.groups[0] = (struct spotnik_group){ &v100, &p.devices[0], 2, true, false };
    churn.on_off = true; /* there is capacity, or there is none */
    struct spotnik_run r = spotnik_fleet_replay(&p, &fleet, &work, 0);
    /* every 9000 s, 1800 s are missing: 36 000 s of work take about 45 000 s, not 36 100 */
    assert_true(r.time_s > 43000 && r.time_s < 47000);
    /* from a random instant of the trace, runs differ */
    struct spotnik_outcome o =
        spotnik_fleet_simulate(&p, &fleet, &work, INFINITY, INFINITY, 100, 1);
    assert_true(o.time_high_s > o.time_low_s + 600);
    spotnik_trace_free(&churn);
}

/* With nothing known the chance is neither 0 nor 1, and the thirds say what it hangs on. */
TEST(ignorance_is_no_certainty)
{
    struct spotnik_profile p = plain();
    struct spotnik_fleet fleet = { .group_count = 1, .batch = 100 };
    struct spotnik_work work = { .epochs = 6 * 3600, .losses_per_h = NAN };
    struct spotnik_offer offer = v100;

    offer.losses_per_h = NAN;
    fleet.groups[0] = (struct spotnik_group){ &offer, &p.devices[0], 2, true, false };
    struct spotnik_outcome o =
        spotnik_fleet_simulate(&p, &fleet, &work, 8 * 3600, INFINITY, 400, 1);
    if (o.on_time < 0.3 || o.on_time > 0.85)
        fail_msg("6 h of work in 8 h at an unknown place: %.2f", o.on_time);
    assert_true(o.third_both[0] > 0.95 && o.third_both[2] < 0.3);
    assert_true(o.third_short[0] < o.third_short[2]);
    fleet.groups[0].spot = false;
    o = spotnik_fleet_simulate(&p, &fleet, &work, 8 * 3600, INFINITY, 400, 1);
    assert_true(o.on_time == 1);
}

/* Two prices in turns: the mean cost is that of the mean price, and single runs differ by the hour
 * they hit. */
TEST(prices_move_costs)
{
    struct spotnik_prices prices;
    struct spotnik_profile profile;

    spotnik_profile_builtin(&profile);
    profile.error = 0;
    profile.paced_devices = 1e6;
    assert_int_equal(
        spotnik_prices_read(file("h.csv", "timestamp_utc,spot_usd_per_h\n2015-03-11T00:00:00Z,1\n"
                                          "2015-03-12T00:00:00Z,3\n2015-03-13T00:00:00Z,1\n"),
                            &prices, NULL),
        0);
    struct spotnik_offer offer = { .instance = "x",
                                   .accelerator = "V100",
                                   .accelerators = 1,
                                   .spot_usd_per_h = 2,
                                   .losses_per_h = 0,
                                   .link_gbps = 10,
                                   .spot_prices = &prices };
    struct spotnik_fleet fleet = { .group_count = 1, .batch = 256 };
    fleet.groups[0] =
        (struct spotnik_group){ &offer, spotnik_profile_device(&profile, "V100"), 4, true, false };
    const struct spotnik_work work = { .epochs = 10, .losses_per_h = 0 };
    struct spotnik_outcome moving =
        spotnik_fleet_simulate(&profile, &fleet, &work, INFINITY, INFINITY, 2000, 1);
    offer.spot_prices = NULL;
    struct spotnik_outcome still =
        spotnik_fleet_simulate(&profile, &fleet, &work, INFINITY, INFINITY, 2000, 1);
    assert_true(fabs(moving.cost_mean_usd / still.cost_mean_usd - 1) < 0.05);
    assert_true(still.cost_high_usd - still.cost_low_usd < 1e-6);
    assert_true(moving.cost_high_usd > 2.5 * moving.cost_low_usd);
    spotnik_prices_free(&prices);
}

TEST(profiles)
{
    struct spotnik_profile p;
    struct spotnik_fault fault;

    assert_int_equal(
        spotnik_profile_read(
            file("j.json", "{\"name\":\"x\",\"devices\":{\"T4\":{\"steps\":[[10,0.2],[20,"
                           "0.3]]}},\"batches\":[32],\"samples_per_epoch\":100,\"gradient_mb\":1}"),
            &p, NULL),
        0);
    assert_true(fabs(p.devices[0].fixed_s - 0.1) < 1e-12
                && fabs(p.devices[0].sample_s - 0.01) < 1e-12);
    assert_int_equal(spotnik_profile_read(file("j.json", "{\"devises\":{}}"), &p, &fault), -1);
    assert_non_null(strstr(fault.text, "key 'devises' is not known"));
    p.critical_batch = 1000;
    p.reference_batch = 100;
    assert_true(fabs(spotnik_profile_epochs(&p, 11, 1000) - 20) < 1e-12);
}

/* Each profile has one value that is JSON and makes no sense; the fault points at it. */
TEST(faults_have_places)
{
    static const struct {
        const char *text, *where;
    } cases[] = {
        { "{\n  \"devises\": {}}", ":2:14: key 'devises' is not known" },
        { "{\"name\": \"a \\\" { [\",\n \"devices\": {\"T4\": {\"samples_per_s\":\n  -5}}}",
          ":3:3: key 'samples_per_s'" },
        { "{\"devices\": {\"A\": {\"samples_per_s\": 5},\n\"B\": {\"samples_per_s\": \"5\"}}}",
          ":2:24: key 'samples_per_s' is not" },
        { "{\"devices\": {\"A\": {\"samples_per_s\": 5}},\n\"batches\": [1,\n\n  0]}",
          ":4:3: batch 2 is not" },
        { "{\"devices\": {\"A\": {\"steps\": [[1, 1], [1]]}}}",
          ":1:38: device 'A': step 2 is not" },
        { "{\"devices\": {\"A\":\n {\"fixed_s\": 1}}}", ":2:2: key 'samples_per_s' is missing" },
        { "{\"name\": \"x\", \"devices\": 7}", ":1:26: 'devices' is an object" },
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct spotnik_profile p;
        struct spotnik_fault fault;
        assert_int_equal(spotnik_profile_read(file("p.json", cases[i].text), &p, &fault), -1);
        if (!strstr(fault.text, cases[i].where))
            fail_msg("wanted '%s' in '%s'", cases[i].where, fault.text);
    }
}

static int teardown(void **state)
{
    static const char *const names[] = { "p.csv", "q.csv", "a.json", "h.csv", "j.json", "p.json" };

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
        unlink(file(names[i], NULL));
    return rmdir(folder);
}

int main(void)
{
    return tests_run(setup, teardown);
}
