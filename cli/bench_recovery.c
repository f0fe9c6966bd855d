/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik bench recovery: kill workers for real, and measure from the kill to the next commit on
 * all survivors.
 *
 * All instants are CLOCK_MONOTONIC of one host. The phases of a trial, without overlap:
 *   detect      kill -> first evidence at any survivor
 *   reconcile   -> the token is back at its initiator     (first survivor past PREPARE)
 *   accept      -> every voter has accepted               (first survivor past ACCEPT)
 *   restart     -> the last survivor has installed the view
 *   re-reduce   -> the last survivor has committed the step */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/prng.h"
#include "base/time.h"
#include "bench_allreduce.h"
#include "bench_worker.h"
#include "commands.h"
#include "common/options.h"

#define TRIALS_MAX 1000
#define LIST_MAX 16

enum phase_name { DETECT, PREPARE, ACCEPT, RESTART, BEFORE, REREDUCE, TOTAL, CALM, JOIN, PHASES };
static const char *const phase_text[PHASES] = { "detect",  "reconcile",   "accept",
                                                "restart", "these four",  "re-reduce",
                                                "total",   "undisturbed", "join" };

struct request {
    uint64_t workers[LIST_MAX], losses[LIST_MAX];
    uint32_t workers_count, losses_count;
    uint64_t trials, bytes, state_bytes, resident_bytes, seed;
    bool json;
};

struct result {
    uint32_t workers, losses, trials;
    double ms[PHASES][TRIALS_MAX];
};

static const char help[] =
    "Usage: spotnik bench recovery [OPTION]...\n"
    "       spotnik bench allreduce [OPTION]...   (--help says more)\n\n"
    "Start workers that do nothing but all-reduce. SIGKILL some at random instants, and measure "
    "from the kill to the next\n"
    "commit on ALL survivors. Then start replacements, and do it again.\n\n"
    "      --workers LIST    how many workers                        [4,8,16,32]\n"
    "      --losses LIST     how many are killed at once             [1,2,3]\n"
    "      --trials N        kills per line of the table             [20]\n"
    "      --bytes SIZE      of the gradients                        [4MiB]\n"
    "      --state SIZE      registered, which a replacement copies  [0]\n"
    "      --resident SIZE   memory each worker has touched beside   [0]\n"
    "      --seed N          which workers, and when                 [1]\n"
    "      --json            one JSON object per line\n\n"
    "detect ... restart is the time before the step is reduced again (together: these four). "
    "undisturbed is the median step on\n"
    "the same ring after the recovery. join is the time from a replacement's start to every "
    "member's first commit with it.\n"
    "Let nothing else run meanwhile.\n";

static bool parse_list(const char *text, uint64_t max, uint64_t *ret, uint32_t *ret_count)
{
    char copy[128], *rest = copy, *word;

    if (strlen(text) >= sizeof(copy))
        return false;
    strcpy(copy, text);
    for (*ret_count = 0; (word = strsep(&rest, ","));)
        if (*ret_count == LIST_MAX || !option_u64(word, 1, max, &ret[(*ret_count)++]))
            return false;
    return true;
}

static bool take_option(struct request *request, int option, const char *value)
{
    switch (option) {
    case 'w':
        return parse_list(value, BENCH_WORKERS_MAX, request->workers, &request->workers_count);
    case 'l':
        return parse_list(value, BENCH_WORKERS_MAX, request->losses, &request->losses_count);
    case 't':
        return option_u64(value, 1, TRIALS_MAX, &request->trials);
    case 'b':
        return option_bytes(value, &request->bytes);
    case 'S':
        return option_bytes(value, &request->state_bytes);
    case 'r':
        return option_bytes(value, &request->resident_bytes);
    case 's':
        return option_u64(value, 0, UINT64_MAX, &request->seed);
    case 'j':
        request->json = true;
        return true;
    default:
        return false;
    }
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct request *request)
{
    static const struct option names[] = {
        { "workers", required_argument, NULL, 'w' }, { "losses", required_argument, NULL, 'l' },
        { "trials", required_argument, NULL, 't' },  { "bytes", required_argument, NULL, 'b' },
        { "state", required_argument, NULL, 'S' },   { "resident", required_argument, NULL, 'r' },
        { "seed", required_argument, NULL, 's' },    { "json", no_argument, NULL, 'j' },
        { "help", no_argument, NULL, 'h' },          { NULL, 0, NULL, 0 }
    };
    int option;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return option_refuse("bench", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        if (!take_option(request, option, optarg))
            return option_refuse("bench", "\"%s\" is no value for %s", optarg, argv[optind - 2]);
    }
    if (optind != argc - 1 || strcmp(argv[optind], "recovery"))
        return option_refuse(
            "bench", "what to measure? There is: spotnik bench recovery, spotnik bench allreduce");
    return 0;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double quantile(const double *value, uint32_t count, double q)
{
    double sorted[TRIALS_MAX];
    memcpy(sorted, value, count * sizeof(*value));
    qsort(sorted, count, sizeof(*sorted), ascending);
    uint32_t index = (uint32_t)(q * (count - 1) + 0.5);
    return sorted[index];
}

/* Median of the survivors' last steps, once everybody has made enough of them on the new ring. */
static double calm_ms(struct bench_crew *crew)
{
    enum { STEPS = 12 };
    double ms[BENCH_WORKERS_MAX * STEPS];
    uint64_t from[BENCH_WORKERS_MAX];
    uint32_t count = 0;

    for (uint32_t i = 0; i < crew->places; i++)
        from[i] = __atomic_load_n(&crew->board->report[i].steps, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < crew->places; i++)
        while (crew->pid[i]
               && __atomic_load_n(&crew->board->report[i].steps, __ATOMIC_SEQ_CST)
                      < from[i] + STEPS + 1)
            /* measured by the workers; we only keep out of the way */
            nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    for (uint32_t i = 0; i < crew->places; i++)
        for (uint32_t j = 0; crew->pid[i] && j < STEPS && count < TRIALS_MAX; j++)
            ms[count++] =
                (double)crew->board->report[i].step_ns[(from[i] + 1 + j) % BENCH_STEPS_KEPT] / 1e6;
    return quantile(ms, count, 0.5);
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return b && (!a || b < a) ? b : a;
}

static double between_ms(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? (double)(to_ns - from_ns) / 1e6 : 0;
}

static void measure(const struct bench_crew *crew, uint64_t killed_ns, struct result *result)
{
    uint64_t detected = 0, reconciled = 0, accepted = 0, restarted = 0, committed = 0;
    uint32_t trial = result->trials++;

    /* A record counts from the first suspicion since the view before, also from one that was taken
     * back: that is of an earlier event. */
    for (uint32_t i = 0; i < crew->places; i++) {
        if (!crew->pid[i])
            continue;
        spotnik_recovery recovery = bench_crew_recovery(crew, i);
        if (recovery.detected_ns >= killed_ns)
            detected = least(detected, recovery.detected_ns);
        reconciled = least(reconciled, recovery.reconciled_ns);
        accepted = least(accepted, recovery.accepted_ns);
        restarted = recovery.restarted_ns > restarted ? recovery.restarted_ns : restarted;
        committed = recovery.committed_ns > committed ? recovery.committed_ns : committed;
    }
    detected = detected ? detected : killed_ns;
    /* a sole survivor asks nobody: the token is its own, and accepted at once */
    if (!accepted || accepted > restarted)
        accepted = reconciled ? reconciled : restarted;
    if (!reconciled || reconciled > accepted)
        reconciled = accepted;
    result->ms[DETECT][trial] = between_ms(killed_ns, detected);
    result->ms[PREPARE][trial] = between_ms(detected, reconciled);
    result->ms[ACCEPT][trial] = between_ms(reconciled, accepted);
    result->ms[RESTART][trial] = between_ms(accepted, restarted);
    result->ms[BEFORE][trial] = between_ms(killed_ns, restarted);
    result->ms[REREDUCE][trial] = between_ms(restarted, committed);
    result->ms[TOTAL][trial] = between_ms(killed_ns, committed);
}

static void choose(struct spotnik_prng *prng, uint32_t places, uint32_t count, uint32_t *ret)
{
    for (uint32_t chosen = 0; chosen < count;) {
        uint32_t place = (uint32_t)spotnik_prng_below(prng, places);
        bool fresh = true;
        for (uint32_t i = 0; i < chosen; i++)
            fresh &= ret[i] != place;
        if (fresh)
            ret[chosen++] = place;
    }
}

static bool one_trial(struct bench_crew *crew, struct spotnik_prng *prng, struct result *result)
{
    uint32_t victims[BENCH_WORKERS_MAX] = { 0 }, survivors = crew->places - result->losses,
             trial = result->trials;

    choose(prng, crew->places, result->losses, victims);
    /* a random instant in a step */
    nanosleep(&(struct timespec){ .tv_nsec = (long)spotnik_prng_below(prng, 50000000) }, NULL);
    uint64_t killed_ns = bench_crew_kill(crew, victims, result->losses);
    bench_crew_reap(crew, victims, result->losses);
    if (!bench_crew_await(crew, survivors, 60 * SPOTNIK_S))
        return false;
    measure(crew, killed_ns, result);
    result->ms[CALM][trial] = calm_ms(crew);
    uint64_t started_ns = bench_now_ns();
    for (uint32_t i = 0; i < result->losses; i++)
        if (!bench_crew_start(crew, victims[i]))
            return false;
    if (!bench_crew_await(crew, crew->places, 60 * SPOTNIK_S))
        return false;
    result->ms[JOIN][trial] = between_ms(started_ns, bench_now_ns());
    return true;
}

static void print_json(const struct result *result)
{
    printf("{\"workers\":%u,\"losses\":%u,\"trials\":%u", result->workers, result->losses,
           result->trials);
    for (int phase = 0; phase < PHASES; phase++)
        printf(",\"%s_ms\":{\"q1\":%.3f,\"median\":%.3f,\"q3\":%.3f,\"p99\":%.3f,\"max\":%.3f}",
               phase_text[phase], quantile(result->ms[phase], result->trials, 0.25),
               quantile(result->ms[phase], result->trials, 0.5),
               quantile(result->ms[phase], result->trials, 0.75),
               quantile(result->ms[phase], result->trials, 0.99),
               quantile(result->ms[phase], result->trials, 1));
    printf("}\n");
    fflush(stdout);
}

static void print_table(const struct result *result)
{
    printf("\n%u workers, %u killed at once, %u trials (ms)\n", result->workers, result->losses,
           result->trials);
    printf("  %-12s %9s %9s %9s\n", "", "median", "p99", "max");
    for (int phase = 0; phase < PHASES; phase++)
        printf("  %-12s %9.2f %9.2f %9.2f\n", phase_text[phase],
               quantile(result->ms[phase], result->trials, 0.5),
               quantile(result->ms[phase], result->trials, 0.99),
               quantile(result->ms[phase], result->trials, 1));
    fflush(stdout);
}

static void progress(const struct request *request, const struct result *result)
{
    if (isatty(STDERR_FILENO) && !request->json)
        fprintf(stderr, "\r%u workers, %u killed: trial %u of %llu ", result->workers,
                result->losses, result->trials, (unsigned long long)request->trials);
}

static bool one_line(const struct request *request, struct bench_crew *crew,
                     struct spotnik_prng *prng, uint32_t losses)
{
    static struct result result;

    result = (struct result){ .workers = crew->places, .losses = losses };
    while (result.trials < request->trials) {
        progress(request, &result);
        if (!one_trial(crew, prng, &result)) {
            fprintf(
                stderr,
                "\nspotnik bench: the job did not recover within a minute (seed %llu, trial %u)\n",
                (unsigned long long)request->seed, result.trials);
            return false;
        }
    }
    if (isatty(STDERR_FILENO) && !request->json)
        fprintf(stderr, "\r%60s\r", "");
    request->json ? print_json(&result) : print_table(&result);
    return true;
}

static bool one_size(const struct request *request, uint32_t workers)
{
    struct bench_crew crew;
    struct spotnik_prng prng;
    bool good = bench_crew_init(&crew, workers, request->bytes, request->state_bytes,
                                request->resident_bytes);

    spotnik_prng_seed(&prng, request->seed);
    for (uint32_t i = 0; good && i < workers; i++)
        good = bench_crew_start(&crew, i);
    good = good && bench_crew_await(&crew, workers, 120 * SPOTNIK_S);
    if (!good)
        fprintf(stderr, "spotnik bench: %u workers did not come together\n", workers);
    for (uint32_t i = 0; good && i < request->losses_count; i++)
        if (request->losses[i] < workers)
            good = one_line(request, &crew, &prng, (uint32_t)request->losses[i]);
    bench_crew_done(&crew);
    return good;
}

int spotnik_cmd_bench(int argc, char **argv)
{
    struct request request = { .workers = { 4, 8, 16, 32 },
                               .workers_count = 4,
                               .losses = { 1, 2, 3 },
                               .losses_count = 3,
                               .trials = 20,
                               .bytes = 4 << 20,
                               .seed = 1 };
    if (argc > 1 && !strcmp(argv[1], "allreduce"))
        return spotnik_bench_allreduce(argc - 1, argv + 1);
    int refused = parse(argc, argv, &request);

    if (refused)
        return refused == 1 ? 0 : refused;
    for (uint32_t i = 0; i < request.workers_count; i++)
        if (!one_size(&request, (uint32_t)request.workers[i]))
            return 1;
    return 0;
}
