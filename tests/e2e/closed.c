/* SPDX-License-Identifier: Apache-2.0 */
/* A live process closes all descriptors that it does not know, as daemonisers do. Claims: it ends
 * by an assertion that says why; the others go on; and no step that two members went on from has
 * two results. What was committed last may have been committed alone (docs/protocol.md, 16). In
 * shared memory and over TCP, on one host, and with a member on another one; with the numbers left
 * free, or taken by other files.
 *
 *     e2e-closed */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "cluster.h"
#include "spotnik/spotnik.h"

enum { BEFORE = 20, FURTHER = 50, STEPS = 1 << 20, LIMIT_S = 60, COUNT = 20000, FILES = 300 };
enum { MEMBERS = 3, SKIPPED = 77 };

static struct shared {
    uint64_t closed_at;              /* the last step before */
    uint32_t over;                   /* atomic: the process that closed has ended */
    uint64_t digest[MEMBERS][STEPS]; /* after each step, of each of them; 0: not committed */
} *shared;

struct way {
    const char *transport;
    bool apart, reused;
};

struct member {
    spotnik_job *job;
    uint32_t which;
    uint64_t step;
    int64_t history[1], sum[1]; /* the history is registered: a copy has the history of its donor */
    float g[COUNT];
};

static uint32_t members;

/* A small bucket, and one that members of one host add up in parts. */
static int step_once(struct member *member)
{
    spotnik_step step;
    int rc = spotnik_step_begin(member->job, &step);
    if (rc)
        return rc;
    if (!step.replay)
        usleep(500); /* stands in for computing: a founder without it outruns every joiner */
    member->sum[0] = step.replay ? 0 : (int64_t)(step.number * (member->which + 1));
    rc = spotnik_allreduce(member->job, 0, member->sum, 1, SPOTNIK_I64, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_allreduce(member->job, 1, member->g, COUNT, SPOTNIK_F32, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_step_commit(member->job);
    if (rc)
        return rc;
    member->step = step.number;
    member->history[0] =
        (int64_t)((uint64_t)member->history[0] * 1000003u + (uint64_t)member->sum[0] + 1);
    shared->digest[member->which][step.number % STEPS] = (uint64_t)member->history[0];
    return 0;
}

static void join(struct member *member, uint32_t which)
{
    spotnik_config config;
    spotnik_config_init(&config);
    member->which = which;
    if (spotnik_join(&config, &member->job)
        || spotnik_state_add(member->job, "history", member->history, 1, SPOTNIK_I64)) {
        fprintf(stderr, "FAILED: cannot join: %s\n", spotnik_last_error());
        exit(1);
    }
}

/* One that was excluded comes back with the state of another: it does not go on from its last. */
static void step_or_exit(struct member *member)
{
    int rc = step_once(member);
    if (rc == SPOTNIK_ERR_EXCLUDED) {
        shared->digest[member->which][member->step % STEPS] = 0;
    } else if (rc) {
        fprintf(stderr, "FAILED: member %u: %s\n", member->which, spotnik_last_error());
        exit(1);
    }
}

/* All of ours, whatever they are. */
static void be_closer(uint32_t which, bool reused)
{
    static struct member member;
    join(&member, which);
    for (uint32_t count = 0; count < BEFORE;) {
        spotnik_job_status status;
        step_or_exit(&member);
        spotnik_status(member.job, &status);
        count = status.size == members && !status.joining ? count + 1 : 0;
    }
    shared->closed_at = member.step;
    if (syscall(SYS_close_range, 3, ~0u, 0) != 0)
        exit(SKIPPED);
    for (int i = 0; reused && i < FILES; i++)
        if (open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
            exit(1);
    for (;;)
        step_or_exit(&member);
}

static void be_other(uint32_t which)
{
    static struct member member;
    uint64_t last = 0;
    join(&member, which);
    while (last == 0 || member.step < last) {
        step_or_exit(&member);
        if (last == 0 && __atomic_load_n(&shared->over, __ATOMIC_SEQ_CST))
            last = member.step + FURTHER;
    }
    exit(spotnik_leave(member.job) ? 1 : 0);
}

static pid_t start(uint32_t which, const struct way *way, int words)
{
    struct rlimit none = { 0, 0 };
    bool closes = which + 1 == members;
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    alarm(LIMIT_S * CLUSTER_SLOWNESS);
    if (way->apart)
        setenv("SPOTNIK_HOST", closes ? "two" : "one", 1);
    if (!closes)
        be_other(which);
    setrlimit(RLIMIT_CORE, &none);
    dup2(words, STDERR_FILENO);
    be_closer(which, way->reused);
    _exit(1);
}

/* A step that two members went on from with two results; 0: there is none. */
static uint64_t differing(void)
{
    const uint64_t *own = shared->digest[members - 1];
    for (uint32_t which = 0; which + 1 < members; which++) {
        const uint64_t *other = shared->digest[which];
        for (uint64_t step = 1; step + 1 < STEPS; step++)
            if (own[step] && other[step] && own[step + 1] && other[step + 1]
                && own[step] != other[step])
                return step;
    }
    return 0;
}

static void folder_make(char *dir)
{
    char path[64];
    if (!mkdtemp(dir))
        exit(2);
    snprintf(path, sizeof path, "%s/key", dir);
    if (spotnik_key_create(path))
        exit(2);
    setenv("SPOTNIK_KEY_FILE", path, 1);
    snprintf(path, sizeof path, "file:%s/peers", dir);
    setenv("SPOTNIK_PEERS", path, 1);
    mkdir(path + 5, 0700);
    snprintf(path, sizeof path, "%s/discovery/fresh", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* What the one that closes has said, and how all of them have ended. */
static bool is_as_claimed(const struct way *way, const int *status, const char *words)
{
    int closer = status[members - 1];
    bool aborted = WIFSIGNALED(closer) && WTERMSIG(closer) == SIGABRT;
    uint64_t differs = differing();
    bool alone = shared->digest[members - 1][shared->closed_at + 2] == 0;
    bool well = aborted && strstr(words, "a descriptor of Spotnik was closed by this process")
                && differs == 0 && alone;
    for (uint32_t i = 0; i + 1 < members; i++)
        well &= status[i] == 0;
    printf("%s, %s, numbers %s: closed after step %" PRIu64 "; %s%s", way->transport,
           way->apart ? "two hosts" : "one host", way->reused ? "taken" : "free", shared->closed_at,
           well ? "" : "FAILED: ", words);
    if (!well)
        printf("FAILED: statuses %x, %x, %x; step %" PRIu64 " has two results; %s\n",
               (unsigned)status[0], (unsigned)status[1], (unsigned)status[2], differs,
               alone ? "at most one step committed alone" : "two steps committed alone");
    return well;
}

static bool play(const struct way *way)
{
    char dir[] = "/tmp/spotnik-closed-XXXXXX", command[64], words[1024] = "";
    int status[MEMBERS] = { 0 }, pipe_fd[2];
    pid_t pid[MEMBERS];
    memset(shared, 0, sizeof *shared);
    folder_make(dir);
    setenv("SPOTNIK_TRANSPORT", way->transport, 1);
    members = way->apart ? 3 : 2;
    if (pipe2(pipe_fd, O_CLOEXEC) != 0)
        exit(2);
    for (uint32_t i = 0; i < members; i++)
        pid[i] = start(i, way, pipe_fd[1]);
    close(pipe_fd[1]);
    waitpid(pid[members - 1], &status[members - 1], 0);
    __atomic_store_n(&shared->over, 1, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i + 1 < members; i++)
        waitpid(pid[i], &status[i], 0);
    if (read(pipe_fd[0], words, sizeof words - 1) < 0)
        exit(2);
    close(pipe_fd[0]);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        exit(2);
    if (WIFEXITED(status[members - 1]) && WEXITSTATUS(status[members - 1]) == SKIPPED)
        exit(SKIPPED);
    return is_as_claimed(way, status, words);
}

int main(void)
{
    static const struct way way[] = { { "auto", false, false },
                                      { "auto", false, true },
                                      { "tcp", false, false },
                                      { "tcp", false, true },
                                      { "auto", true, true } };
    bool well = true;
    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("SPOTNIK_JOB", "closed", 1);
    setenv("SPOTNIK_DUMP", "off", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    for (size_t i = 0; i < sizeof way / sizeof *way; i++)
        well &= play(&way[i]);
    return !well;
}
