/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik run: its options, the workers' environment, and the temporary folder of a job that is all
 * on this host. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "store/store.h"
#include "commands.h"
#include "common/options.h"
#include "run.h"
#include "run_engine.h"
#include "run_folder.h"
#include "run_from.h"
#include "run_host.h"
#include "run_line.h"
#include "spotnik/spotnik.h"

static const char help[] =
    "Usage: spotnik run [OPTION]... -- COMMAND [ARGUMENT]...\n\n"
    "Start workers on this machine. They find each other, survive losses, and admit newcomers by "
    "themselves. This\n"
    "program starts them, tags each line they print with its worker, and kills some on request.\n\n"
    "  -n, --workers N         start N workers of this host; the first step waits for all of "
    "them, and one is enough\n"
    "                          afterwards. MIN:MAX: start MAX; steps wait until the job has MIN "
    "members             [1]\n"
    "      --respawn           start a new worker for every one that is lost or fails; not for one "
    "that ends with 0, and\n"
    "                          no more after three in a row that never committed a step\n"
    "      --max-failures N    with --respawn: no more after N in a row that ended with the same "
    "error "
    "within 10 minutes of\n"
    "                          their start, in one worker's place; the error is shown once         "
    " "
    "         [10]\n"
    "      --kill-every TIME   SIGKILL a random member every TIME (5s, 500ms) from the first "
    "committed step on, never\n"
    "                          below MIN; workers that have not committed a step yet are spared "
    "and not counted\n"
    "      --churn FILE        replay a trace of lines milliseconds,add|remove,node: add starts a "
    "worker,\n"
    "                          remove kills it with SIGKILL\n"
    "      --speedup X         replay the trace X times as fast                                    "
    "    [1]\n"
    "      --seed N            seed of the choice of --kill-every                                  "
    "    [clock]\n"
    "      --peers SPEC        where to find the job: host:port,..., file:DIR, s3://BUCKET/NAME, "
    "gs://..., az://...; "
    "slurm, slurm:JOB, "
    "slurm:step, skypilot,\n"
    "                          hosts:FILE, exec:COMMAND or dns://train-[0-7].train[:PORT]; see "
    "docs/guide    [what the engine says; a folder for this run]\n"
    "      --from PATH         begin from this checkpoint: such as a minority's, where the others "
    "are gone for good. "
    "Refused\n"
    "                          where the job lives, or has a later one [the newest in "
    "SPOTNIK_CHECKPOINT]\n"
    "      --min N             steps wait until the job has N members on all hosts together; not "
    "beside -n MIN:MAX\n"
    "                          [MIN]\n"
    "      --key-file FILE     the job key; see spotnik key                        [a key made for "
    "this run]\n"
    "      --bind ADDRESS      address that workers listen on; auto: this host's   [127.0.0.1]\n"
    "      --tls MODE          TLS: off, psk (by the job key) or cert:DIR   [psk between hosts]\n"
    "      --transport WAY     shm, tcp, or auto: shared memory among members of one host    "
    "[auto]\n"
    "      --sync STRATEGY     how to keep replicas together, in programs that leave it to "
    "Spotnik: ssgd, sma, easgd,\n"
    "                          localsgd, lookahead+..., adpsgd, asp, hogwild, "
    "or\n"
    "                          auto[:throughput|:fastest|:waiting|:schedule=PART][:A/B]\n"
    "      --batching HOW      even; dynamic: shares of a step follow the workers' speed           "
    "       [even]\n"
    "      --notice SOURCE     source of warnings that this machine is taken away: auto, off, aws, "
    "gcp, azure,\n"
    "                          exec:COMMAND or file:PATH; may be repeated; see spotnik notice      "
    "    [auto]\n"
    "      --on-notice COMMAND run this for each warning, which SPOTNIK_NOTICE_* describe\n"
    "      --notice-patience TIME   so long after the deadline: workers come back [60s]\n"
    "      --group N           each worker is a group of N processes, which shard a model and are "
    "one member together; auto:\n"
    "                          the GPUs of this host. -n counts members; see docs/guide/groups.md\n"
    "      --gpus-per-worker N GPUs of this host that a worker gets, by CUDA_VISIBLE_DEVICES; 0: "
    "the variable stays\n"
    "                          [1, or N of --group; 0 with --torchrun-env]\n"
    "      --torchrun-env      give workers torchrun's variables (RANK, WORLD_SIZE, MASTER_ADDR, "
    "...), which make many\n"
    "                          libraries start a process group of a fixed size that cannot lose a "
    "member\n"
    "      --done FILE         create this file when the job is done, for scripts that cannot "
    "trust an exit status\n"
    "      --grace TIME        time for workers to leave before SIGTERM, and then SIGKILL [10s]\n"
    "      --stall-timeout TIME end a group with a process that makes no call for so long [never]\n"
    "      --job NAME               of the job; members of other jobs are refused                  "
    "          [spotnik]\n"
    "      --name NAME              the same as --job\n"
    "      --checkpoint WHERE       all members write checkpoints to this folder, "
    "s3://BUCKET/NAME, gs://... or az://...; "
    "the job begins from the newest\n"
    "      --checkpoint-s SECONDS   between two checkpoints [600]\n"
    "      --checkpoint-steps N     steps between two checkpoints instead\n"
    "      --on-minority WHAT       when cut off from the majority: wait, or stop [wait]\n"
    "      --max N                  never more members on all hosts together                       "
    "          [256]\n"
    "      --silence-ms MS          silence that counts as a loss, at least                        "
    "          [250]\n"
    "      --lanes N                connections that carry the data to a member of another host    "
    "          [4]\n"
    "      --noise WHAT             scale: measure the noise scale of the gradients                "
    "          [off]\n"
    "      --http-token-file FILE   token that readers of the page must show\n"
    "      --events DIR             folder or bucket of the event log, or off              [events "
    "in the checkpoints]\n"
    "      --trace DIR              each worker writes a trace there, for spotnik trace\n"
    "      --dump DIR               folder for dumps of the flight recorder, or off         [dumps "
    "in the checkpoints]\n"
    "      --price DOLLARS          of this member per hour, for page and report\n"
    "      --budget DOLLARS         of the job, for page and report\n"
    "      --http WHERE        workers serve metrics and a live page: a port, or address:port; the "
    "first takes it, the next the\n"
    "                          one after it. See spotnik(1)\n"
    "      --output WHOSE      all: show what every worker prints; senior: what the member of "
    "lowest rank here prints, and the\n"
    "                          last errors of a worker that fails; none: nothing    [senior on a "
    "terminal, else all]\n"
    "      --log-dir FOLDER    each worker appends what it prints to FOLDER/w0.log, w1.log, ...,\n"
    "                          which are whole however this program ends\n"
    "      --json              our own lines as JSON objects, and the status of the job once a "
    "second\n"
    "  -q, --quiet             no lines of our own\n\n"
    "SIGTERM, Ctrl-C or the end of the terminal asks the workers to leave: they finish the step "
    "they "
    "are in and say goodbye.\nSo does the end of this program, however it comes.\n"
    "Exit status: 0 done; 74 ended, and none of the checkpoints that were asked for is complete; "
    "75 "
    "interrupted, or all\nmembers were lost, with work left (start it again); 76 another\n"
    "founding has the job's name or its place (do not start it again before you know which one is "
    "meant); else that of\n"
    "the first worker that failed. The job is done when it says so, or when all members have ended "
    "with 0. A worker\n"
    "that ends alone has left.\n\n"
    "Examples:\n"
    "  spotnik run -n 4 -- ./train                               four workers\n"
    "  spotnik run -n 2:4 --respawn --kill-every 5s -- ./train   and one killed every five "
    "seconds\n"
    "  spotnik run -n 2:32 --churn p3-trace.csv --speedup 100 -- ./train   a day on the spot "
    "market in minutes\n"
    "  spotnik run --peers file:/shared/job --key-file job.key -n 1:8 -- ./train   join a job "
    "across hosts\n";

enum {
    OPTION_RESPAWN = 256,
    OPTION_KILL,
    OPTION_CHURN,
    OPTION_SPEEDUP,
    OPTION_SEED,
    OPTION_PEERS,
    OPTION_KEY,
    OPTION_GRACE,
    OPTION_STALL,
    OPTION_TRANSPORT,
    OPTION_SYNC,
    OPTION_BATCHING,
    OPTION_NOTICE,
    OPTION_ON_NOTICE,
    OPTION_NOTICE_PATIENCE,
    OPTION_MIN,
    OPTION_FROM,
    OPTION_JSON,
    OPTION_TORCHRUN,
    OPTION_GROUP,
    OPTION_DONE,
    OPTION_OUTPUT,
    OPTION_LOG_DIR,
    OPTION_FAILURES,
    OPTION_GPUS,
    OPTION_NAME,
    OPTION_SETTING /* sets the variable of its name */
};

static const struct option names[] = {
    { "workers", required_argument, NULL, 'n' },
    { "respawn", no_argument, NULL, OPTION_RESPAWN },
    { "max-failures", required_argument, NULL, OPTION_FAILURES },
    { "kill-every", required_argument, NULL, OPTION_KILL },
    { "churn", required_argument, NULL, OPTION_CHURN },
    { "speedup", required_argument, NULL, OPTION_SPEEDUP },
    { "seed", required_argument, NULL, OPTION_SEED },
    { "peers", required_argument, NULL, OPTION_PEERS },
    { "key-file", required_argument, NULL, OPTION_KEY },
    { "grace", required_argument, NULL, OPTION_GRACE },
    { "stall-timeout", required_argument, NULL, OPTION_STALL },
    { "transport", required_argument, NULL, OPTION_TRANSPORT },
    { "sync", required_argument, NULL, OPTION_SYNC },
    { "batching", required_argument, NULL, OPTION_BATCHING },
    { "name", required_argument, NULL, OPTION_NAME },
    { "job", required_argument, NULL, OPTION_SETTING },
    { "lanes", required_argument, NULL, OPTION_SETTING },
    { "tls", required_argument, NULL, OPTION_SETTING },
    { "noise", required_argument, NULL, OPTION_SETTING },
    { "max", required_argument, NULL, OPTION_SETTING },
    { "silence-ms", required_argument, NULL, OPTION_SETTING },
    { "on-minority", required_argument, NULL, OPTION_SETTING },
    { "checkpoint", required_argument, NULL, OPTION_SETTING },
    { "checkpoint-s", required_argument, NULL, OPTION_SETTING },
    { "checkpoint-steps", required_argument, NULL, OPTION_SETTING },
    { "http", required_argument, NULL, OPTION_SETTING },
    { "http-token-file", required_argument, NULL, OPTION_SETTING },
    { "events", required_argument, NULL, OPTION_SETTING },
    { "trace", required_argument, NULL, OPTION_SETTING },
    { "dump", required_argument, NULL, OPTION_SETTING },
    { "price", required_argument, NULL, OPTION_SETTING },
    { "budget", required_argument, NULL, OPTION_SETTING },
    { "bind", required_argument, NULL, OPTION_SETTING },
    { "json", no_argument, NULL, OPTION_JSON },
    { "notice", required_argument, NULL, OPTION_NOTICE },
    { "on-notice", required_argument, NULL, OPTION_ON_NOTICE },
    { "min", required_argument, NULL, OPTION_MIN },
    { "from", required_argument, NULL, OPTION_FROM },
    { "done", required_argument, NULL, OPTION_DONE },
    { "notice-patience", required_argument, NULL, OPTION_NOTICE_PATIENCE },
    { "output", required_argument, NULL, OPTION_OUTPUT },
    { "log-dir", required_argument, NULL, OPTION_LOG_DIR },
    { "group", required_argument, NULL, OPTION_GROUP },
    { "gpus-per-worker", required_argument, NULL, OPTION_GPUS },
    { "torchrun-env", no_argument, NULL, OPTION_TORCHRUN },
    { "quiet", no_argument, NULL, 'q' },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

struct request {
    struct run_options run;
    const char *peers, *key_file, *churn_file, *done_file, *from;
    bool notice_named, has_group;
    uint32_t job_min; /* 0: that of this host */
    const char *span; /* of -n MIN:MAX; NULL: one number, or none */
    struct run_folder folder;
};

static bool is_transport(const char *value)
{
    return strcmp(value, "auto") == 0 || strcmp(value, "shm") == 0 || strcmp(value, "tcp") == 0;
}

static bool is_batching(const char *value)
{
    return strcmp(value, "even") == 0 || strcmp(value, "dynamic") == 0;
}

/* "off" forgets what was named before. */
static bool take_notice(struct notice_watcher_options *notice, const char *value)
{
    if (!strcmp(value, "off"))
        notice->count = 0;
    else if (notice->count < NOTICE_WATCHER_FROM)
        notice->from[notice->count++] = value;
    return strcmp(value, "off") == 0 || notice->from[notice->count - 1] == value;
}

static bool take_workers(struct request *ret, const char *value)
{
    if (!option_span(value, &ret->run.min, &ret->run.max))
        return false;
    ret->run.start = 0;
    ret->span = strchr(value, ':') ? value : NULL;
    if (!ret->span) {
        ret->run.start = ret->run.max;
        ret->run.min = 1;
    }
    return true;
}

/* "auto" stands for 0 until the GPUs are counted. */
static bool take_group(struct request *ret, const char *value)
{
    uint32_t least = 1;

    ret->has_group = true;
    if (strcmp(value, "auto") == 0)
        return true;
    return option_span(value, &least, &ret->run.group) && least == ret->run.group
           && least <= AGENT_GROUP_MAX;
}

static bool take_option(struct request *ret, int option, const char *value)
{
    switch (option) {
    case 'n':
        return take_workers(ret, value);
    case 'q':
        ret->run.quiet = true;
        return true;
    case OPTION_RESPAWN:
        ret->run.respawn = true;
        return true;
    case OPTION_FAILURES:
        return option_span(value, &ret->run.failures_max, &ret->run.failures_max);
    case OPTION_KILL:
        return option_duration(value, &ret->run.kill_every_ns);
    case OPTION_GRACE:
        return option_duration(value, &ret->run.grace_ns);
    case OPTION_STALL:
        return option_duration(value, &ret->run.stall_ns);
    case OPTION_SPEEDUP:
        return option_ratio(value, &ret->run.speedup);
    case OPTION_SEED:
        return option_u64(value, 0, UINT64_MAX, &ret->run.seed);
    case OPTION_GPUS:
        return option_u64(value, 0, AGENT_GPUS_MAX, &ret->run.gpus.per_worker);
    case OPTION_TORCHRUN:
        ret->run.torchrun = true;
        return true;
    case OPTION_GROUP:
        return take_group(ret, value);
    case OPTION_CHURN:
        ret->churn_file = value;
        return true;
    case OPTION_PEERS:
        ret->peers = value;
        return true;
    case OPTION_KEY:
        ret->key_file = value;
        return true;
    case OPTION_NAME:
        return *value && setenv("SPOTNIK_JOB", value, 1) == 0;
    case OPTION_TRANSPORT:
        return is_transport(value) && setenv("SPOTNIK_TRANSPORT", value, 1) == 0;
    case OPTION_SYNC:
        ret->run.watch_sync = true;
        return setenv("SPOTNIK_SYNC", value, 1) == 0;
    case OPTION_BATCHING:
        return is_batching(value) && setenv("SPOTNIK_BATCHING", value, 1) == 0;
    case OPTION_NOTICE:
        ret->notice_named = true;
        return take_notice(&ret->run.notice, value);
    case OPTION_MIN:
        return option_span(value, &ret->job_min, &ret->job_min);
    case OPTION_FROM:
        ret->from = value;
        return *value != 0;
    case OPTION_DONE:
        ret->done_file = value;
        return true;
    case OPTION_ON_NOTICE:
        ret->run.notice.hook = value;
        return true;
    case OPTION_NOTICE_PATIENCE:
        return option_duration(value, &ret->run.notice.patience_ns);
    case OPTION_OUTPUT:
        return output_parse(value, &ret->run.output.whose);
    case OPTION_LOG_DIR:
        ret->run.output.log_dir = value;
        return *value != 0;
    case OPTION_JSON:
        run_line_json();
        return true;
    default:
        return false;
    }
}

/* --checkpoint-s is SPOTNIK_CHECKPOINT_S. */
static bool take_setting(const char *option, const char *value)
{
    char name[64] = "SPOTNIK_";
    size_t used = strlen(name);

    for (; *option && used < sizeof(name) - 1; option++)
        name[used++] = *option == '-' ? '_' : (char)toupper((unsigned char)*option);
    name[used] = 0;
    return *value && setenv(name, value, 1) == 0;
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct request *request)
{
    int option, at = 0;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "+n:qh", names, &at)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return option_refuse("run", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        if (!(option == OPTION_SETTING ? take_setting(names[at].name, optarg)
                                       : take_option(request, option, optarg)))
            return option_refuse("run", "\"%s\" is no value for %s", optarg, argv[optind - 2]);
    }
    if (optind == argc)
        return option_refuse("run", "what shall the workers run? Put it after --");
    if (request->job_min && request->span)
        return option_refuse("run",
                             "-n %s and --min %u both name what steps wait for: give -n %u "
                             "--min %u",
                             request->span, request->job_min, request->run.max, request->job_min);
    request->run.command = argv + optind;
    if (!request->notice_named)
        take_notice(&request->run.notice, "auto");
    return 0;
}

static bool read_churn(struct request *request)
{
    char error[256];

    if (!request->churn_file)
        return true;
    if (churn_read(request->churn_file, &request->run.churn, error, sizeof(error)))
        return true;
    fprintf(stderr, "spotnik run: %s: %s\n", request->churn_file, error);
    return false;
}

/* torchrun's meeting point, for libraries that look for it. Nothing of ours listens there. */
static void set_master(void)
{
    uint16_t port = agent_group_port();
    char text[16];

    if (!port)
        return;
    snprintf(text, sizeof(text), "%u", (unsigned)port);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", text, 0);
}

static bool set_group(struct request *request)
{
    if (!request->has_group)
        return true;
    if (request->run.torchrun) {
        fprintf(stderr, "spotnik run: leave out --torchrun-env: with --group the processes of each "
                        "group get RANK, WORLD_SIZE and the like, for the inside of the group\n");
        return false;
    }
    if (!request->run.group)
        request->run.group = run_host_gpus("/proc/driver/nvidia/gpus");
    if (request->run.group && request->run.group <= AGENT_GROUP_MAX)
        return true;
    fprintf(stderr, "spotnik run: --group auto: this host shows %u GPUs; say --group N, 1 to %d\n",
            request->run.group, AGENT_GROUP_MAX);
    return false;
}

/* Workers of one host share its processors. In each worker, libraries that compute (BLAS, OpenMP,
 * PyTorch) start as many threads as there are processors. The threads wait for one another by
 * spinning, and a step takes many times as long. */
static void set_threads(uint32_t workers)
{
    char text[16];
    uint32_t processors = run_host_processors("/proc/self/cgroup", "/sys/fs/cgroup");

    snprintf(text, sizeof(text), "%u", processors > workers ? processors / workers : 1);
    setenv("OMP_NUM_THREADS", text, 0);
}

/* What an engine says stands for --peers, and for the place where workers listen. */
static bool find_peers(struct request *request)
{
    static struct run_engine engine;

    if (!run_engine_find(request->peers, getenv("SPOTNIK_BIND"), request->run.max, &engine))
        return false;
    if (engine.said[0] && !request->run.quiet)
        run_line_say(NULL, engine.said);
    request->peers = engine.peers;
    if (engine.bind[0])
        setenv("SPOTNIK_BIND", engine.bind, 1);
    request->run.bind = engine.bind;
    request->run.bind_port = engine.port;
    return true;
}

/* Without the "file:" that may stand before it. */
static const char *folder_of(const char *text)
{
    return text && !strncmp(text, "file:", 5) ? text + 5 : text;
}

static bool set_environment(struct request *request)
{
    char text[16];
    uint32_t min = request->job_min ? request->job_min : request->run.min;

    if (!request->key_file)
        request->key_file = getenv("SPOTNIK_KEY_FILE");
    if (!run_host_members(min > request->run.start ? min : request->run.start)
        || !set_group(request) || !run_from_set(request->from, request->key_file))
        return false;
    if (request->run.torchrun)
        set_master();
    set_threads(request->run.max * (request->run.group ? request->run.group : 1));
    run_gpus_deal(&request->run);
    snprintf(text, sizeof(text), "%u", min);
    setenv("SPOTNIK_MIN", text, 1);
    if (!request->peers)
        request->peers = getenv("SPOTNIK_PEERS");
    if (request->peers && !*request->peers) { /* a variable that was meant to say something */
        fprintf(stderr, "spotnik run: SPOTNIK_PEERS (--peers) is empty. Say where the job is found "
                        "(host:port,..., file:DIR, " SPOTNIK_OBJECTS_URLS "),\n"
                        "or unset it for a job all on this host.\n");
        return false;
    }
    if (!find_peers(request))
        return false;
    request->run.local = !request->peers || !*request->peers;
    request->run.folder = request->run.local ? &request->folder : NULL;
    if (request->run.local)
        return run_folder_make(&request->folder, request->key_file);
    setenv("SPOTNIK_PEERS", request->peers, 1);
    if (!request->key_file) {
        fprintf(stderr,
                "spotnik run: a job across hosts needs a key that all its hosts share.\n"
                "Make one with: spotnik key job.key; then give --key-file job.key everywhere.\n");
        return false;
    }
    setenv("SPOTNIK_KEY_FILE", request->key_file, 1);
    request->run.done_folder =
        folder_of(!strncmp(request->peers, "file:", 5) || spotnik_objects_is_bucket(request->peers)
                      ? request->peers
                      : getenv("SPOTNIK_CHECKPOINT"));
    return true;
}

int spotnik_cmd_run(int argc, char **argv)
{
    struct request request = { .run = { .min = 1,
                                        .max = 1,
                                        .speedup = 1,
                                        .failures_max = 10,
                                        .grace_ns = 10 * SPOTNIK_S,
                                        .notice = { .patience_ns = 60 * SPOTNIK_S },
                                        .gpus = { .per_worker = AGENT_GPUS_UNSAID },
                                        .seed = (uint64_t)time(NULL) } };
    int refused = parse(argc, argv, &request);

    if (refused)
        return refused == 1 ? 0 : refused;
    if (!read_churn(&request))
        return 2;
    if (!output_prepare(&request.run.output)) {
        fprintf(stderr, "spotnik run: cannot write to %s: %s; name another place with --log-dir\n",
                request.run.output.log_dir, strerror(errno));
        return 1;
    }
    bool ready = run_host_files(request.run.max) && set_environment(&request);
    if (ready && request.folder.path && !request.run.quiet)
        run_line_say_how_to_ask();
    int status = ready ? run_loop(&request.run) : 1;
    int done = status == 0 && request.done_file
                   ? open(request.done_file, O_WRONLY | O_CREAT | O_CLOEXEC, 0600)
                   : -1;
    if (done >= 0)
        close(done);
    else if (status == 0 && request.done_file)
        fprintf(stderr, "spotnik run: cannot make %s: %s\n", request.done_file, strerror(errno));
    run_folder_remove(&request.folder);
    churn_free(&request.run.churn);
    return status;
}
