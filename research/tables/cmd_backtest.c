/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik backtest`: a policy over many windows of spot availability; means and deviations as
 * JSON. */
#include "calibrate.h"
#include "carryover.h"
#include "dp_policy.h"
#include "hazards.h"
#include "learned.h"
#include "offline_optimum.h"
#include "backtest_policy.h"
#include "price_means.h"
#include "regret_bound.h"
#include "backtest_tally.h"
#include "worlds.h"
#include "cli/plan_args.h"
#include "cli/plan_known.h"

#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: spotnik backtest --windows FILE [--windows FILE]... --policy P --work 48h --deadline "
    "60h --changeover 12m\n"
    "                        [--price-ratio k | --spot-prices FILE [--on-demand-usd X]] "
    "[--pair-speed x] [--notice 2m]\n"
    "                        [--slices n] [--stride 6h] [--each] [--learn-from FILE]...\n"
    "       spotnik backtest --place FILE --place FILE... [--state-gb GB] [--egress-usd 0.02] "
    "[--spot-usd X]\n"
    "                        [--move-time T] --policy P --work 48h --deadline 60h --changeover "
    "12m\n"
    "       spotnik backtest --learn FILE...\n"
    "\n"
    "Policies: on-demand, greedy, sliced, uniform, dp (these hold one machine at a time), "
    "spotnik (dp,\n"
    "holding a spot and an on-demand machine side by side when that pays), offline (a bound: "
    "knows the future, in\n"
    "ticks, one machine). --pair-speed says how fast two machines together are (1 to 2, spotnik: "
    "1.8); with 1 the old\n"
    "machine only works on while its successor starts. Any policy but offline takes it.\n"
    "Costs are in hours of spot price; changeovers are billed. With --spot-prices (timestamp_utc, "
    "spot_usd_per_h) they\n"
    "are in hours of the mean spot price, by the second, and window i starts i strides into the "
    "history. A raw trace is\n"
    "cut into windows, one every --stride. --notice warns before a loss. --learn-from learns the "
    "policy's prior from other\n"
    "traces than the built-in ones; --learn prints such a prior. --cap-usd: spot is taken back "
    "above this "
    "price; dp\n"
    "and spotnik never pay more than on-demand. bound: no policy can be cheaper. --never-dearer "
    "0.02: spotnik does as\n"
    "uniform does, at any price that --cap-usd does not forbid, where it might become dearer by "
    "that share; none: never\n"
    "(so with --spot-prices).\n"
    "With --place the job may move: spot of any place whose trace is given, at first the first. "
    "Traces begin at the\n"
    "same instant. A move pays for --state-gb of egress, in hours of --spot-usd, and its start "
    "takes --move-time\n"
    "longer (8 s a gigabyte). The job moves when it has been without spot for so long that a move "
    "would have paid.\n"
    "\n"
    "       spotnik backtest --calibration --windows FILE... [--learn-from FILE...] [--work 6h "
    "--deadline 8h] [--nodes 4]\n"
    "                        [--stride 6h] [--runs 400] [--regimes 8] [--block 72h] [--past 24h] "
    "[--unknown]\n"
    "                        [--plot FILE.svg] [--json] [--together TEXT]...\n"
    "\n"
    "States the chance of a job for many starts, replays it there, and tells how often each decile "
    "came true.\n"
    "Places of one region are good and bad at the same time, so they count as fewer. --together "
    "us-east-1: traces of one\n"
    "folder with that in their names are of one region, and begin at the same instant.\n"
    "docs/reference/traces.md has the formats of all files.\n";

#define FILES_MAX 64
#define PAIR_SPEED 1.8
#define DEARER_SHARE 0.02
#define EGRESS_USD_PER_GB 0.02
#define CALIBRATION_STARTUP_S 360

struct call {
    const char *windows[FILES_MAX], *learn_from[FILES_MAX], *places[SPOTNIK_PLACES_MAX], *policy,
        *regions[FILES_MAX];
    size_t window_count, learn_from_count, place_count, region_count;
    double state_gb, egress_usd_per_gb, spot_usd_per_h, move_s; /* of the state to another place */
    bool move_given;
    struct spotnik_job_terms terms;
    double stride_s;
    struct spotnik_sliced sliced;
    bool each, learn, calibration, regimes_asked, cap_given, pair_given;
    double cap_usd_per_h;
    double dearer_share; /* than uniform, at most; infinite: no bound */
    struct spotnik_regret_bound regret_bound;
    struct spotnik_calibrate calibrate;
    const char *prices_path;
    struct spotnik_prices prices;
    uint64_t given;             /* which options, one bit for each letter of `options` */
    double on_demand_usd_per_h; /* 0: the price ratio says it */
    double mean_usd_per_h;      /* of the history */
};

static int bound_run(const struct spotnik_window *places, size_t count, double tick_s,
                     const struct spotnik_job_terms *terms, struct spotnik_job_result *result,
                     struct spotnik_fault *fault)
{
    struct spotnik_window any = spotnik_window_any(places, count);
    int rc = any.ticks ? spotnik_bound_run(&any, tick_s, terms, result, fault)
                       : spotnik_fault_set(fault, "out of memory");

    free((void *)any.machines);
    return rc;
}

static int window_run(const struct spotnik_worlds *worlds, size_t i,
                      const struct spotnik_job_terms *terms, const struct spotnik_policy *policy,
                      struct spotnik_job_result *result, struct spotnik_fault *fault)
{
    struct spotnik_window places[SPOTNIK_PLACES_MAX];
    size_t count = worlds->place_count;

    spotnik_worlds_at(worlds, i, places);
    if (policy->choose)
        return spotnik_backtest_run(places, count, worlds->tick_s, terms, policy, result, fault);
    if (!strcmp(policy->name, "bound"))
        return bound_run(places, count, worlds->tick_s, terms, result, fault);
    if (count > 1)
        return spotnik_fault_set(fault,
                                 "offline knows one place; with several take --policy bound");
    return spotnik_offline_optimum_run(places, worlds->tick_s, terms, result, fault);
}

static void window_tell(const struct call *call, const char *path, size_t i,
                        const struct spotnik_job_result *result)
{
    fprintf(stderr,
            "%s window %zu: on-demand %.3f h, spot %.3f h, cost %.3f, finished at %.2f h%s\n", path,
            i + 1, result->on_demand_work_s / 3600, result->spot_work_s / 3600,
            spotnik_backtest_cost(result, call->terms.price_ratio), result->finish_s / 3600,
            result->missed ? ", MISSED" : "");
}

/* All windows of one place, or of several at once. */
static int world_run(struct call *call, const char *const *paths, size_t count,
                     const struct spotnik_policy *policy, struct spotnik_tally *tally,
                     struct spotnik_fault *fault)
{
    struct spotnik_job_result result;
    struct spotnik_worlds worlds;
    struct spotnik_carryover carryover = { .saved = NULL };
    int rc =
        spotnik_worlds_load(paths, count, call->terms.deadline_s, call->stride_s, &worlds, fault)
        || spotnik_carryover_open(&carryover, &call->regret_bound, call->terms.deadline_s,
                                  worlds.cut ? call->stride_s : 0, fault);

    for (size_t i = 0; !rc && i < worlds.count; i++) {
        struct spotnik_job_terms terms = call->terms;
        terms.prices_from_s = (double)i * call->stride_s; /* windows do not say when they were */
        spotnik_carryover_take(&carryover, i);
        rc = window_run(&worlds, i, &terms, policy, &result, fault);
        if (rc)
            break;
        spotnik_carryover_put(&carryover, i, &result, call->terms.price_ratio);
        spotnik_tally_add(tally, &result, call->terms.price_ratio);
        if (call->each)
            window_tell(call, paths[0], i, &result);
    }
    spotnik_carryover_close(&carryover);
    spotnik_worlds_free(&worlds);
    return rc ? -1 : 0;
}

static json_t *tally_json(const struct call *call, const struct spotnik_tally *tally)
{
    double n = (double)tally->windows, all = call->terms.work_s + call->terms.changeover_s;
    json_t *json =
        json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f}", "policy", call->policy, "windows",
                  (json_int_t)tally->windows, "work_h", call->terms.work_s / 3600, "deadline_h",
                  call->terms.deadline_s / 3600, "changeover_h", call->terms.changeover_s / 3600,
                  "price_ratio", call->terms.price_ratio, "pair_speed", call->terms.pair_speed);

    spotnik_sums_put(json, "on_demand_hours", &tally->on_demand_h, tally->windows);
    spotnik_sums_put(json, "spot_hours", &tally->spot_h, tally->windows);
    spotnik_sums_put(json, "cost", &tally->cost, tally->windows);
    json_object_set_new(json, "missed_deadlines", json_integer((json_int_t)tally->missed));
    spotnik_sums_put(json, "on_demand_billed_hours", &tally->on_demand_billed_h, tally->windows);
    spotnik_sums_put(json, "spot_billed_hours", &tally->spot_billed_h, tally->windows);
    spotnik_sums_put(json, "cost_of_work_only", &tally->work_cost, tally->windows);
    if (call->prices_path)
        json_object_set_new(json, "mean_spot_usd_per_h", json_real(call->mean_usd_per_h));
    spotnik_sums_put(json, "finish_h", &tally->finish_h, tally->windows);
    json_object_set_new(json, "changeovers", json_real(tally->changeovers / n));
    json_object_set_new(json, "revocations", json_real(tally->revocations / n));
    if (call->place_count) {
        json_object_set_new(json, "places", json_integer((json_int_t)call->place_count));
        json_object_set_new(json, "moves", json_real(tally->moves / n));
        json_object_set_new(json, "cost_of_moves", json_real(tally->moves_paid / n));
    }
    json_object_set_new(json, "cost_vs_on_demand",
                        json_real(tally->cost.total / n / (all / 3600 * call->terms.price_ratio)));
    return json;
}

/* Regimes for `plan`, where --regimes asks for them. */
static int learn_regimes(const struct call *call, struct spotnik_fault *fault)
{
    struct spotnik_availability availability;

    if (spotnik_availability_read(call->learn_from, call->learn_from_count, call->calibrate.regimes,
                                  &availability, fault))
        return -1;
    spotnik_availability_print(&availability);
    return 0;
}

static int learn(const struct call *call, struct spotnik_fault *fault)
{
    static struct spotnik_hazard_table tables[FILES_MAX];

    if (call->regimes_asked)
        return learn_regimes(call, fault);
    if (spotnik_hazard_tables_load(call->learn_from, call->learn_from_count, tables, fault))
        return -1;
    for (size_t i = 0; i < call->learn_from_count; i++)
        spotnik_hazard_table_print(&tables[i]);
    return 0;
}

static bool given(const struct call *call, const char *letters)
{
    while (*letters && !(call->given >> (*letters - 'A') & 1))
        letters++;
    return *letters;
}

/* Not of several places or machines that share no step; of moving prices where asked for. */
static bool is_bounded(const struct call *call)
{
    return !strcmp(call->policy, "spotnik") && call->terms.pair_speed > 1 && !call->place_count
           && isfinite(call->dearer_share) && (!call->terms.prices || given(call, "D"));
}

static struct spotnik_policy policy_bound(struct call *call, struct spotnik_policy policy)
{
    return is_bounded(call)
               ? spotnik_policy_bounded(&call->regret_bound, policy, call->dearer_share)
               : policy;
}

/* Spot above on-demand is never worth it, and is taken from our policies. A bounded one drops it by
 * itself: it may have to follow Uniform Progress, which pays any price. */
static void prices_cap(struct call *call)
{
    struct spotnik_job_terms *terms = &call->terms;

    if (!terms->prices)
        return;
    if (!call->cap_given && is_bounded(call))
        terms->worth = terms->price_ratio;
    else if (!call->cap_given && (!strcmp(call->policy, "spotnik") || !strcmp(call->policy, "dp")))
        terms->cap = terms->price_ratio;
    double most = terms->worth > 0 ? terms->worth : terms->cap;
    if (most > 0)
        terms->price_typical = fmax(0, spotnik_prices_mean_below(terms->prices, most));
}

/* The policy by name; `dp` is freed by the caller. */
static int policy_make(struct call *call, struct spotnik_policy *policy_out,
                       struct spotnik_dp_policy **dp_out, struct spotnik_fault *fault)
{
    static struct spotnik_hazard_table tables[FILES_MAX];
    const char *name = call->policy;

    if (!strcmp(name, "spotnik") && !call->pair_given)
        call->terms.pair_speed = call->place_count > 1 ? 1 : PAIR_SPEED;
    prices_cap(call);
    if (!strcmp(name, "greedy"))
        *policy_out = spotnik_policy_greedy();
    else if (!strcmp(name, "uniform") || !strcmp(name, "uniform-progress") || !strcmp(name, "up"))
        *policy_out = spotnik_policy_uniform();
    else if (!strcmp(name, "sliced") || !strcmp(name, "time-sliced"))
        *policy_out = spotnik_policy_sliced(&call->sliced);
    else if (!strcmp(name, "offline") || !strcmp(name, "bound"))
        *policy_out = (struct spotnik_policy){ .name = name }; /* it does not choose as it goes */
    else if (!strcmp(name, "on-demand"))
        *policy_out = spotnik_policy_on_demand();
    else if (strcmp(name, "dp") && strcmp(name, "spotnik"))
        return spotnik_fault_set(
            fault,
            "no policy '%s'; there are on-demand, greedy, sliced, uniform, dp, spotnik, "
            "offline and bound",
            name);
    else if (spotnik_hazard_tables_load(call->learn_from, call->learn_from_count, tables, fault)
             || spotnik_dp_policy_new(&call->terms,
                                      call->learn_from_count ? tables
                                                             : spotnik_hazard_tables_builtin,
                                      call->learn_from_count ? call->learn_from_count
                                                             : spotnik_hazard_tables_builtin_count,
                                      dp_out, fault))
        return -1;
    else
        *policy_out = policy_bound(call, spotnik_policy_dp(*dp_out));
    return 0;
}

/* Prices are counted in their own mean, as without a history. */
static int prices_load(struct call *call, struct spotnik_fault *fault)
{
    if (!call->prices_path)
        return call->on_demand_usd_per_h > 0
                   ? spotnik_fault_set(
                         fault, "--on-demand-usd needs --spot-prices; without, give --price-ratio")
                   : 0;
    if (spotnik_prices_read(call->prices_path, &call->prices, fault))
        return -1;
    if (call->on_demand_usd_per_h > 0)
        call->terms.price_ratio = call->on_demand_usd_per_h / spotnik_prices_mean(&call->prices);
    call->mean_usd_per_h = spotnik_prices_mean(&call->prices);
    call->terms.cap = call->cap_usd_per_h / call->mean_usd_per_h;
    spotnik_prices_normalise(&call->prices);
    call->terms.prices = &call->prices;
    return 0;
}

/* What moving the state costs, in hours of the spot price. */
static int moves_price(struct call *call, struct spotnik_fault *fault)
{
    double usd = call->state_gb * call->egress_usd_per_gb;
    double unit = call->spot_usd_per_h > 0 ? call->spot_usd_per_h : call->mean_usd_per_h;

    if (!call->place_count)
        return call->state_gb > 0
                   ? spotnik_fault_set(fault, "--state-gb needs --place, for each place its trace")
                   : 0;
    if (usd > 0 && !(unit > 0))
        return spotnik_fault_set(
            fault, "--state-gb needs --spot-usd, the price of an hour of spot (or --spot-prices)");
    call->terms.move_cost = usd > 0 ? usd / unit : 0;
    call->terms.move_s = call->move_given ? call->move_s : call->state_gb * SPOTNIK_MOVE_S_PER_GB;
    return 0;
}

static int backtest(struct call *call, struct spotnik_fault *fault)
{
    struct spotnik_dp_policy *dp = NULL;
    struct spotnik_policy policy;
    struct spotnik_tally tally = { 0 };

    if (prices_load(call, fault) || moves_price(call, fault)
        || spotnik_job_terms_check(&call->terms, fault) || policy_make(call, &policy, &dp, fault))
        return -1;
    int rc = 0;
    if (call->place_count)
        rc = world_run(call, call->places, call->place_count, &policy, &tally, fault);
    for (size_t i = 0; !rc && i < call->window_count; i++)
        rc = world_run(call, &call->windows[i], 1, &policy, &tally, fault);
    spotnik_dp_policy_free(dp);
    spotnik_prices_free(&call->prices);
    return rc ? rc : spotnik_cli_json(tally_json(call, &tally));
}

static int calibration(struct call *call, struct spotnik_fault *fault)
{
    struct spotnik_calibrate *c = &call->calibrate;

    c->traces = call->windows;
    c->trace_count = call->window_count;
    c->learn_from = call->learn_from;
    c->learn_from_count = call->learn_from_count;
    c->regions = call->regions;
    c->region_count = call->region_count;
    c->work_s = call->terms.work_s;
    c->deadline_s = call->terms.deadline_s;
    c->startup_s = call->terms.changeover_s > 0 ? call->terms.changeover_s : CALIBRATION_STARTUP_S;
    c->stride_s = call->stride_s;
    if ((c->work_s > 0) != (c->deadline_s > 0))
        return spotnik_fault_set(
            fault,
            "--calibration takes --work and --deadline together, or neither for a set of jobs");
    return spotnik_calibrate(c, fault);
}

/* What the call would pass over in silence; NULL: nothing. */
static const char *passed_over(const struct call *call)
{
    const char *policy = call->policy ? call->policy : "";
    bool learns = !strcmp(policy, "spotnik") || !strcmp(policy, "dp"),
         sliced = !strcmp(policy, "sliced") || !strcmp(policy, "time-sliced"),
         runs = !call->learn && !call->calibration;
    const struct spotnik_cli_rule rules[] = {
        { call->learn && given(call, "wpWdoksvenHuKCUgjNrbPxGESMtDq"),
          "--learn takes traces, --learn-from and --regimes, and nothing else" },
        { call->calibration && given(call, "pksvenHuKxGESMD"),
          "--calibration replays plans, not policies: leave --policy, prices and places out" },
        { runs && given(call, "UgjNrbPRq"), "--unknown, --plot, --json, --nodes, --runs, --block, "
                                            "--past, --together and --regimes are "
                                            "of --calibration: give that, or leave them out" },
        { runs && given(call, "c") && *policy && !learns,
          "--learn-from teaches the policies spotnik and dp alone: leave them out" },
        { runs && given(call, "s") && *policy && !sliced,
          "--slices are of the policy sliced: leave them out" },
        { runs && given(call, "D") && *policy && strcmp(policy, "spotnik"),
          "--never-dearer is of the policy spotnik alone: leave it out" },
        { runs && given(call, "D") && isfinite(call->dearer_share)
              && (call->place_count || (call->pair_given && call->terms.pair_speed <= 1)),
          "--never-dearer holds for one place, and machines that work together (--pair-speed above "
          "1): leave it out" },
        { runs && given(call, "K") && !call->prices_path,
          "--cap-usd caps prices that move: give them with --spot-prices" },
        { given(call, "k") && given(call, "u"),
          "--price-ratio and --on-demand-usd both say what on-demand costs: give one" },
        { runs && given(call, "ESM") && !call->place_count,
          "--egress-usd, --spot-usd and --move-time are of a state that moves: give --place for "
          "each place" },
    };

    return spotnik_cli_rule_broken(rules, sizeof(rules) / sizeof(*rules));
}

static bool above_zero(const char *option, double *seconds_out)
{
    return spotnik_cli_duration("backtest", option, optarg, false, seconds_out)
           && (*seconds_out > 0
               || spotnik_cli_refuse("backtest", 0, "%s '%s' is not above zero", option, optarg));
}

static bool read_option(void *context, int option)
{
    struct call *call = context;

    if (option >= 'A' && option <= 'z')
        call->given |= (uint64_t)1 << (option - 'A');
    switch (option) {
    case 'w':
        return spotnik_cli_append("backtest", optarg, call->windows, &call->window_count,
                                  FILES_MAX);
    case 'c':
        return spotnik_cli_append("backtest", optarg, call->learn_from, &call->learn_from_count,
                                  FILES_MAX);
    case 'p':
        call->policy = optarg;
        return true;
    case 'W':
        return spotnik_cli_duration("backtest", "--work", optarg, false, &call->terms.work_s);
    case 'd':
        return spotnik_cli_duration("backtest", "--deadline", optarg, false,
                                    &call->terms.deadline_s);
    case 'o':
        return spotnik_cli_duration("backtest", "--changeover", optarg, false,
                                    &call->terms.changeover_s);
    case 't':
        return above_zero("--stride", &call->stride_s);
    case 'k':
        return spotnik_cli_number("backtest", "--price-ratio", optarg, 1e-3, 1e3,
                                  &call->terms.price_ratio);
    case 's':
        return spotnik_cli_count("backtest", "--slices", optarg, 1, 10000, &call->sliced.slices);
    case 'v':
        call->pair_given = true;
        return spotnik_cli_number("backtest", "--pair-speed", optarg, 0, 2,
                                  &call->terms.pair_speed);
    case 'n':
        return spotnik_cli_duration("backtest", "--notice", optarg, false, &call->terms.notice_s);
    case 'H':
        call->prices_path = optarg;
        return true;
    case 'u':
        return spotnik_cli_number("backtest", "--on-demand-usd", optarg, 1e-6, 1e4,
                                  &call->on_demand_usd_per_h);
    case 'x':
        return spotnik_cli_append("backtest", optarg, call->places, &call->place_count,
                                  SPOTNIK_PLACES_MAX);
    case 'G':
        return spotnik_cli_number("backtest", "--state-gb", optarg, 0, 1e7, &call->state_gb);
    case 'E':
        return spotnik_cli_number("backtest", "--egress-usd", optarg, 0, 1e3,
                                  &call->egress_usd_per_gb);
    case 'S':
        return spotnik_cli_number("backtest", "--spot-usd", optarg, 1e-6, 1e4,
                                  &call->spot_usd_per_h);
    case 'M':
        call->move_given = true;
        return spotnik_cli_duration("backtest", "--move-time", optarg, true, &call->move_s);
    case 'D':
        call->dearer_share = INFINITY;
        return !strcmp(optarg, "none")
               || spotnik_cli_number("backtest", "--never-dearer", optarg, 0, 100,
                                     &call->dearer_share);
    case 'e':
        call->each = true;
        return true;
    case 'K':
        call->cap_given = true;
        return spotnik_cli_number("backtest", "--cap-usd", optarg, 0, 1e4, &call->cap_usd_per_h);
    case 'l':
        call->learn = true;
        return true;
    case 'C':
        call->calibration = true;
        return true;
    case 'U':
        call->calibrate.unknown = true;
        return true;
    case 'g':
        call->calibrate.plot = optarg;
        return true;
    case 'q':
        return spotnik_cli_append("backtest", optarg, call->regions, &call->region_count,
                                  FILES_MAX);
    case 'j':
        call->calibrate.json = true;
        return true;
    case 'N':
        return spotnik_cli_count("backtest", "--nodes", optarg, 1, 1024, &call->calibrate.machines);
    case 'R':
        call->regimes_asked = true;
        return spotnik_cli_count("backtest", "--regimes", optarg, 1, SPOTNIK_REGIMES_MAX,
                                 &call->calibrate.regimes);
    case 'r':
        return spotnik_cli_count("backtest", "--runs", optarg, 20, SPOTNIK_FLEET_RUNS_MAX,
                                 &call->calibrate.runs);
    case 'b':
        return above_zero("--block", &call->calibrate.block_s);
    case 'P':
        return spotnik_cli_duration("backtest", "--past", optarg, false, &call->calibrate.past_s);
    default:
        return false;
    }
}

static const struct option options[] = {
    { "windows", 1, 0, 'w' },       { "policy", 1, 0, 'p' },
    { "work", 1, 0, 'W' },          { "deadline", 1, 0, 'd' },
    { "changeover", 1, 0, 'o' },    { "price-ratio", 1, 0, 'k' },
    { "slices", 1, 0, 's' },        { "stride", 1, 0, 't' },
    { "pair-speed", 1, 0, 'v' },    { "each", 0, 0, 'e' },
    { "notice", 1, 0, 'n' },        { "spot-prices", 1, 0, 'H' },
    { "on-demand-usd", 1, 0, 'u' }, { "learn", 0, 0, 'l' },
    { "cap-usd", 1, 0, 'K' },       { "learn-from", 1, 0, 'c' },
    { "calibration", 0, 0, 'C' },   { "unknown", 0, 0, 'U' },
    { "plot", 1, 0, 'g' },          { "json", 0, 0, 'j' },
    { "nodes", 1, 0, 'N' },         { "regimes", 1, 0, 'R' },
    { "runs", 1, 0, 'r' },          { "block", 1, 0, 'b' },
    { "past", 1, 0, 'P' },          { "place", 1, 0, 'x' },
    { "state-gb", 1, 0, 'G' },      { "egress-usd", 1, 0, 'E' },
    { "spot-usd", 1, 0, 'S' },      { "move-time", 1, 0, 'M' },
    { "never-dearer", 1, 0, 'D' },  { "together", 1, 0, 'q' },
    { "help", 0, 0, 'h' },          { 0, 0, 0, 0 },
};

int main(int argc, char **argv)
{
    /* p3.2xlarge: 3.06 USD/h on demand, 0.92 spot (Can't Be Late, section 6) */
    struct call call = { .terms = { .price_ratio = 3.06 / 0.92 },
                         .stride_s = 6 * 3600,
                         .egress_usd_per_gb = EGRESS_USD_PER_GB,
                         .sliced = { 10 },
                         .dearer_share = DEARER_SHARE,
                         .calibrate = { .machines = 4,
                                        .runs = 400,
                                        .regimes = SPOTNIK_REGIMES_LEARNED,
                                        .block_s = 72 * 3600,
                                        .past_s = 24 * 3600 } };
    struct spotnik_fault fault;
    int done = spotnik_cli_options(argc, argv, "h", options, usage, read_option, &call);
    if (done >= 0)
        return done;
    for (; call.learn && optind < argc; optind++)
        if (!spotnik_cli_append("backtest", argv[optind], call.learn_from, &call.learn_from_count,
                                FILES_MAX))
            return SPOTNIK_EXIT_USAGE;
    const char *over = passed_over(&call);
    if (over)
        return spotnik_cli_refuse("backtest", SPOTNIK_EXIT_USAGE, "%s", over);
    if (call.calibration && call.window_count && optind == argc) {
        if (calibration(&call, &fault))
            return spotnik_cli_refuse("backtest", SPOTNIK_EXIT_FAILED, "%s", fault.text);
        return SPOTNIK_EXIT_OK;
    }
    bool one_world = !call.window_count != !call.place_count; /* --windows or --place */
    const char *missing = call.learn   ? (call.learn_from_count ? NULL : "a trace to learn from")
                          : !one_world ? "--windows or --place, one of both"
                          : call.calibration   ? "--windows, for the starts"
                          : !call.policy       ? "--policy"
                          : !given(&call, "W") ? "--work"
                          : !given(&call, "d") ? "--deadline"
                                               : NULL;
    if (optind < argc)
        return spotnik_cli_refuse("backtest", SPOTNIK_EXIT_USAGE, "what is '%s'? See --help",
                                  argv[optind]);
    if (missing)
        return spotnik_cli_refuse("backtest", SPOTNIK_EXIT_USAGE,
                                  "what is missing is %s; see --help", missing);
    if (call.learn ? learn(&call, &fault) : backtest(&call, &fault))
        return spotnik_cli_refuse("backtest", SPOTNIK_EXIT_FAILED, "%s", fault.text);
    return SPOTNIK_EXIT_OK;
}
