/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik fleet: keep as many machines as the plan wants. The plan says what is wanted, and the
 * engine what there is. So the command may die and be started again at any time. Where several run,
 * a lock lets one act. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "fleet_engine.h"
#include "common/options.h"

static const char help[] =
    "Usage: spotnik fleet --engine ENGINE (--plan FILE | --machines N) [OPTION]...\n\n"
    "Keep the number of machines that the plan wants, by asking the engine for more or fewer. It "
    "creates no "
    "machines itself.\n\n"
    "      --engine ENGINE     slurm: elements of the folder that spotnik slurm submit made\n"
    "                          kubernetes: the parallelism of an Indexed Job\n"
    "                          skypilot: managed jobs of one machine each, from task.yaml in the "
    "folder\n"
    "                          exec:COMMAND: told SPOTNIK_FLEET_WANTED (and SPOTNIK_FLEET_KINDS, "
    "as\n"
    "                          TYPE@ZONE=spot:N ...), it makes it so and prints how many there "
    "are, of which\n"
    "                          kinds if it knows, in the same words, or \"done\"\n"
    "      --plan FILE         what spotnik plan -o json printed, or a number; read again whenever "
    "it "
    "changes\n"
    "      --machines N        instead of a plan\n"
    "      --replan COMMAND    writes FILE anew: run at the start, after each loss, and now and "
    "then\n"
    "                          SPOTNIK_FLEET_RUNNING then holds options for spotnik plan "
    "--from-status\n"
    "      --replan-every TIME that often, too                                                     "
    "          "
    "    [1h]\n"
    "      --folder DIR        of spotnik slurm submit; also where the lock is                     "
    "          "
    "    [./spotnik]\n"
    "      --name NAME         of the Kubernetes job, or of SkyPilot's jobs                        "
    "          "
    "    [train]\n"
    "      --every TIME        between two looks                                                   "
    "          "
    "    [10s]\n"
    "      --once              look and act once\n\n"
    "It ends with 0 when the training is done. SIGTERM ends it; the machines stay as they are.\n\n"
    "  spotnik slurm submit --nodes 2:4 -s --partition=spot -- python train.py\n"
    "  spotnik fleet --engine slurm --machines 4\n"
    "  spotnik fleet --engine kubernetes --plan plan.json --replan ./replan.sh\n";

static volatile sig_atomic_t stopped;

static void on_signal(int number)
{
    (void)number;
    stopped = 1;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    va_list arguments;

    printf("fleet: ");
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
    fflush(stdout);
}

static bool take(struct fleet *fleet, int option, const char *value)
{
    uint64_t number = 0;

    switch (option) {
    case 'e':
        fleet->engine = value;
        return !strcmp(value, "slurm") || !strcmp(value, "kubernetes") || !strcmp(value, "skypilot")
               || (!strncmp(value, "exec:", 5) && value[5]);
    case 'p':
        fleet->plan = value;
        return *value;
    case 'r':
        fleet->replan = value;
        return true;
    case 'f':
        fleet->folder = value;
        return true;
    case 'N':
        fleet->name = value;
        return *value && strspn(value, "abcdefghijklmnopqrstuvwxyz0123456789-.") == strlen(value);
    case 'i':
        return option_duration(value, &fleet->every_ns);
    case 'R':
        fleet->replan_every = true;
        return option_duration(value, &fleet->replan_ns);
    case 'o':
        fleet->once = true;
        return true;
    case 'n':
        fleet->fixed = option_u64(value, 1, FLEET_MAX, &number) ? (uint32_t)number : 0;
        return number > 0;
    default:
        return false;
    }
}

/* 0: go on; 1: help was wanted; 2: refused. */
static int parse(int argc, char **argv, struct fleet *fleet)
{
    static const struct option names[] = { { "engine", required_argument, NULL, 'e' },
                                           { "plan", required_argument, NULL, 'p' },
                                           { "machines", required_argument, NULL, 'n' },
                                           { "replan", required_argument, NULL, 'r' },
                                           { "replan-every", required_argument, NULL, 'R' },
                                           { "folder", required_argument, NULL, 'f' },
                                           { "name", required_argument, NULL, 'N' },
                                           { "every", required_argument, NULL, 'i' },
                                           { "once", no_argument, NULL, 'o' },
                                           { "help", no_argument, NULL, 'h' },
                                           { NULL, 0, NULL, 0 } };
    int option, which;

    opterr = 0;
    optind = 0;
    while ((option = getopt_long(argc, argv, "h", names, &which)) != -1) {
        if (option == 'h') {
            fputs(help, stdout);
            return 1;
        }
        if (option == '?')
            return option_refuse("fleet", "unknown option, or a value is missing: %s",
                                 argv[optind - 1]);
        if (!take(fleet, option, optarg))
            return option_refuse("fleet", "\"%s\" is no value for --%s", optarg, names[which].name);
    }
    if (optind != argc)
        return option_refuse("fleet", "what is \"%s\"?", argv[optind]);
    if (!fleet->engine)
        return option_refuse("fleet", "whom to ask for machines? Give --engine");
    if (!fleet->plan == !fleet->fixed)
        return option_refuse("fleet", "how many machines? Give --plan or --machines, one of both");
    if (fleet->replan && !fleet->plan)
        return option_refuse("fleet", "--replan writes a plan anew: name its file with --plan");
    if (fleet->replan_every && !fleet->replan)
        return option_refuse("fleet", "--replan-every is of the command of --replan: give both");
    return 0;
}

/* ---- one round ---- */

struct state {
    struct fleet_plan plan; /* of `wanted` machines */
    struct fleet_view view; /* of the last look */
    uint32_t wanted, had;   /* had: at the end of the round before */
    uint64_t replan_at_ns;
    bool acting, told_waiting;
    int lock;
};

/* One acts. The lock goes with the process, however it ends. */
static bool may_act(const struct fleet *fleet, struct state *state)
{
    char path[PATH_MAX + 16];

    if (state->acting)
        return true;
    snprintf(path, sizeof(path), "%s/fleet.lock", fleet->folder);
    if (state->lock < 0)
        state->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    state->acting = state->lock >= 0 && fcntl(state->lock, F_SETLK, &whole) == 0;
    if (!state->acting && !state->told_waiting)
        say("%s: %s; this one watches", path,
            state->lock < 0 ? strerror(errno) : "another fleet acts");
    state->told_waiting = !state->acting;
    return state->acting;
}

static void replan(const struct fleet *fleet, struct state *state, const char *why)
{
    char output[4096], running[FLEET_KINDS * 300];

    if (!fleet->replan)
        return;
    fleet_running(&state->plan, &state->view, running, sizeof(running));
    setenv("SPOTNIK_FLEET_RUNNING", running, 1);
    int status = fleet_command(fleet->replan, output, sizeof(output));
    if (status)
        say("%s: the command for a new plan failed (status %d); the old plan stands", why, status);
    state->replan_at_ns = spotnik_time_add(now_ns(), fleet->replan_ns);
}

/* The number may have changed; 0: there was no plan yet. */
static void read_plan(const struct fleet *fleet, struct state *state)
{
    char error[300];
    struct fleet_plan before = state->plan;
    uint32_t wanted = fleet->plan ? fleet_plan_read(fleet->plan, &state->plan, error, sizeof(error))
                                  : fleet->fixed;

    if (!fleet->plan)
        state->plan = (struct fleet_plan){ .machines = fleet->fixed, .chance = -1 };
    if (wanted == 0)
        say("%s%s", error, state->wanted ? "; the plan before stands" : "");
    else if (state->wanted && wanted != state->wanted)
        say("the plan wants %u machines now, not %u", wanted, state->wanted);
    if (wanted && state->plan.chance >= 0 && fabs(state->plan.chance - before.chance) >= 0.005)
        say("%.0f %% sure to be in time and in budget", 100 * state->plan.chance);
    state->wanted = wanted ? wanted : state->wanted;
}

static void act(const struct fleet *fleet, struct state *state, const struct fleet_view *view)
{
    uint32_t wanted = state->wanted;

    if (view->have == wanted || wanted == 0) {
        state->had = view->have;
        return;
    }
    bool lost = view->have < state->had;
    if (lost)
        say("%u of %u machines are gone%s%s", state->had - view->have, state->had,
            view->why[0] ? ": " : "", view->why);
    if (lost && fleet->replan) {
        replan(fleet, state, "after a loss");
        read_plan(fleet, state);
        wanted = state->wanted;
    }
    state->had = view->have;
    if (view->have == wanted)
        return;
    if (view->have < wanted)
        say("%u wanted, %u there (%u running): asking for %u more", wanted, view->have,
            view->running, wanted - view->have);
    else
        say("%u wanted, %u there: giving %u back", wanted, view->have, view->have - wanted);
    if (fleet_act(fleet, wanted, view))
        state->had = wanted;
}

/* A plan of before says of what there is how it is rented; at the very beginning there is
 * neither. */
static void replan_in_time(const struct fleet *fleet, struct state *state)
{
    if (!state->wanted && fleet->plan && access(fleet->plan, R_OK) == 0)
        read_plan(fleet, state);
    if (state->wanted)
        fleet_look(fleet, &state->plan, &state->view);
    replan(fleet, state, "in time");
}

/* False: the training is done. */
static bool turn(const struct fleet *fleet, struct state *state)
{
    struct fleet_view view;

    if (!may_act(fleet, state))
        return true;
    if (fleet->replan && state->replan_at_ns <= now_ns())
        replan_in_time(fleet, state);
    read_plan(fleet, state);
    if (!fleet_look(fleet, &state->plan, &view))
        return true;
    state->view = view;
    if (view.done) {
        say("the training is done");
        return false;
    }
    act(fleet, state, &view);
    return true;
}

int main(int argc, char **argv)
{
    static char folder[PATH_MAX];
    struct fleet fleet = { .folder = "spotnik",
                           .name = "train",
                           .every_ns = 10 * SPOTNIK_S,
                           .replan_ns = 3600 * SPOTNIK_S };
    struct state state = { .lock = -1, .plan.chance = -1 };
    struct sigaction action = { .sa_handler = on_signal };
    int refused = parse(argc, argv, &fleet);

    if (refused)
        return refused == 1 ? 0 : refused;
    struct stat facts;
    if (!realpath(fleet.folder, folder) || stat(folder, &facts)
        || (!S_ISDIR(facts.st_mode) && (errno = ENOTDIR))) {
        fprintf(stderr, "spotnik fleet: %s: %s; it holds the lock: name a folder with --folder\n",
                fleet.folder, strerror(errno));
        return 2;
    }
    if (strpbrk(folder, "'\n")) { /* a shell hands it to sbatch and sky */
        fprintf(stderr, "spotnik fleet: %s: name a folder without quotes in its path\n", folder);
        return 2;
    }
    fleet.folder = folder;
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGINT, &action, NULL);
    struct timespec pause = { .tv_sec = (time_t)(fleet.every_ns / SPOTNIK_S),
                              .tv_nsec = (long)(fleet.every_ns % SPOTNIK_S) };
    bool goes_on = turn(&fleet, &state);

    while (goes_on && !fleet.once && !stopped) {
        nanosleep(&pause, NULL);
        goes_on = stopped || turn(&fleet, &state);
    }
    return fleet.once && state.acting && !state.wanted ? 1 : 0; /* there was no plan to act on */
}
