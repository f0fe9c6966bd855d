/* SPDX-License-Identifier: Apache-2.0 */
/* The matrix of all-reduces and collectives: every element against what the test itself computes. A
 * sample named by a seed, a share of all worlds, or one world. Each is a process of its own, so
 * that one which crashes or hangs ends nothing else.
 *
 *     matrix sample [seed=N] [worlds=N] [first=N] [members=MOST] [failures=MOST]
 *         what make test does
 *     matrix all shard=K shards=N [rounds=1] [save=FILE]
 *         every N-th of all worlds, each drawn `rounds` times (dev/matrix.sh)
 *     matrix total FILES
 *         what those that were saved have covered together
 *     matrix world WORDS [until=STEP]
 *         one again; whatever fails prints this command */
#include <errno.h>
#include <execinfo.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "world.h"

#define SEED 20261122
#define WORLDS 150       /* of a sample: under two minutes on two quiet processors */
#define HANG_S 300       /* without any member coming any further */
#define LOOK_NS 20000000 /* how often that is looked at */
#define FAILURES_MAX 10  /* then the rest is not tried any more */

static struct report *report;
static const char *program;

/* ---- one world ---- */

static void again_print(const struct cell_world *world, uint64_t until)
{
    char words[512];
    cell_world_print(world, words, sizeof words);
    printf("    again: %s world %s until=%llu\n", program, words, (unsigned long long)until);
}

/* Waits for it; false: it hangs. */
static bool wait_for(pid_t child, int *ret_status)
{
    uint64_t progress = report->progress, looks = 0;
    struct timespec pause = { .tv_nsec = LOOK_NS };
    while (waitpid(child, ret_status, WNOHANG) == 0) {
        nanosleep(&pause, NULL);
        looks = progress == report->progress ? looks + 1 : 0;
        progress = report->progress;
        if (looks * LOOK_NS < HANG_S * UINT64_C(1000000000))
            continue;
        kill(child, SIGABRT);
        waitpid(child, ret_status, 0);
        return false;
    }
    return true;
}

/* A crash that comes once in a thousand worlds must not go without a trace of where it was. */
static void crash_tell(int number)
{
    void *frame[48];
    backtrace_symbols_fd(frame, backtrace(frame, 48), STDOUT_FILENO);
    raise(number);
}

static void crash_watch(void)
{
    static const int numbers[] = { SIGSEGV, SIGBUS, SIGILL, SIGABRT };
    struct sigaction action = { .sa_handler = crash_tell, .sa_flags = (int)SA_RESETHAND };
    void *frame[1];
    backtrace(frame, 1); /* what it loads, it loads now */
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaction(numbers[i], &action, NULL);
}

/* Kernels are chosen once in a process: every fourth world does without those of this processor. */
static void tier_choose(const struct cell_world *world)
{
    if (world->seed % 4 == 0)
        setenv("SPOTNIK_CPU", "scalar", 1);
    else if (world->seed % 4 == 1)
        setenv("SPOTNIK_CPU", "avx2", 0);
}

static bool play(const struct cell_world *world, uint64_t last_step)
{
    uint64_t before = report->steps;
    int status = 0;
    report->failures = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        tier_choose(world);
        crash_watch();
        world_play(world, last_step, report);
        fflush(stdout);
        _exit(0);
    }
    bool ended = child > 0 && wait_for(child, &status),
         clean = ended && status == 0 && report->failures == 0;
    if (clean)
        return true;
    if (report->failures > 0)
        printf("FAILED: %s\n", report->failure);
    else if (!ended)
        printf("FAILED: it hangs\n");
    else
        printf("FAILED: it ended with status %d, signal %d\n",
               WIFEXITED(status) ? WEXITSTATUS(status) : 0,
               WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    again_print(world, report->steps - before);
    return false;
}

/* ---- many ---- */

static const char *text_of(char **argv, const char *name)
{
    size_t size = strlen(name);
    for (; *argv != NULL; argv++)
        if (strncmp(*argv, name, size) == 0 && (*argv)[size] == '=')
            return *argv + size + 1;
    return NULL;
}

static uint64_t number_of(char **argv, const char *name, uint64_t otherwise)
{
    const char *text = text_of(argv, name);
    return text != NULL ? strtoull(text, NULL, 10) : otherwise;
}

static int end(uint32_t failed)
{
    report_print(report, stdout);
    printf(failed > 0 ? "%u worlds failed\n" : "every element is right\n", failed);
    return failed > 0;
}

static int sample(char **argv)
{
    const char *given = getenv("SPOTNIK_MATRIX_SEED");
    uint64_t seed =
        number_of(argv, "seed", given != NULL && *given != '\0' ? strtoull(given, NULL, 10) : SEED);
    uint32_t first = (uint32_t)number_of(argv, "first", 0),
             worlds = (uint32_t)number_of(argv, "worlds", WORLDS), failed = 0;
    uint32_t members = (uint32_t)number_of(argv, "members", CELL_PLAYERS_MAX);
    uint32_t failures = (uint32_t)number_of(argv, "failures", FAILURES_MAX);
    struct cell_world world;
    printf("matrix: sample of seed %llu (SPOTNIK_MATRIX_SEED gives another)\n",
           (unsigned long long)seed);
    for (uint32_t i = first; i < first + worlds && failed < failures; i++) {
        cell_world_sample(seed, i, members, &world);
        failed += !play(&world, 0);
    }
    return end(failed);
}

static int all(char **argv)
{
    uint32_t shard = (uint32_t)number_of(argv, "shard", 0),
             shards = (uint32_t)number_of(argv, "shards", 1),
             rounds = (uint32_t)number_of(argv, "rounds", 1), failed = 0;
    struct cell_world world;
    for (uint32_t i = shard;
         shards > 0 && cell_world_of_all(number_of(argv, "seed", SEED), rounds, i, &world);
         i += shards)
        failed += !play(&world, 0);
    const char *save = text_of(argv, "save");
    if (failed == 0 && save != NULL && !report_save(report, save)) {
        fprintf(stderr, "matrix: cannot write %s: %s\n", save, strerror(errno));
        return 2;
    }
    return end(failed);
}

static int total(char **argv)
{
    for (; *argv != NULL; argv++)
        if (!report_add(report, *argv)) {
            fprintf(stderr,
                    "matrix: %s is not what this program has saved; remove it and run its shard "
                    "again\n",
                    *argv);
            return 2;
        }
    return end(0);
}

static int one(char **argv)
{
    struct cell_world world;
    if (argv[0] == NULL || !cell_world_parse(argv[0], &world)) {
        fprintf(stderr, "matrix: these words name no world; copy them from a line that begins with "
                        "\"again:\"\n");
        return 2;
    }
    return end(!play(&world, number_of(argv, "until", 0)));
}

int main(int argc, char **argv)
{
    struct rlimit files;
    program = argv[0];
    report = mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (report == MAP_FAILED)
        return 2;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    signal(SIGPIPE, SIG_IGN);
    if (argc > 1 && strcmp(argv[1], "all") == 0)
        return all(argv + 2);
    if (argc > 1 && strcmp(argv[1], "total") == 0)
        return total(argv + 2);
    if (argc > 1 && strcmp(argv[1], "world") == 0)
        return one(argv + 2);
    if (argc > 1 && strcmp(argv[1], "sample") != 0) {
        fprintf(
            stderr,
            "usage: matrix sample [seed=N] [worlds=N] [first=N] [members=MOST] [failures=MOST] | "
            "all shard=K shards=N [rounds=1] [save=FILE] | total FILES | world WORDS "
            "[until=STEP]\n");
        return 2;
    }
    return sample(argv + (argc > 1 ? 2 : 1));
}
