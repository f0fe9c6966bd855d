/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik sim: play whole clusters with faults, from seeds; say what broke and how to see it
 * again. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/options.h"
#include "base/prng.h"
#include "base/time.h"
#include "common/trace.h"
#include "sim/sim.h"

static const char help[] =
    "Usage: spotnik sim [--seed N] [--seeds COUNT] [--workers N | --churn TRACE] [--brief N] "
    "[--tree N] "
    "[--near N] [--trace] [--data] [--json]\n"
    "       spotnik sim --scale MEMBERS [--losses A,B,...] [--bucket SIZE --gbit RATE] [--seed N]\n"
    "                   [--per-host N [--scattered] [--memory RATE]] [--ring] [--charged]\n\n"
    "Simulate a whole cluster in one process under virtual time. Faults kill, stop, cut off and "
    "slow down members;\n"
    "members join and leave. Then everything heals, and the living must come together again. A "
    "checker watches each\n"
    "promise P1 to P9. The same seed is the same run, on every machine.\n\n"
    "  --seed N       the first (or only) seed; default 1\n"
    "  --seeds COUNT  number of seeds from there; stops at the first that breaks a promise\n"
    "  --workers N    members at the start, 2 to 16; default: drawn from the seed, 3 to 9\n"
    "  --churn TRACE  members come and go as in a stretch of the trace (docs/reference/traces.md), "
    "on a fast clock, and nothing else\n"
    "                 goes wrong; seed 1 begins where it does, others elsewhere. 16 at once: "
    "TRACE,nodes=16 where it has more\n"
    "  --eventful     fail too when a sweep of 500 seeds or more saw fewer faults than such worlds "
    "are full "
    "of\n"
    "  --keep-going   do not stop at the first; one line for each seed that breaks a promise\n"
    "  --brief N      views of more than N members say only what differs; default 64, more than "
    "these worlds have\n"
    "  --tree N       in views of more than N members passes go by a tree; default 256\n"
    "  --near N       a joiner asks to be let in from N steps behind; default 32; 1 with results "
    "larger than all buffers\n"
    "  --trace        tell the run as a story: event, and indented what follows from it\n"
    "  --data         with every heartbeat and data frame\n"
    "  --plant BUG    break a rule of the protocol on purpose: commit-after-promise, "
    "ignore-accepted, "
    "any-quorum,\n"
    "                 skip-handover, forget-returned, flat-unasked, small-early,\n"
    "                 policy-not-copied, policy-alone, holder-alone, judge-any-lane, sum-early,\n"
    "                 tree-early, no-pause-check, show-early, witness-kept, witness-copied, "
    "end-is-gone\n"
    "                 (needs a build of its own: meson setup build-planted -Dplanted=true)\n"
    "  --json         results as JSON, one object per line\n"
    "  --scale N      a view of N members, losses in one instant: what the recovery costs (default "
    "losses "
    "1,3,10),\n"
    "                 and what a step takes before. Links of 0.05 to 0.17 ms\n"
    "  --bucket SIZE  with --scale: what a step reduces, and members that compute nothing; "
    "default: next to nothing\n"
    "  --gbit RATE    with --bucket: of every link, in whole Gbit/s; default 10\n"
    "  --per-host N   with --scale: members on each host, 1 to 64; default 1. They reduce by "
    "hosts, as they would\n"
    "  --scattered    with --per-host: neighbours in the view are on different hosts; else members "
    "of a host follow each other\n"
    "  --memory RATE  with --per-host: GB/s of each member in copying and adding up, of what comes "
    "out; default 4\n"
    "  --charged      with --scale: the processor time that control messages take, as measured "
    "here, passes in the world, too\n"
    "  --ring         with --scale: everything round the ring of all, small buckets too, and "
    "nothing by hosts\n\n"
    "  spotnik sim --seed 42 --trace | less    one run as a story\n"
    "  spotnik sim --seeds 10000               a sweep; on failure it prints how to reproduce it\n"
    "  spotnik sim --scale 1000 --losses 1,3,10\n\n"
    "How to read the story and what each checker checks: docs/reference/simulation.md.\n";

#define CHURN_MEMBERS_MOST 16
#define CHURN_ADDS_MOST 36
#define CHURN_PROCESSES 64 /* that the checkers can tell apart */
#define CHURN_EVENT_NS (20 * SPOTNIK_MS)

struct request {
    uint64_t seed, seeds, workers, scale, bucket, gbit, host_members, memory, brief, tree,
        near_steps;
    const char *losses, *churn_path;
    struct spotnik_trace churn;
    size_t churn_first; /* event after those of the beginning */
    bool trace, data, json, keep_going, eventful, ring, scattered, charged;
    uint32_t bugs;
};

/* The library that users get has no planted bugs. */
static bool plantable(void)
{
#ifdef SPOTNIK_PLANTED
    return true;
#else
    fprintf(stderr, "spotnik sim: --plant needs a build that can break its rules: meson setup "
                    "build-planted -Dplanted=true\n");
    return false;
#endif
}

static bool parse_bug(const char *text, uint32_t *bugs)
{
    static const struct {
        const char *name;
        uint32_t bug;
    } known[] = { { "commit-after-promise", SPOTNIK_BUG_COMMIT_AFTER_PROMISE },
                  { "ignore-accepted", SPOTNIK_BUG_IGNORE_ACCEPTED },
                  { "any-quorum", SPOTNIK_BUG_ANY_QUORUM },
                  { "skip-handover", SPOTNIK_BUG_SKIP_HANDOVER },
                  { "forget-returned", SPOTNIK_BUG_FORGET_RETURNED },
                  { "flat-unasked", SPOTNIK_BUG_FLAT_UNASKED },
                  { "small-early", SPOTNIK_BUG_SMALL_EARLY },
                  { "policy-not-copied", SPOTNIK_BUG_POLICY_NOT_COPIED },
                  { "policy-alone", SPOTNIK_BUG_POLICY_ALONE },
                  { "holder-alone", SPOTNIK_BUG_HOLDER_ALONE },
                  { "judge-any-lane", SPOTNIK_BUG_JUDGE_ANY_CHANNEL },
                  { "sum-early", SPOTNIK_BUG_SUM_EARLY },
                  { "tree-early", SPOTNIK_BUG_TREE_EARLY },
                  { "no-pause-check", SPOTNIK_BUG_NO_PAUSE_CHECK },
                  { "show-early", SPOTNIK_BUG_SHOW_EARLY },
                  { "witness-kept", SPOTNIK_BUG_WITNESS_KEPT },
                  { "witness-copied", SPOTNIK_BUG_WITNESS_COPIED },
                  { "end-is-gone", SPOTNIK_BUG_END_IS_GONE } };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (!strcmp(text, known[i].name)) {
            *bugs |= known[i].bug;
            return true;
        }
    return false;
}

/* Options with a value; returns false when it is none of them or the value is wrong. */
static bool parse_value(struct request *request, const char *name, const char *value)
{
    if (!strcmp(name, "--seed"))
        return option_u64(value, 0, UINT64_MAX, &request->seed);
    if (!strcmp(name, "--seeds"))
        return option_u64(value, 1, UINT64_MAX, &request->seeds);
    if (!strcmp(name, "--workers") || !strcmp(name, "--members"))
        return option_u64(value, 2, 16, &request->workers);
    if (!strcmp(name, "--scale"))
        return option_u64(value, 2, SPOTNIK_MEMBERS_LIMIT, &request->scale);
    if (!strcmp(name, "--brief"))
        return option_u64(value, 0, SPOTNIK_MEMBERS_LIMIT, &request->brief);
    if (!strcmp(name, "--tree"))
        return option_u64(value, 0, SPOTNIK_MEMBERS_LIMIT, &request->tree);
    if (!strcmp(name, "--near"))
        return option_u64(value, 1, UINT32_MAX, &request->near_steps);
    if (!strcmp(name, "--bucket"))
        return option_bytes(value, &request->bucket) && request->bucket > 0;
    if (!strcmp(name, "--gbit"))
        return option_u64(value, 1, 1000, &request->gbit);
    if (!strcmp(name, "--per-host"))
        return option_u64(value, 1, 64, &request->host_members);
    if (!strcmp(name, "--memory"))
        return option_u64(value, 1, 1000, &request->memory);
    if (!strcmp(name, "--churn")) {
        request->churn_path = value;
        return true;
    }
    if (!strcmp(name, "--plant"))
        return plantable() && parse_bug(value, &request->bugs);
    request->losses = value;
    return !strcmp(name, "--losses");
}

static int parse(struct request *request, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--trace"))
            request->trace = true;
        else if (!strcmp(argv[i], "--data"))
            request->trace = request->data = true;
        else if (!strcmp(argv[i], "--json"))
            request->json = true;
        else if (!strcmp(argv[i], "--keep-going"))
            request->keep_going = true;
        else if (!strcmp(argv[i], "--eventful"))
            request->eventful = true;
        else if (!strcmp(argv[i], "--ring"))
            request->ring = true;
        else if (!strcmp(argv[i], "--charged"))
            request->charged = true;
        else if (!strcmp(argv[i], "--scattered"))
            request->scattered = true;
        else if (i + 1 < argc && parse_value(request, argv[i], argv[i + 1]))
            i++;
        else
            return option_refuse("sim", "\"%s\" is not understood%s", argv[i],
                                 i + 1 < argc ? " with what follows it" : "");
    }
    return 0;
}

/* -- Sweeps -- */

struct totals {
    uint64_t runs, steps, views, kills, joins, exclusions, leaves, parked, excused, calm,
        calm_excused, orphans, faults, happenings;
};

static void add(struct totals *totals, const struct spotnik_sim_result *result)
{
    totals->runs++;
    totals->steps += result->steps;
    totals->views += result->views;
    totals->kills += result->kills;
    totals->joins += result->joins;
    totals->exclusions += result->exclusions;
    totals->leaves += result->leaves;
    totals->parked += result->parked != 0;
    totals->excused += result->excused;
    totals->calm += result->calm;
    totals->calm_excused += result->calm && result->excused;
    totals->orphans += result->orphans;
    totals->faults += result->faults;
    totals->happenings += result->happenings;
}

static void print_failure(const struct request *request, const struct spotnik_sim_options *options,
                          const struct spotnik_sim_result *result)
{
    spotnik_sim_options_print(options, stdout);
    printf("%s is broken at %.3f ms: %s\n", result->promise, (double)result->failed_ns / 1e6,
           result->detail);
    printf("reproduce: spotnik sim --seed %" PRIu64, options->seed);
    if (request->churn_path)
        printf(" --churn %s", request->churn_path);
    if (request->brief != UINT64_MAX)
        printf(" --brief %" PRIu64, request->brief);
    if (request->tree != UINT64_MAX)
        printf(" --tree %" PRIu64, request->tree);
    if (request->near_steps)
        printf(" --near %" PRIu64, request->near_steps);
    if (request->workers)
        printf(" --workers %" PRIu64, request->workers);
    puts(" --trace");
}

static void print_json(const struct spotnik_sim_options *options,
                       const struct spotnik_sim_result *result)
{
    printf("{\"seed\":%" PRIu64 ",\"members\":%u,\"ok\":%s,\"promise\":\"%s\",\"calm\":%s,"
           "\"excused\":%s,\"excuse\":\"%s\",\"steps\":%" PRIu64 ",\"views\":%" PRIu64
           ",\"kills\":%" PRIu64 ",\"joins\":%" PRIu64 ",\"exclusions\":%" PRIu64
           ",\"leaves\":%" PRIu64 ",\"orphans\":%" PRIu64
           ",\"virtual_ms\":%.3f,\"happenings\":%" PRIu64 ",\"digest\":\"%016" PRIx64 "\"}\n",
           options->seed, options->members, result->failed ? "false" : "true", result->promise,
           result->calm ? "true" : "false", result->excused ? "true" : "false",
           spotnik_sim_excuse_name(result->excuse), result->steps, result->views, result->kills,
           result->joins, result->exclusions, result->leaves, result->orphans,
           (double)result->virtual_ns / 1e6, result->happenings, result->digest);
}

static uint64_t seed_running;

/* An invariant of the core does not hold: the library aborts, and says where; here is how to see it
 * again. */
static void on_abort(int signal)
{
    char text[80];
    int length = snprintf(text, sizeof(text), "reproduce: spotnik sim --seed %" PRIu64 " --trace\n",
                          seed_running);
    (void)signal;
    if (length > 0 && write(STDERR_FILENO, text, (size_t)length) < 0)
        _exit(134);
}

/* Events without those of the beginning, which found the job. */
static int churn_load(struct request *request)
{
    struct spotnik_trace *trace = &request->churn;
    struct spotnik_fault fault;

    if (spotnik_trace_load(request->churn_path, trace, &fault)
        || (!trace->events && spotnik_trace_events_make(trace, 1, &fault)))
        return option_refuse("sim", "%s", fault.text);
    while (request->churn_first < trace->event_count && trace->events[request->churn_first].add
           && trace->events[request->churn_first].at_ms == trace->events[0].at_ms)
        request->churn_first++;
    if (trace->highest <= CHURN_MEMBERS_MOST)
        return 0;
    return option_refuse("sim", "%s has more than %d machines at once; write %s,nodes=%d",
                         request->churn_path, CHURN_MEMBERS_MOST, request->churn_path,
                         CHURN_MEMBERS_MOST);
}

/* Seed 1 begins where the trace does, others anywhere: at which event, and with how many
 * members. */
static size_t churn_begin(const struct request *request, uint64_t seed, uint32_t *ret_members)
{
    const struct spotnik_trace *trace = &request->churn;
    size_t first = request->churn_first, begin = first, members = first;
    struct spotnik_prng prng;

    spotnik_prng_seed(&prng, seed);
    if (seed != 1 && first < trace->event_count)
        begin += (size_t)spotnik_prng_below(&prng, trace->event_count - first);
    for (size_t i = first; i < begin; i++)
        members += trace->events[i].add ? 1 : (size_t)-1;
    *ret_members = members < 2                    ? 2
                   : members > CHURN_MEMBERS_MOST ? CHURN_MEMBERS_MOST
                                                  : (uint32_t)members;
    return begin;
}

/* Nothing but the trace, as far as a run can start members; each of its events has time to be told
 * from the next. The caller frees options->churn. */
static void churn_apply(const struct request *request, size_t begin,
                        struct spotnik_sim_options *options)
{
    const struct spotnik_trace_event *from = request->churn.events + begin;
    size_t count = 0, most = request->churn.event_count - begin;
    struct spotnik_sim_churn *events = calloc(most + 1, sizeof(*events));

    for (uint32_t adds = 0; events && count < most && adds < CHURN_ADDS_MOST;
         adds += from[count++].add)
        continue;
    if (options->safety_ns < count * CHURN_EVENT_NS)
        options->safety_ns = count * CHURN_EVENT_NS;
    options->faults = options->aimed = options->pairs = options->forged = options->struck =
        options->half_told = 0;
    double length_ms = count ? (double)(from[count - 1].at_ms - from[0].at_ms) + 1 : 1;
    for (size_t i = 0; i < count; i++)
        events[i] =
            (struct spotnik_sim_churn){ (uint64_t)((double)(from[i].at_ms - from[0].at_ms)
                                                   / length_ms * 0.95 * (double)options->safety_ns),
                                        from[i].add };
    options->processes_max = CHURN_PROCESSES;
    options->churn = events;
    options->churn_count = (uint32_t)count;
}

static bool run_seed(const struct request *request, uint64_t seed, struct totals *totals)
{
    struct spotnik_sim_options options;
    struct spotnik_sim_result result;

    seed_running = seed;
    uint32_t members = (uint32_t)request->workers;
    size_t begin = request->churn_path ? churn_begin(request, seed, &members) : 0;
    spotnik_sim_options_draw(&options, seed, members);
    if (request->churn_path)
        churn_apply(request, begin, &options);
    options.trace = request->trace ? stdout : NULL;
    options.trace_data = request->data;
    options.bugs = request->bugs;
    if (request->brief != UINT64_MAX)
        options.limits.brief_members = (uint32_t)request->brief;
    if (request->tree != UINT64_MAX)
        options.limits.tree_members = (uint32_t)request->tree;
    if (request->near_steps)
        options.near_steps = (uint32_t)request->near_steps;
    if (request->trace)
        spotnik_sim_options_print(&options, stdout);
    spotnik_sim_run(&options, &result);
    free((void *)(uintptr_t)options.churn);
    options.churn = NULL;
    add(totals, &result);
    if (request->json)
        print_json(&options, &result);
    else if (result.failed && request->keep_going)
        printf("seed %" PRIu64 ": %s is broken: %s\n", seed, result.promise, result.detail);
    else if (result.failed)
        print_failure(request, &options, &result);
    return !result.failed;
}

static void print_totals(const struct totals *totals, uint64_t first, uint64_t broken)
{
    printf("seeds %" PRIu64 "..%" PRIu64 ": ", first, first + totals->runs - 1);
    if (broken)
        printf("%" PRIu64 " broke a promise\n", broken);
    else
        puts("all promises kept");
    printf("  %" PRIu64 " steps, %" PRIu64 " views, %" PRIu64 " faults, %" PRIu64 " kills, %" PRIu64
           " joins, %" PRIu64 " exclusions, %" PRIu64 " leaves\n",
           totals->steps, totals->views, totals->faults, totals->kills, totals->joins,
           totals->exclusions, totals->leaves);
    printf("  parked in %" PRIu64 " runs; no quorum was possible after healing in %" PRIu64
           " (verified); %" PRIu64 " unstable steps of members cut off were replaced\n",
           totals->parked, totals->excused, totals->orphans);
    printf("  the last survivor stayed parked in %" PRIu64 " of %" PRIu64
           " runs with kills, joins and leaves only\n",
           totals->calm_excused, totals->calm);
}

/* What 500 seeds hold at the least, far below what is usual: a sweep of quiet worlds proves
 * nothing. */
static bool is_eventful(const struct totals *totals)
{
    uint64_t lots = totals->runs / 500;
    return totals->steps >= lots * 5000 && totals->views >= lots * 1000
           && totals->kills >= lots * 400 && totals->joins >= lots * 1000
           && totals->exclusions >= lots * 20 && totals->leaves >= lots * 20
           && totals->parked >= lots * 30 && totals->orphans >= lots * 2
           && (lots == 0 || totals->excused <= totals->runs / 5);
}

static int sweep(const struct request *request)
{
    struct totals totals = { .runs = 0 };
    uint64_t broken = 0;
    bool lively = isatty(STDERR_FILENO) && !request->trace;

    for (uint64_t i = 0; i < request->seeds; i++) {
        broken += !run_seed(request, request->seed + i, &totals);
        if (broken && !request->keep_going)
            return 1;
        if (lively && i % 100 == 99)
            fprintf(stderr, "\r%" PRIu64 " of %" PRIu64 " seeds", i + 1, request->seeds);
    }
    if (lively)
        fputs("\r                                        \r", stderr);
    if (!request->json)
        print_totals(&totals, request->seed, broken);
    if (request->eventful && !is_eventful(&totals)) {
        puts("too little happened: the swarm has gone tame");
        return 1;
    }
    return broken != 0;
}

/* -- Scale -- */

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static void scale_row_json(const struct spotnik_sim_scale *scale)
{
    printf("{\"members\":%u,\"losses\":%u,\"messages_mean\":%.2f,\"messages_max\":%" PRIu64
           ",\"bytes\":%" PRIu64 ",\"bytes_longest\":%" PRIu64
           ",\"processor_ms\":%.3f,\"processor_max_ms\":%.3f,\"event_max_ms\":%.3f"
           ",\"detect_ms\":%.3f,\"reconcile_ms\":%.3f,\"accept_ms\":%.3f,\"restart_ms\":%.3f,"
           "\"commit_ms\":%.3f,"
           "\"total_ms\":%.3f,\"step_ms\":%.4f}\n",
           scale->members, scale->losses, (double)scale->messages / scale->survivors,
           scale->messages_max, scale->bytes_sent, scale->bytes_longest, ms(scale->processor_ns),
           ms(scale->processor_max_ns), ms(scale->event_max_ns), ms(scale->detect_ns),
           ms(scale->reconcile_ns), ms(scale->accept_ns), ms(scale->restart_ns),
           ms(scale->commit_ns), ms(scale->total_ns), ms(scale->step_ns));
}

static void scale_row(const struct spotnik_sim_scale *scale, bool json)
{
    if (json)
        scale_row_json(scale);
    else
        printf("%7u %6u %8.2f %5" PRIu64
               " %9.1f %7.2f %8.1f %7.2f %7.2f %7.1f %9.1f %8.1f %8.1f %9.1f %9.1f %10.2f\n",
               scale->members, scale->losses, (double)scale->messages / scale->survivors,
               scale->messages_max, (double)scale->bytes_sent / 1e3,
               (double)scale->bytes_longest / 1e3, ms(scale->processor_ns),
               ms(scale->processor_max_ns), ms(scale->event_max_ns), ms(scale->detect_ns),
               ms(scale->reconcile_ns), ms(scale->accept_ns), ms(scale->restart_ns),
               ms(scale->commit_ns), ms(scale->total_ns), ms(scale->step_ns));
    fflush(stdout);
}

static int scale_all(const struct request *request)
{
    const char *at = request->losses;

    if (!request->json)
        puts("            control messages, their kB         processor ms, measured     virtual "
             "time to the last survivor, each from "
             "the one before (ms)\n"
             "members losses  mean   max       all longest     all  member   event   detect "
             "reconcile   accept  restart "
             "re-reduce     total  step before");
    while (*at) {
        char *end;
        unsigned long losses = strtoul(at, &end, 10);
        if (end == at || losses < 1 || losses >= request->scale || (*end && *end != ','))
            return option_refuse("sim",
                                 "--losses wants numbers from 1 below the members, as in 1,3,10");
        at = *end ? end + 1 : end;
        struct spotnik_sim_scale scale = { .members = (uint32_t)request->scale,
                                           .losses = (uint32_t)losses,
                                           .host_members = (uint32_t)request->host_members,
                                           .scattered = request->scattered,
                                           .ring = request->ring,
                                           .charged = request->charged,
                                           .brief_members = request->brief == UINT64_MAX
                                                                ? 0
                                                                : (uint32_t)request->brief,
                                           .tree = request->tree != UINT64_MAX,
                                           .tree_members = (uint32_t)request->tree,
                                           .memory_bytes_per_ms = request->memory * 1000000,
                                           .bytes = request->bucket,
                                           .bytes_per_ms = request->gbit * 125000,
                                           .seed = request->seed };
        spotnik_sim_scale_run(&scale);
        if (scale.failed) {
            printf("%u members, %u losses: %s\n", scale.members, scale.losses, scale.detail);
            return 1;
        }
        scale_row(&scale, request->json);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct request request = { .brief = UINT64_MAX,
                               .tree = UINT64_MAX,
                               .seed = 1,
                               .seeds = 1,
                               .gbit = 10,
                               .losses = "1,3,10" };

    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    signal(SIGABRT, on_abort);
    int rc = parse(&request, argc, argv);
    if (rc)
        return rc;
    rc = request.churn_path ? churn_load(&request) : 0;
    rc = rc ? rc : request.scale ? scale_all(&request) : sweep(&request);
    spotnik_trace_free(&request.churn);
    return rc;
}
