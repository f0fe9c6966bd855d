/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik bag: the command line. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bag/template.h"
#include "bag_life.h"
#include "bag_run.h"
#include "base/time.h"
#include "common/options.h"
#include "store/store.h"

#define TRIES 3
#define STALE_MS 60000
#define REFRESHES 20 /* in T, as for peers */

static const char help[] =
    "Usage: spotnik bag JOBS.csv [OPTION]... -- COMMAND [ARGUMENT]...\n"
    "       spotnik bag join DIR [OPTION]...\n"
    "       spotnik bag status|report DIR [--json]\n"
    "       spotnik bag add DIR MORE.csv\n"
    "       spotnik bag drop|retry DIR JOB...\n"
    "       spotnik bag fetch BUCKET DIR\n\n"
    "Run a bag of simulations, any program, on machines that vanish: one job for each row of "
    "JOBS.csv. {column} in the command\n"
    "stands for the row's value, {job} for its name (the column job, else its number). The bag is "
    "a folder. Any number of these\n"
    "commands, on any machines that see the folder, work on it; none has to live. Each job is done "
    "once, whatever dies.\n\n"
    "Each job runs in a directory of its own in the bag, work/JOB@ATTEMPT, which becomes "
    "results/JOB when the program ends with 0.\n"
    "Where the machines share no folder, DIR is " SPOTNIK_OBJECTS_URLS ". Jobs run in "
    "TMPDIR then;\n"
    "fetch brings the results that are done to DIR/JOB.\n\n"
    "The bag (the same for every worker):\n"
    "      --folder DIR        the bag                                              [JOBS.bag]\n"
    "      --input FILE        every job needs this file: it is copied into the bag and linked "
    "into each job's directory; may be\n"
    "                          repeated\n"
    "      --restart PATTERN   the program writes restart files of such names ('restart.*'); the "
    "newest whole one is kept\n"
    "      --resume COMMAND    what to run to go on from one: {restart} is its name. Without it "
    "the command runs again, with the\n"
    "                          file in its directory and its name in SPOTNIK_BAG_RESTART\n"
    "      --ask SIGNAL        this signal (USR1) makes the program write a restart file\n"
    "      --loose PATTERN     with a restart file the other files of the directory are kept, as "
    "they were at its moment; such\n"
    "                          ones may be ahead of it, or be missing: logs, scratch files; may be "
    "repeated\n"
    "      --expect PATTERN    a job without such a file at the end has failed; may be repeated\n"
    "      --tries N           failures before a job is set aside with its log               "
    "[3]\n\n"
    "This worker:\n"
    "      --at-once N         jobs at once                                         [1]\n"
    "      --cores N           cores of each, for the report                        [1]\n"
    "      --price DOLLARS     of this machine in an hour, for the report\n"
    "      --grace TIME        from SIGTERM or a notice to SIGKILL                  [10s]\n"
    "      --notice SOURCE     as for spotnik run: auto, off, aws, gcp, azure, exec:COMMAND, "
    "file:PATH    [auto]\n"
    "      --wait              stay when all jobs are done, for those that spotnik bag add brings\n"
    "  -q, --quiet             say nothing\n\n"
    "How long machines live (saves at the times of the planner's programme; long jobs keep off "
    "machines that are young or near\n"
    "their end):\n"
    "      --lifetime MODEL    a CSV file of lifetimes as for spotnik model lifetime; bathtub, "
    "bathtub:A,TAU1,TAU2,B in hours;\n"
    "                          mttf:TIME\n"
    "      --cap TIME          no machine lives longer\n"
    "      --length TIME       of a job: 40m, or {column}, or {hours}h               [the mean of "
    "those done here]\n"
    "      --age TIME          of this machine now                                  [since it was "
    "booted]\n\n"
    "SIGTERM: jobs are given back, and another worker takes them up at once.\n"
    "Exit status: 0 all is done, 1 some jobs are set aside, or this machine cannot run the "
    "program, 75 left with work to do.\n\n"
    "  spotnik bag jobs.csv --at-once 4 -- ./simulate --temperature {T} --seed {seed}\n"
    "  spotnik bag jobs.csv --at-once 4 --input in.lj --input in.again --restart 'restart.*' \\\n"
    "      --resume 'lmp -in in.again -var file {restart} -var T {T}' -- lmp -in in.lj -var T {T}\n"
    "  spotnik bag status jobs.bag\n";

enum {
    OPTION_FOLDER = 256,
    OPTION_INPUT,
    OPTION_RESTART,
    OPTION_RESUME,
    OPTION_ASK,
    OPTION_EXPECT,
    OPTION_LOOSE,
    OPTION_TRIES,
    OPTION_CORES,
    OPTION_PRICE,
    OPTION_GRACE,
    OPTION_NOTICE,
    OPTION_WAIT,
    OPTION_LIFETIME,
    OPTION_CAP,
    OPTION_LENGTH,
    OPTION_AGE,
    OPTION_JSON
};

static const struct option names[] = {
    { "folder", required_argument, NULL, OPTION_FOLDER },
    { "input", required_argument, NULL, OPTION_INPUT },
    { "restart", required_argument, NULL, OPTION_RESTART },
    { "resume", required_argument, NULL, OPTION_RESUME },
    { "ask", required_argument, NULL, OPTION_ASK },
    { "expect", required_argument, NULL, OPTION_EXPECT },
    { "loose", required_argument, NULL, OPTION_LOOSE },
    { "tries", required_argument, NULL, OPTION_TRIES },
    { "at-once", required_argument, NULL, 'n' },
    { "cores", required_argument, NULL, OPTION_CORES },
    { "price", required_argument, NULL, OPTION_PRICE },
    { "grace", required_argument, NULL, OPTION_GRACE },
    { "notice", required_argument, NULL, OPTION_NOTICE },
    { "wait", no_argument, NULL, OPTION_WAIT },
    { "lifetime", required_argument, NULL, OPTION_LIFETIME },
    { "cap", required_argument, NULL, OPTION_CAP },
    { "length", required_argument, NULL, OPTION_LENGTH },
    { "age", required_argument, NULL, OPTION_AGE },
    { "json", no_argument, NULL, OPTION_JSON },
    { "quiet", no_argument, NULL, 'q' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

struct request {
    struct bag_options options;
    struct bag_terms terms;
    const char *folder, *lifetime;
    const char *input[BAG_LIST_MAX + 1];
    uint32_t inputs, expects, looses;
    bool terms_named, notice_named, json;
};

static int signal_parse(const char *name)
{
    static const struct {
        const char *name;
        int number;
    } known[] = {
        { "USR1", SIGUSR1 }, { "USR2", SIGUSR2 }, { "HUP", SIGHUP },   { "INT", SIGINT },
        { "TERM", SIGTERM }, { "CONT", SIGCONT }, { "ALRM", SIGALRM }, { "QUIT", SIGQUIT },
    };
    const char *bare = strncmp(name, "SIG", 3) == 0 ? name + 3 : name;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(bare, known[i].name) == 0)
            return known[i].number;
    return 0;
}

static bool small_take(const char *value, uint64_t max, uint32_t *ret)
{
    uint64_t number = 0;
    bool fine = option_u64(value, 1, max, &number);
    *ret = (uint32_t)number;
    return fine;
}

static bool seconds_take(const char *value, double *ret_s)
{
    return spotnik_duration_parse(value, ret_s) && *ret_s > 0;
}

static bool notice_take(struct request *request, const char *value)
{
    struct notice_watcher_options *notice = &request->options.notice;
    request->notice_named = true;
    if (strcmp(value, "off") == 0)
        notice->count = 0;
    else if (notice->count < NOTICE_WATCHER_FROM)
        notice->from[notice->count++] = value;
    else
        return false;
    return true;
}

/* What the bag is. */
static bool terms_take(struct request *request, int option, const char *value)
{
    struct bag_terms *terms = &request->terms;
    request->terms_named = true;
    switch (option) {
    case OPTION_INPUT:
        request->input[request->inputs] = value;
        return request->inputs++ < BAG_LIST_MAX;
    case OPTION_RESTART:
        terms->restart = (char *)(uintptr_t)value;
        return *value != '\0' && strchr(value, '/') == NULL;
    case OPTION_RESUME:
        terms->resume = bag_template_split(value);
        return terms->resume != NULL;
    case OPTION_ASK:
        terms->ask = signal_parse(value);
        return terms->ask != 0;
    case OPTION_EXPECT:
        terms->expect[request->expects] = (char *)(uintptr_t)value;
        return strchr(value, '/') == NULL && request->expects++ < BAG_LIST_MAX;
    case OPTION_LOOSE:
        terms->loose[request->looses] = (char *)(uintptr_t)value;
        return strchr(value, '/') == NULL && request->looses++ < BAG_LIST_MAX;
    default:
        return small_take(value, 1000, &terms->tries);
    }
}

static bool take(struct request *request, int option, const char *value)
{
    struct bag_options *options = &request->options;
    switch (option) {
    case 'n':
        return small_take(value, BAG_SLOTS_MAX, &options->slots);
    case 'q':
        return options->quiet = true;
    case OPTION_FOLDER:
        return *(request->folder = value) != '\0';
    case OPTION_CORES:
        return small_take(value, 4096, &options->cores);
    case OPTION_PRICE:
        return option_ratio(value, &options->usd_per_h);
    case OPTION_GRACE:
        return option_duration(value, &options->grace_ns);
    case OPTION_NOTICE:
        return notice_take(request, value);
    case OPTION_WAIT:
        return options->wait = true;
    case OPTION_JSON:
        return request->json = true;
    case OPTION_LIFETIME:
        return *(request->lifetime = value) != '\0';
    case OPTION_CAP:
        return seconds_take(value, &options->life.cap_s);
    case OPTION_LENGTH:
        return *(options->length = value) != '\0';
    case OPTION_AGE:
        return seconds_take(value, &options->born_s);
    default:
        return terms_take(request, option, value);
    }
}

/* Options among the words: a "+" would end at JOBS.csv. getopt moves the words behind them, up to
 * "--". 0, or the exit status + 1. */
static int parse(int argc, char **argv, struct request *request)
{
    int option;
    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "qh", names, NULL)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return 1
                   + option_refuse("bag", "unknown option, or a value is missing: %s",
                                   argv[optind - 1]);
        if (!take(request, option, optarg))
            return 1 + option_refuse("bag", "\"%s\" is no value for %s", optarg, argv[optind - 2]);
    }
    return 0;
}

static int stale_read(struct bag_options *options)
{
    const char *text = getenv("SPOTNIK_STALE_MS");
    uint64_t stale_ms = STALE_MS;
    if (text != NULL && *text != '\0' && !option_u64(text, 200, 86400000, &stale_ms))
        return option_refuse(
            "bag",
            "SPOTNIK_STALE_MS is \"%s\"; it must be a number of milliseconds from 200 to 86400000",
            text);
    options->stale_ns = stale_ms * SPOTNIK_MS;
    options->look_ns = spotnik_time_min(options->stale_ns / REFRESHES, SPOTNIK_S);
    return 0;
}

static int options_finish(struct request *request)
{
    struct spotnik_fault fault;
    struct bag_options *options = &request->options;
    if (request->lifetime != NULL && bag_life_parse(request->lifetime, &options->life, &fault) != 0)
        return option_refuse("bag", "--lifetime: %s", fault.text);
    if (request->lifetime == NULL && (options->life.cap_s > 0))
        return option_refuse(
            "bag", "--cap says when machines end; say with --lifetime how long they live before");
    if (!request->notice_named)
        options->notice.from[options->notice.count++] = "auto";
    options->notice.patience_ns = 60 * SPOTNIK_S;
    return stale_read(options);
}

/* ---- the commands ---- */

/* A program is found from the directory of each job: a path must not depend on ours. The new word
 * is memory of its own. */
static int program_find(char **command)
{
    if (command == NULL || strchr(command[0], '/') == NULL || strchr(command[0], '{') != NULL)
        return 0;
    char *path = realpath(command[0], NULL);
    if (path == NULL || access(path, X_OK) != 0) {
        int status = option_refuse("bag", "cannot run %s: %s", command[0], strerror(errno));
        free(path);
        return status;
    }
    command[0] = path;
    return 0;
}

/* What only a shell understands would reach the program as a word. */
static const char *shell_sign(char *const *words)
{
    static const char *const signs[] = { "|", "||", "&", "&&", ";", "<", ">", ">>", "2>", "2>&1" };
    for (; words != NULL && *words != NULL; words++)
        for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
            if (strcmp(*words, signs[i]) == 0)
                return signs[i];
    return NULL;
}

static bool is_input(const struct request *request, const char *word)
{
    for (size_t i = 0; i < request->inputs; i++) {
        const char *slash = strrchr(request->input[i], '/');
        if (strcmp(slash != NULL ? slash + 1 : request->input[i], word) == 0)
            return true;
    }
    return false;
}

/* A file beside JOBS.csv is not beside the job. It may be an output of that name, so nothing is
 * refused. */
static void files_tell(const struct request *request, char *const *words)
{
    struct stat facts;
    for (; words != NULL && *words != NULL; words++)
        if (**words != '/' && stat(*words, &facts) == 0 && S_ISREG(facts.st_mode)
            && !is_input(request, *words))
            fprintf(stderr,
                    "bag: jobs run in directories of their own, where %s is not. If they read it, "
                    "say --input %s, or its whole path\n",
                    *words, *words);
}

static int terms_check(struct request *request)
{
    const struct bag_terms *terms = &request->terms;
    if (terms->resume != NULL && terms->restart == NULL)
        return option_refuse(
            "bag",
            "--resume goes on from a restart file: say with --restart what these are called");
    if (terms->ask != 0 && terms->restart == NULL)
        return option_refuse("bag", "--ask makes the program write a restart file: say with "
                                    "--restart what these are called");
    const char *sign = shell_sign(terms->resume);
    if (sign != NULL)
        return option_refuse("bag",
                             "%s in --resume: no shell reads it. Say sh -c '...', with {restart} "
                             "as an argument",
                             sign);
    if (!request->options.quiet) {
        files_tell(request, terms->command + 1);
        files_tell(request, terms->resume != NULL ? terms->resume + 1 : NULL);
    }
    char *word = terms->resume != NULL ? terms->resume[0] : NULL;
    int refused = program_find(terms->command);
    if (refused == 0)
        refused = program_find(terms->resume);
    if (word != NULL && terms->resume[0] != word)
        free(word);
    return refused;
}

static const char *folder_of(const struct request *request, const char *csv)
{
    static char folder[PATH_MAX];
    size_t length = strlen(csv);
    if (request->folder != NULL)
        return request->folder;
    if (length > 4 && strcmp(csv + length - 4, ".csv") == 0)
        length -= 4;
    snprintf(folder, sizeof folder, "%.*s.bag", (int)length, csv);
    return folder;
}

static int make(struct request *request, const char *csv, char **command)
{
    struct spotnik_fault fault;
    const char *folder = folder_of(request, csv);
    request->terms.command = command;
    int status = terms_check(request);
    if (status == 0 && bag_make(folder, csv, &request->terms, request->input, &fault) != 0) {
        fprintf(stderr, "spotnik bag: %s\n", fault.text);
        status = 1;
    } else if (status == 0) {
        status = bag_loop(folder, &request->options);
    }
    bag_template_free(request->terms.resume);
    return status;
}

static int add(const char *folder, const char *csv)
{
    static struct bag bag;
    struct spotnik_fault fault;
    uint32_t part = 0;
    int rc = bag_open(folder, &bag, &fault);
    size_t before = bag.job_count;
    if (rc == 0)
        rc = bag_add(&bag, csv, &part, &fault);
    if (rc != 0)
        fprintf(stderr, "spotnik bag: %s\n", fault.text);
    else
        printf("%zu jobs added, as %s/jobs/%u.csv\n", bag.job_count - before, bag_where(&bag),
               part);
    bag_close(&bag);
    return rc != 0;
}

static int for_jobs(const char *folder, int (*act)(struct bag *, const struct bag_job *),
                    char **name)
{
    static struct bag bag;
    struct spotnik_fault fault;
    int status = 0;
    if (bag_open(folder, &bag, &fault) != 0 || bag_look(&bag) != 0) {
        fprintf(stderr, "spotnik bag: %s\n",
                bag.job_count == 0 ? fault.text : bag_why(&bag, -errno));
        bag_close(&bag);
        return 1;
    }
    for (; *name != NULL; name++) {
        const struct bag_job *job = bag_job_find(&bag, *name);
        int rc = job != NULL ? act(&bag, job) : -ENOENT;
        if (rc != 0)
            fprintf(stderr, "spotnik bag: job %s: %s\n", *name,
                    job == NULL ? "there is none of this name" : bag_why(&bag, rc));
        status |= rc != 0;
    }
    bag_close(&bag);
    return status;
}

static int fetch(const char *where, const char *directory)
{
    static struct bag bag;
    struct spotnik_fault fault;
    size_t count = 0;
    if (!spotnik_objects_is_bucket(where))
        return option_refuse("bag", "%s is no bucket: its results are in %s/results", where, where);
    int rc = bag_open(where, &bag, &fault);
    if (rc == 0 && mkdir(directory, 0777) != 0 && errno != EEXIST)
        rc = spotnik_fault_set(&fault, "cannot make %s: %s", directory, strerror(errno));
    if (rc == 0 && (rc = bag_results_fetch(&bag, directory, &count)) != 0)
        rc = spotnik_fault_set(&fault, "%s", bag_why(&bag, rc));
    printf("%zu results fetched to %s\n", count, directory);
    if (rc != 0)
        fprintf(stderr, "spotnik bag: %s\n", fault.text);
    bag_close(&bag);
    return rc != 0;
}

static int word_run(struct request *request, int count, char **word)
{
    bool is_one = count == 2;
    if (strcmp(word[0], "join") == 0 && is_one && !request->terms_named)
        return bag_loop(word[1], &request->options);
    if (strcmp(word[0], "status") == 0 && is_one)
        return bag_status(word[1], request->json);
    if (strcmp(word[0], "report") == 0 && is_one)
        return bag_report(word[1], request->json);
    if (strcmp(word[0], "add") == 0 && count == 3)
        return add(word[1], word[2]);
    if (strcmp(word[0], "fetch") == 0 && count == 3)
        return fetch(word[1], word[2]);
    if (strcmp(word[0], "drop") == 0 && count > 2)
        return for_jobs(word[1], bag_drop, word + 2);
    if (strcmp(word[0], "retry") == 0 && count > 2)
        return for_jobs(word[1], bag_retry, word + 2);
    if (strcmp(word[0], "join") == 0 && is_one)
        return option_refuse(
            "bag",
            "the bag knows its inputs, restart files and tries: leave these options out with join");
    return option_refuse("bag", "what shall the jobs run? Put it after --");
}

int main(int argc, char **argv)
{
    static struct request request = {
        .options = { .slots = 1, .cores = 1, .grace_ns = 10 * SPOTNIK_S, .born_s = -1 },
        .terms = { .tries = TRIES }
    };
    int dashes = 1;
    while (dashes < argc && strcmp(argv[dashes], "--") != 0)
        dashes++;
    int refused = parse(dashes, argv, &request);
    if (refused != 0)
        return refused - 1;
    if (optind == dashes)
        return option_refuse("bag", "which jobs? Name a CSV file, a row for each");
    refused = options_finish(&request);
    if (refused != 0)
        return refused;
    if (dashes + 1 >= argc)
        return word_run(&request, dashes - optind, argv + optind);
    if (dashes - optind != 1)
        return option_refuse("bag", "one CSV file, please; what is \"%s\"?", argv[optind + 1]);
    return make(&request, argv[optind], argv + dashes + 1);
}
