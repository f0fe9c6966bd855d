/* SPDX-License-Identifier: Apache-2.0 */
/* `spotnik plan`: how many of which machine, spot or not, with which batch, to be done by a
 * deadline or under a budget, and how sure. */
#include "common/options.h"
#include "plan_args.h"
#include "plan_known.h"
#include "plan_output.h"
#include "plan/filter.h"
#include "plan_status.h"
#include "price_cache.h"

#include <getopt.h>
#include <fnmatch.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: spotnik plan --target epochs=90 [OPTION]... [-- COMMAND...]\n"
    "       spotnik plan explain --target epochs=90 [OPTION]...    how each number came about\n\n"
    "  --target epochs=N|steps=N|samples=N   how much work it is\n"
    "  --deadline TIME      be done by then, such as 6h\n"
    "  --budget USD         pay at most this; with neither, the knee of time and cost is chosen\n"
    "  --profile FILE       what spotnik profile printed, or a description [an example job]\n"
    "  --prices FILE        price list; several add up [those of spotnik prices update, else a "
    "built-in table]\n"
    "  --only spot|on-demand\n"
    "  --machines N         at most [64]\n"
    "  --region PATTERN     look at these only; may be repeated\n"
    "  --accelerator NAME   likewise\n"
    "  --from-status FILE   plan anew for a job that runs: what spotnik status --json printed\n"
    "  --running TYPE[@ZONE]=spot|on-demand[:N[/WANTED]]   what its members are rented as\n"
    "  -o FORMAT            table, json, skypilot, ec2-fleet, kubernetes or slurm [table]\n\n"
    "spotnik plan --help-all has the rest. Exit status: 0 a plan; 1 no plan, or bad input; 2 bad "
    "usage.\n";

static const char usage_rest[] =
    "\nThe rest:\n"
    "  --confidence P       chance wanted of meeting deadline and budget together [0.95]\n"
    "  --best               plan for the best chance when nothing is sure enough\n"
    "  --cloud, --zone, --type PATTERN, --gpu-memory GIB   look at these only\n"
    "  --quota TYPE=N       machines of a type at most\n"
    "  --prices-age TIME    how old kept prices may be [7d]; --prices builtin: a small table\n"
    "  --advisor FILE       Spot Advisor: how often machines are lost\n"
    "  --history TYPE=FILE  spot prices over time, which runs pay by the second\n"
    "  --data GB@REGION --egress-usd X   data moved to every other region; a gigabyte costs "
    "[0.02]\n"
    "  --storage-usd X      a gigabyte of checkpoints and month; two are kept [0]\n"
    "  --availability TYPE[@ZONE]=TRACE  what was seen of spot capacity at a place until now\n"
    "  --learn-from TRACE   how places fare of which nothing was seen\n"
    "  --losses-per-h X     of machines that the prices do not tell it of\n"
    "  --lifetimes FILE, --cap TIME   of single machines; the age at which the provider ends them\n"
    "  --churn TRACE [--speedup X]    capacity as in the trace; every run begins at another "
    "instant\n"
    "  --follow TIME        you plan anew that often (spotnik fleet --replan-every): machines on "
    "demand take over when\n"
    "                       spot machines would be late. Implies --release\n"
    "  --release            what runs may be given back\n"
    "  --batch N, --elapsed TIME, --spent USD   of the running job, where its status does not "
    "tell\n"
    "  --clock X            the job runs X times as fast as its trace\n"
    "  --seed N, --runs N   of the simulation [1, 400]\n\n"
    "docs/reference/plan-files.md and docs/reference/traces.md have the formats of all files.\n";

#define FILES_MAX 16

struct call {
    struct spotnik_wish wish;
    struct spotnik_profile profile;
    struct spotnik_catalog catalog;
    struct spotnik_plan_context context;
    const char *profile_path, *prices[FILES_MAX], *histories[FILES_MAX], *advisor, *format,
        *churn_path;
    struct spotnik_standing standing;
    struct spotnik_trace churn;
    double speedup; /* of the trace */
    struct spotnik_filter filter;
    double prices_age_s;
    struct spotnik_known known;
    const char *target, *only;
    size_t price_count, history_count;
    bool explain, prices_age_given, egress_given;
};

static const char target_kinds[] = "--target is epochs=N, steps=N or samples=N";

static int target_read(struct call *call, struct spotnik_fault *fault)
{
    static const char *const kinds[] = { "epochs=", "steps=", "samples=" };
    double value;

    for (size_t i = 0; i < 3; i++) {
        if (strncmp(call->target, kinds[i], strlen(kinds[i])))
            continue;
        if (!spotnik_number_parse(call->target + strlen(kinds[i]), &value) || !(value > 0))
            return spotnik_fault_set(fault,
                                     "--target '%s': what follows '=' is not a number above zero%s",
                                     call->target,
                                     strchr(call->target, ',')
                                         ? " (decimals are written with a point)"
                                         : "");
        double samples = i == 1 ? value * call->profile.reference_batch : value;
        call->wish.work.epochs = i == 0 ? value : samples / call->profile.samples_per_epoch;
        return 0;
    }
    return spotnik_fault_set(fault, "%s, not %s", target_kinds, call->target);
}

static int profile_load(struct call *call, struct spotnik_fault *fault)
{
    if (call->profile_path)
        return spotnik_profile_read(call->profile_path, &call->profile, fault);
    spotnik_profile_builtin(&call->profile);
    return 0;
}

/* A quota that names nothing would not be kept, and nobody would see it. */
static int quotas_check(const struct call *call, struct spotnik_fault *fault)
{
    for (size_t q = 0; q < call->wish.quota_count; q++) {
        size_t i = 0;
        while (i < call->catalog.count
               && fnmatch(call->wish.quotas[q].type, call->catalog.offers[i].instance, 0))
            i++;
        if (i == call->catalog.count)
            return spotnik_fault_set(fault, "--quota '%s=%u': no type of the catalog is called so",
                                     call->wish.quotas[q].type, call->wish.quotas[q].machines);
    }
    return 0;
}

static int prices_load(struct call *call, struct spotnik_fault *fault)
{
    bool kept = false, builtin = call->price_count == 1 && !strcmp(call->prices[0], "builtin");
    int rc = 0;

    if (!call->price_count
        && spotnik_price_cache_load(&call->catalog, call->prices_age_s, &kept, fault))
        return -1;
    if (((!call->price_count && !kept) || builtin)
        && spotnik_catalog_builtin(&call->catalog, fault))
        return -1;
    for (size_t i = 0; !rc && !builtin && i < call->price_count; i++)
        rc = spotnik_catalog_read(&call->catalog, call->prices[i], fault);
    if (!rc)
        spotnik_catalog_complete(&call->catalog);
    if (!rc && call->advisor)
        rc = spotnik_catalog_advise(&call->catalog, call->advisor, fault);
    for (size_t i = 0; !rc && i < call->history_count; i++)
        rc = spotnik_catalog_history(&call->catalog, call->histories[i], fault);
    if (!rc)
        rc = quotas_check(call, fault);
    return rc ? rc : spotnik_catalog_filter(&call->catalog, &call->filter, fault);
}

/* A trace to replay, from a random instant for every run unless it says where to begin. */
static int churn_load(struct call *call, struct spotnik_fault *fault)
{
    if (!call->churn_path)
        return 0;
    if (spotnik_trace_load(call->churn_path, &call->churn, fault))
        return -1;
    spotnik_trace_scale(&call->churn, 1 / call->speedup);
    call->wish.work.churn = &call->churn;
    return 0;
}

static int plan_run(struct call *call, spotnik_plan_printer print, struct spotnik_fault *fault)
{
    struct spotnik_plan *plan = calloc(1, sizeof(*plan));

    call->context.plan = plan;
    call->context.profile = &call->profile;
    call->context.wish = &call->wish;
    call->context.catalog = &call->catalog;
    call->context.standing = &call->standing;
    int rc = plan ? 0 : spotnik_fault_set(fault, "out of memory");
    if (!rc)
        rc = profile_load(call, fault) || target_read(call, fault) || prices_load(call, fault)
                     || churn_load(call, fault)
                     || spotnik_known_load(&call->known, &call->catalog, &call->wish.work, fault)
                     || spotnik_standing_apply(&call->standing, &call->profile, &call->catalog,
                                               &call->wish, fault)
                     || spotnik_plan_make(&call->catalog, &call->profile, &call->wish, plan, fault)
                 ? -1
                 : 0;
    if (!rc && print(&call->context, stdout))
        rc = spotnik_fault_set(fault, "%s",
                               *plan->binding
                                   ? plan->binding
                                   : "this format cannot say this plan (ec2-fleet rents from AWS "
                                     "alone: --cloud aws), or the output cannot be written");
    else if (!rc && !plan->found)
        rc = spotnik_fault_set(fault, "%s", plan->binding);
    spotnik_trace_free(&call->churn);
    spotnik_known_free(&call->known);
    spotnik_standing_free(&call->standing);
    free(plan);
    return rc;
}

static bool read_number(struct call *call, int option)
{
    double value;

    switch (option) {
    case 'd':
        return spotnik_cli_duration("plan", "--deadline", optarg, false, &call->wish.deadline_s)
               && (call->wish.deadline_s > 0
                   || spotnik_cli_refuse("plan", 0, "--deadline is not above zero"));
    case 'b':
        return spotnik_cli_number("plan", "--budget", optarg, 1e-9, 1e12, &call->wish.budget_usd);
    case 'B':
        return spotnik_cli_number("plan", "--batch", optarg, 1, 1e9, &call->standing.batch);
    case 'E':
        return spotnik_cli_duration("plan", "--elapsed", optarg, false, &call->standing.elapsed_s);
    case 'X':
        return spotnik_cli_number("plan", "--spent", optarg, 0, 1e12, &call->standing.spent_usd);
    case 'U':
        return spotnik_cli_number("plan", "--speedup", optarg, 1e-3, 1e6, &call->speedup);
    case 'c':
        return spotnik_cli_number("plan", "--confidence", optarg, 0.01, 0.9999,
                                  &call->wish.confidence);
    case 'G':
        return spotnik_cli_duration("plan", "--cap", optarg, false, &call->wish.work.cap_s);
    case 'l':
        return spotnik_cli_number("plan", "--losses-per-h", optarg, 0, 1000,
                                  &call->wish.work.losses_per_h);
    case 'm':
        return spotnik_cli_count("plan", "--machines", optarg, 1, 1024, &call->wish.machines_most);
    case 'r':
        return spotnik_cli_count("plan", "--runs", optarg, 20, SPOTNIK_FLEET_RUNS_MAX,
                                 &call->wish.runs);
    case 'e':
        if (!spotnik_cli_number("plan", "--seed", optarg, 0, 9e15, &value)
            || (value != floor(value)
                && spotnik_cli_refuse("plan", 1, "--seed '%s' is not a whole number", optarg)))
            return false;
        call->wish.seed = (uint64_t)value;
        return true;
    default:
        return false;
    }
}

static bool pattern_add(struct spotnik_patterns *patterns)
{
    return spotnik_cli_append("plan", optarg, patterns->list, &patterns->count,
                              SPOTNIK_PATTERNS_MAX);
}

/* "p4d.*=2" */
static bool quota_add(struct call *call)
{
    char *number = strchr(optarg, '=');
    unsigned machines;

    if (!number || call->wish.quota_count == SPOTNIK_QUOTAS_MAX)
        return spotnik_cli_refuse("plan", 0,
                                  "--quota '%s' is not TYPE=N, or there are more than %d", optarg,
                                  SPOTNIK_QUOTAS_MAX)
               != 0;
    *number++ = '\0';
    if (!spotnik_cli_count("plan", "--quota", number, 0, 1024, &machines))
        return false;
    call->wish.quotas[call->wish.quota_count].type = optarg;
    call->wish.quotas[call->wish.quota_count++].machines = machines;
    return true;
}

/* "500@us-east-1": gigabytes, and where they are. */
static bool data_read(struct call *call)
{
    char *at = strchr(optarg, '@');

    if (!at || !at[1])
        return spotnik_cli_refuse("plan", 0, "--data '%s' is not GB@REGION", optarg) != 0;
    *at++ = '\0';
    call->wish.work.data_region = at;
    return spotnik_cli_number("plan", "--data", optarg, 0, 1e9, &call->wish.work.data_gb);
}

enum { HELP_ALL = 511, DATA, EGRESS, STORAGE, CLOCK, RELEASE, BEST, FOLLOW };
enum { CLOUD = 256, REGION, ZONE, TYPE, ACCELERATOR, GPU_MEMORY, QUOTA, PRICES_AGE };

static bool read_filter(struct call *call, int option)
{
    switch (option) {
    case CLOUD:
        return pattern_add(&call->filter.clouds);
    case REGION:
        return pattern_add(&call->filter.regions);
    case ZONE:
        return pattern_add(&call->filter.zones);
    case TYPE:
        return pattern_add(&call->filter.types);
    case ACCELERATOR:
        return pattern_add(&call->filter.accelerators);
    case GPU_MEMORY:
        return spotnik_cli_number("plan", "--gpu-memory", optarg, 0, 1e5,
                                  &call->filter.accelerator_gib);
    case QUOTA:
        return quota_add(call);
    case DATA:
        return data_read(call);
    case EGRESS:
        call->egress_given = true;
        return spotnik_cli_number("plan", "--egress-usd", optarg, 0, 100,
                                  &call->wish.work.egress_usd_per_gb);
    case STORAGE:
        return spotnik_cli_number("plan", "--storage-usd", optarg, 0, 100,
                                  &call->wish.work.storage_usd_per_gb_month);
    case CLOCK:
        return spotnik_cli_number("plan", "--clock", optarg, 1e-3, 1e6, &call->standing.clock);
    case RELEASE:
        return call->wish.release = true;
    case BEST:
        return call->wish.best = true;
    case FOLLOW:
        return spotnik_cli_duration("plan", "--follow", optarg, false, &call->wish.follow_s)
               && ((call->wish.release = call->wish.follow_s > 0)
                   || spotnik_cli_refuse("plan", 0, "--follow is not above zero"));
    case PRICES_AGE:
        call->prices_age_given = true;
        return spotnik_cli_duration("plan", "--prices-age", optarg, false, &call->prices_age_s);
    default:
        return false;
    }
}

static bool read_option(void *context, int option)
{
    struct call *call = context;
    switch (option) {
    case HELP_ALL:
        fputs(usage, stdout);
        fputs(usage_rest, stdout);
        exit(SPOTNIK_EXIT_OK);
    case 't':
        call->target = optarg;
        return true;
    case 'p':
        call->profile_path = optarg;
        return true;
    case 'P':
        return spotnik_cli_append("plan", optarg, call->prices, &call->price_count, FILES_MAX);
    case 'H':
        return spotnik_cli_append("plan", optarg, call->histories, &call->history_count, FILES_MAX);
    case 'a':
        call->advisor = optarg;
        return true;
    case 's':
        call->standing.path = optarg;
        return true;
    case 'R':
        return spotnik_cli_append("plan", optarg, call->standing.running,
                                  &call->standing.running_count, SPOTNIK_RUNNING_MAX);
    case 'C':
        call->churn_path = optarg;
        return true;
    case 'A':
        return spotnik_cli_append("plan", optarg, call->known.seen, &call->known.seen_count,
                                  SPOTNIK_SEEN_MAX);
    case 'K':
        return spotnik_cli_append("plan", optarg, call->known.learn_from,
                                  &call->known.learn_from_count, SPOTNIK_SEEN_MAX);
    case 'L':
        call->known.lifetimes = optarg;
        return true;
    case 'o':
        call->format = optarg;
        return true;
    case 'y':
        if (call->only && strcmp(call->only, optarg) != 0)
            return spotnik_cli_refuse("plan", 0, "--only %s and --only %s leave nothing: give one",
                                      call->only, optarg)
                   != 0;
        call->only = optarg;
        call->wish.spot = !strcmp(optarg, "spot");
        call->wish.on_demand = !strcmp(optarg, "on-demand");
        return call->wish.spot || call->wish.on_demand
               || spotnik_cli_refuse("plan", 0, "--only is spot or on-demand, not '%s'", optarg);
    default:
        return read_filter(call, option) || read_number(call, option);
    }
}

/* Options about a running job, without one. */
static const char *job_is_whole(const struct call *call)
{
    const struct spotnik_standing *job = &call->standing;
    bool told =
        !isnan(job->elapsed_s) || !isnan(job->spent_usd) || job->batch > 0 || job->clock != 1;
    const struct spotnik_cli_rule rules[] = {
        { told, "--elapsed, --spent, --batch and --clock are about a running job: give its status "
                "too, with --from-status" },
    };

    return job->path ? NULL : spotnik_cli_rule_broken(rules, sizeof(rules) / sizeof(*rules));
}

/* What would be passed over in silence, or can mean nothing. */
static const char *call_is_whole(const struct call *call)
{
    const char *job = job_is_whole(call);
    const struct spotnik_cli_rule rules[] = {
        { !call->target, "how much work is it? --target is epochs=N, steps=N or samples=N" },
        { job != NULL, job },
        { call->speedup != 1 && !call->churn_path,
          "--speedup is of the trace that --churn names: give both" },
        { call->churn_path && (!isnan(call->wish.work.losses_per_h) || call->known.seen_count),
          "--churn replays one trace for all spot machines, so --losses-per-h and --availability "
          "say nothing beside it: leave it, or them, out" },
        { call->prices_age_given && call->price_count,
          "--prices-age is of the prices that are kept, and --prices names others: leave one out" },
        { call->egress_given && !call->wish.work.data_region && !call->standing.path,
          "--egress-usd pays for what moves: say what that is, with --data GB@REGION or, of a "
          "running job, --from-status" },
        { call->explain && call->format, "explain is a text: leave -o out" },
        { call->wish.follow_s > 0 && !call->wish.on_demand,
          "--follow counts on machines on demand that take over: leave --only spot out" },
    };

    return spotnik_cli_rule_broken(rules, sizeof(rules) / sizeof(*rules));
}

/* The words after "--" as one shell command; false when they are too long to keep. */
static bool command_join(struct call *call, int argc, char **argv)
{
    char *to = call->context.command;
    size_t used = 0, room = sizeof(call->context.command);

    snprintf(to, room, "./train");
    for (int i = optind; i < argc; i++) {
        if (used + 6 * strlen(argv[i]) + 8 > room)
            return false;
        if (i > optind)
            to[used++] = ' ';
        used += option_quote(argv[i], to + used, room - used);
    }
    return true;
}

static const struct option options[] = {
    { "deadline", 1, 0, 'd' },
    { "budget", 1, 0, 'b' },
    { "target", 1, 0, 't' },
    { "profile", 1, 0, 'p' },
    { "prices", 1, 0, 'P' },
    { "history", 1, 0, 'H' },
    { "advisor", 1, 0, 'a' },
    { "confidence", 1, 0, 'c' },
    { "machines", 1, 0, 'm' },
    { "only", 1, 0, 'y' },
    { "losses-per-h", 1, 0, 'l' },
    { "from-status", 1, 0, 's' },
    { "running", 1, 0, 'R' },
    { "batch", 1, 0, 'B' },
    { "elapsed", 1, 0, 'E' },
    { "clock", 1, 0, CLOCK },
    { "release", 0, 0, RELEASE },
    { "best", 0, 0, BEST },
    { "follow", 1, 0, FOLLOW },
    { "spent", 1, 0, 'X' },
    { "churn", 1, 0, 'C' },
    { "availability", 1, 0, 'A' },
    { "learn-from", 1, 0, 'K' },
    { "lifetimes", 1, 0, 'L' },
    { "cap", 1, 0, 'G' },
    { "speedup", 1, 0, 'U' },
    { "seed", 1, 0, 'e' },
    { "runs", 1, 0, 'r' },
    { "cloud", 1, 0, CLOUD },
    { "region", 1, 0, REGION },
    { "zone", 1, 0, ZONE },
    { "type", 1, 0, TYPE },
    { "accelerator", 1, 0, ACCELERATOR },
    { "gpu-memory", 1, 0, GPU_MEMORY },
    { "quota", 1, 0, QUOTA },
    { "prices-age", 1, 0, PRICES_AGE },
    { "data", 1, 0, DATA },
    { "egress-usd", 1, 0, EGRESS },
    { "storage-usd", 1, 0, STORAGE },
    { "output", 1, 0, 'o' },
    { "help", 0, 0, 'h' },
    { "help-all", 0, 0, HELP_ALL },
    { 0, 0, 0, 0 },
};

int main(int argc, char **argv)
{
    struct call call = { .wish = { .deadline_s = INFINITY,
                                   .budget_usd = INFINITY,
                                   .confidence = 0.95,
                                   .machines_most = 64,
                                   .spot = true,
                                   .on_demand = true,
                                   .seed = 1,
                                   .runs = 400,
                                   .work = { .losses_per_h = NAN,
                                             .together = SPOTNIK_LOSSES_TOGETHER,
                                             .egress_usd_per_gb = 0.02 } },
                         .standing = { .elapsed_s = NAN, .spent_usd = NAN, .clock = 1 },
                         .speedup = 1,
                         .prices_age_s = SPOTNIK_PRICES_FRESH_S };
    struct spotnik_fault fault;

    call.explain = argc > 1 && !strcmp(argv[1], "explain");
    if (call.explain) {
        argv[1] = argv[0];
        argc--;
        argv++;
    }
    int done = spotnik_cli_options(argc, argv, "+o:h", options, usage, read_option, &call);
    if (done >= 0)
        return done;
    const char *broken = call_is_whole(&call);
    if (optind < argc && strcmp(argv[optind - 1], "--") != 0)
        spotnik_cli_refuse("plan", 0, "what is '%s'? A command comes after --, behind all options",
                           argv[optind]);
    else if (broken)
        spotnik_cli_refuse("plan", 0, "%s", broken);
    if (broken || (optind < argc && strcmp(argv[optind - 1], "--") != 0))
        return spotnik_cli_refuse("plan", SPOTNIK_EXIT_USAGE,
                                  "spotnik plan --help-all has all options");
    if (call.wish.release && !(call.wish.follow_s > 0) && !call.standing.path)
        spotnik_cli_refuse("plan", 0,
                           "note: --release says nothing of a job that is not begun: it is of "
                           "what runs, which --from-status tells");
    call.format = call.format ? call.format : "table";
    spotnik_plan_printer print =
        call.explain ? spotnik_plan_print_explain : spotnik_plan_printer_find(call.format);
    if (!print)
        return spotnik_cli_refuse("plan", SPOTNIK_EXIT_USAGE,
                                  "-o '%s' is not table, json, skypilot, ec2-fleet, "
                                  "kubernetes or slurm",
                                  call.format);
    if (!command_join(&call, argc, argv))
        return spotnik_cli_refuse("plan", SPOTNIK_EXIT_USAGE,
                                  "the command after -- is too long; put it in a script");
    int rc = plan_run(&call, print, &fault);
    spotnik_catalog_free(&call.catalog);
    return rc ? spotnik_cli_refuse("plan", SPOTNIK_EXIT_FAILED, "%s", fault.text) : SPOTNIK_EXIT_OK;
}
