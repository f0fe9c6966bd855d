/* SPDX-License-Identifier: Apache-2.0 */
/* A live process closes one descriptor of its member, each in its turn: by itself, so that the
 * library's own next file may take the number, or with another file in its place. Claims: no step
 * has two results, and nobody hangs. The member ends with an error, or both are in one view again;
 * the other goes on. Two members of one host, in shared memory and over TCP, and two that take each
 * other for other machines.
 *
 *     e2e-closed-each [first=0] [last=99]      (of the descriptors, in order) */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "cluster.h"
#include "spotnik/spotnik.h"

enum { BEFORE = 30, AFTER = 300, FURTHER = 30, STEPS = 1 << 20, LIMIT_S = 60, COUNT = 1000 };

enum end { STILL_IN, WITH_ERROR };

static struct shared {
    uint64_t closed_at; /* the last step before it closed one; 0: not yet */
    uint64_t ended;     /* atomic: the last step of the one that closes, when it is over */
    int count;          /* of its descriptors */
    int number, rc;
    char file[80], why[300];
    uint64_t digest[2][STEPS]; /* after each step, of each of the two; 0: not committed */
} *shared;

struct member {
    spotnik_job *job;
    uint32_t which;
    int64_t history[1], sum[1]; /* the history is registered: a copy has the history of its donor */
    float g[COUNT];
    uint64_t step;
};

static int step_once(struct member *member)
{
    spotnik_step step;
    int rc = spotnik_step_begin(member->job, &step);
    if (rc)
        return rc;
    if (!step.replay)
        usleep(500); /* stands in for computing: steps without it fill both processors */
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

/* An exclusion is no end: the member comes back by itself. */
static int step_or_return(struct member *member)
{
    int rc = step_once(member);
    return rc == SPOTNIK_ERR_EXCLUDED ? 0 : rc;
}

static int by_number(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

/* Ours, in the order of their numbers. */
static int descriptors(int *ret, int most)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (const struct dirent *at; folder && (at = readdir(folder)) != NULL && count < most;)
        if (at->d_name[0] != '.' && atoi(at->d_name) > 2 && atoi(at->d_name) != dirfd(folder))
            ret[count++] = atoi(at->d_name);
    closedir(folder);
    qsort(ret, (size_t)count, sizeof *ret, by_number);
    return count;
}

static void close_one(int index, bool replaces)
{
    int list[256], null = -1;
    char path[64];
    shared->count = descriptors(list, 256);
    if (index >= shared->count)
        return;
    shared->number = list[index];
    snprintf(path, sizeof path, "/proc/self/fd/%d", shared->number);
    if (readlink(path, shared->file, sizeof shared->file - 1) < 0)
        strcpy(shared->file, "?");
    if (replaces)
        null = open("/dev/null", O_RDWR);
    if (replaces ? dup2(null, shared->number) < 0 : close(shared->number) != 0)
        exit(3);
}

static void join(struct member *member, const char *host)
{
    spotnik_config config;
    if (host)
        setenv("SPOTNIK_HOST", host, 1);
    spotnik_config_init(&config);
    if (spotnik_join(&config, &member->job)
        || spotnik_state_add(member->job, "history", member->history, 1, SPOTNIK_I64)) {
        fprintf(stderr, "FAILED: cannot join: %s\n", spotnik_last_error());
        exit(1);
    }
}

/* Wait until both have made `steps` steps in one view. */
static int together(struct member *member, uint32_t steps)
{
    int rc = 0;
    for (uint32_t count = 0; !rc && count < steps;) {
        spotnik_job_status status;
        rc = step_or_return(member);
        spotnik_status(member->job, &status);
        count = status.size == 2 && !status.joining ? count + 1 : 0;
    }
    return rc;
}

static void be_closer(int index, bool replaces, const char *host)
{
    static struct member member;
    member.which = 1;
    join(&member, host);
    if (together(&member, BEFORE))
        exit(1);
    close_one(index, replaces);
    shared->closed_at = member.step;
    shared->rc = together(&member, AFTER);
    if (shared->rc)
        snprintf(shared->why, sizeof shared->why, "%s", spotnik_last_error());
    __atomic_store_n(&shared->ended, member.step, __ATOMIC_SEQ_CST);
    spotnik_notice(member.job); /* it goes in the middle of the job */
    if (shared->rc)
        spotnik_abandon(member.job);
    else
        spotnik_leave(member.job);
    exit(0);
}

static void be_other(const char *host)
{
    static struct member member;
    join(&member, host);
    for (;;) {
        int rc = step_or_return(&member);
        if (rc) {
            fprintf(stderr, "FAILED: the other member ends with %d: %s\n", rc,
                    spotnik_last_error());
            exit(1);
        }
        uint64_t ended = __atomic_load_n(&shared->ended, __ATOMIC_SEQ_CST);
        if (ended && member.step >= ended + FURTHER)
            exit(spotnik_leave(member.job) ? 1 : 0);
    }
}

/* Steps that both have gone on from: what is committed last may be committed alone
 * (docs/protocol.md, 16). 0: all are the same. */
static uint64_t differing(void)
{
    for (uint64_t step = 1; step + 1 < STEPS; step++)
        if (shared->digest[0][step] && shared->digest[1][step] && shared->digest[0][step + 1]
            && shared->digest[1][step + 1] && shared->digest[0][step] != shared->digest[1][step])
            return step;
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
    snprintf(path, sizeof path, "%s/peers/fresh", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

/* True: there is such a descriptor. */
static bool play(const char *transport, bool apart, bool replaces, int index)
{
    char dir[] = "/tmp/spotnik-each-XXXXXX", command[64];
    pid_t pid[2];
    int status[2];
    memset(shared, 0, sizeof *shared);
    folder_make(dir);
    setenv("SPOTNIK_TRANSPORT", transport, 1);
    for (int i = 0; i < 2; i++) {
        pid[i] = fork();
        if (pid[i] == 0) {
            alarm(LIMIT_S * CLUSTER_SLOWNESS);
            if (i == 0)
                be_other(apart ? "one" : NULL);
            be_closer(index, replaces, apart ? "two" : NULL);
        }
    }
    for (int i = 0; i < 2; i++)
        waitpid(pid[i], &status[i], 0);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        exit(2);
    if (index >= shared->count && !status[0] && !status[1])
        return false;
    uint64_t differs = differing();
    bool well = !status[0] && !status[1] && !differs;
    printf("%s%s, %s %d (%s): %s %d %s\n", transport, apart ? ", two hosts" : "",
           replaces ? "another file for" : "closed", shared->number, shared->file,
           shared->rc ? "ends with" : "goes on,", shared->rc, shared->why);
    if (!well) {
        printf("FAILED: statuses %d and %d, closed after step %" PRIu64 ", ended after %" PRIu64
               ", step %" PRIu64 " has two results\n",
               status[0], status[1], shared->closed_at, shared->ended, differs);
        exit(1);
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *transport;
        bool apart;
    } way[] = { { "auto", false }, { "tcp", false }, { "tcp", true } };
    int first = (int)cluster_argument(argc, argv, "first", 0),
        last = (int)cluster_argument(argc, argv, "last", 99);

    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("SPOTNIK_JOB", "each", 1);
    setenv("SPOTNIK_STALE_MS", "2000", 1);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    for (size_t i = 0; i < sizeof way / sizeof way[0]; i++)
        for (int replaces = 0; replaces < 2; replaces++)
            for (int index = first;
                 index <= last && play(way[i].transport, way[i].apart, replaces, index); index++)
                continue;
    return 0;
}
