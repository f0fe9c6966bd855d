/* SPDX-License-Identifier: Apache-2.0 */
/* A live process harms one descriptor of its member, each in its turn, or all at once. It closes
 * it, so that the library's own next file may take the number. It puts another file in its place.
 * Or it shuts a socket down, as a child can that has inherited it: for both directions, or for
 * one. Or a child that has them all makes them blocking, takes what comes in them, writes into
 * them, or takes the events of an epoll. Claims: no step has two results, and nobody hangs. The
 * member ends with an error, or all are in one view again; the others go on. Two members of one
 * host, in shared memory and over TCP, and two that take each other for other machines.
 *
 *     e2e-closed-each [first=0] [last=99] [how=0..8] [way=0..2] [members=2] [tries=1] [all=0]
 *
 * first and last: of the descriptors, in order; all=1: all at once, and nothing else. Of the three
 * ways only TCP has every harm, unless `how` asks for it: the others have closing and shutting.
 * What a child does it does to all at once, unless `how` asks for it. */
#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "cluster.h"
#include "spotnik/spotnik.h"

enum { BEFORE = 30, AFTER = 150, FURTHER = 30, STEPS = 1 << 20, LIMIT_S = 60, COUNT = 1000 };
enum { MEMBERS = 3, ALL = -1, ANY = 99, WAYS = 3, ROUNDS = 300 };

enum how {
    CLOSED,
    REPLACED,
    SHUT_BOTH,
    SHUT_READ,
    SHUT_WRITE,
    BLOCKING,
    TAKEN_EVENTS, /* what is no socket is read, and epolls are waited on */
    TAKEN_BYTES,  /* of sockets */
    WRITTEN,      /* into sockets */
    HOWS
};

static const char *const how_text[HOWS] = { "closed",
                                            "another file for",
                                            "shut down",
                                            "shut down for reading",
                                            "shut down for writing",
                                            "made blocking",
                                            "events taken from",
                                            "bytes taken from",
                                            "written into" };

static struct shared {
    uint64_t closed_at; /* the last step before it closed one; 0: not yet */
    uint64_t ended;     /* atomic: the last step of the one that closes, when it is over */
    int count;          /* of its descriptors */
    int number, rc;
    char file[80], why[300];
    uint64_t digest[MEMBERS][STEPS]; /* after each step, of each of them; 0: not committed */
} *shared;

static uint32_t members;
static int failures;

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

static bool is_socket(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) == 0 && S_ISSOCK(facts.st_mode);
}

/* Ours, in the order of their numbers. */
static int descriptors(int *ret, int most, bool sockets)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;
    for (const struct dirent *at; folder && (at = readdir(folder)) != NULL && count < most;) {
        int fd = atoi(at->d_name);
        if (at->d_name[0] != '.' && fd > 2 && fd != dirfd(folder) && (!sockets || is_socket(fd)))
            ret[count++] = fd;
    }
    closedir(folder);
    qsort(ret, (size_t)count, sizeof *ret, by_number);
    return count;
}

static void bother(int fd, enum how how)
{
    struct epoll_event event[8];
    uint8_t bytes[64] = { 0 };
    bool socket = is_socket(fd);
    if (how == BLOCKING)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    else if (how == WRITTEN && socket)
        (void)!send(fd, bytes, sizeof bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    else if (how == TAKEN_BYTES && socket)
        (void)!recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    else if (how == TAKEN_EVENTS && !socket && epoll_wait(fd, event, 8, 0) < 0
             && poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0) > 0)
        (void)!preadv2(fd, &(struct iovec){ bytes, 8 }, 1, -1, RWF_NOWAIT);
}

/* With all of our descriptors, as clone() and vfork() leave them; fork() closes our sockets. */
static void child_bothers(const int *list, int count, enum how how)
{
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid < 0)
        exit(3);
    if (pid > 0)
        return;
    for (int round = 0; round < (how == BLOCKING ? 1 : ROUNDS); round++) {
        for (int i = 0; i < count; i++)
            bother(list[i], how);
        nanosleep(&(struct timespec){ .tv_nsec = 200000 }, NULL);
    }
    _exit(0);
}

static void harm(int fd, enum how how)
{
    if (how >= BLOCKING) {
        child_bothers(&fd, 1, how);
        return;
    }
    int null = how == REPLACED ? open("/dev/null", O_RDWR) : -1;
    if (how >= SHUT_BOTH)
        shutdown(fd, how == SHUT_BOTH ? SHUT_RDWR : how == SHUT_READ ? SHUT_RD : SHUT_WR);
    else if (how == REPLACED ? dup2(null, fd) < 0 : close(fd) != 0)
        exit(3);
}

static void harm_some(int index, enum how how)
{
    int list[256];
    char path[64];
    shared->count = descriptors(list, 256, how >= SHUT_BOTH && how <= SHUT_WRITE);
    if (index == ALL && how >= BLOCKING)
        child_bothers(list, shared->count, how);
    for (int i = 0; index == ALL && how < BLOCKING && i < shared->count; i++)
        harm(list[i], how);
    if (index == ALL || index >= shared->count)
        return;
    shared->number = list[index];
    snprintf(path, sizeof path, "/proc/self/fd/%d", shared->number);
    if (readlink(path, shared->file, sizeof shared->file - 1) < 0)
        strcpy(shared->file, "?");
    harm(shared->number, how);
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

/* Wait until all have made `steps` steps in one view. */
static int together(struct member *member, uint32_t steps)
{
    int rc = 0;
    for (uint32_t count = 0; !rc && count < steps;) {
        spotnik_job_status status;
        rc = step_or_return(member);
        spotnik_status(member->job, &status);
        count = status.size == members && !status.joining ? count + 1 : 0;
    }
    return rc;
}

static void be_closer(int index, enum how how, const char *host)
{
    static struct member member;
    member.which = members - 1;
    join(&member, host);
    if (together(&member, BEFORE))
        exit(1);
    harm_some(index, how);
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

static void be_other(uint32_t which, const char *host)
{
    static struct member member;
    member.which = which;
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

/* Steps that two have gone on from: what is committed last may be committed alone
 * (docs/protocol.md, 16). 0: all are the same. */
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
    snprintf(path, sizeof path, "%s/peers/fresh", dir);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
}

struct way {
    const char *transport;
    bool apart;
};

static pid_t start(uint32_t which, const struct way *way, int index, enum how how)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    alarm(LIMIT_S * CLUSTER_SLOWNESS);
    if (which + 1 < members)
        be_other(which, way->apart ? "one" : NULL);
    be_closer(index, how, way->apart ? "two" : NULL);
    _exit(1);
}

static bool are_well(const int *status)
{
    for (uint32_t i = 0; i < members; i++)
        if (status[i])
            return false;
    return true;
}

/* True: there is such a descriptor. */
static bool play(const struct way *way, enum how how, int index)
{
    char dir[] = "/tmp/spotnik-each-XXXXXX", command[64];
    pid_t pid[MEMBERS];
    int status[MEMBERS];
    memset(shared, 0, sizeof *shared);
    folder_make(dir);
    setenv("SPOTNIK_TRANSPORT", way->transport, 1);
    for (uint32_t i = 0; i < members; i++)
        pid[i] = start(i, way, index, how);
    for (uint32_t i = 0; i < members; i++)
        waitpid(pid[i], &status[i], 0);
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0)
        exit(2);
    if (index >= shared->count && are_well(status))
        return false;
    uint64_t differs = differing();
    printf("%s%s, %s %d (%s): %s %d %s\n", way->transport, way->apart ? ", two hosts" : "",
           how_text[how], shared->number, index == ALL ? "all" : shared->file,
           shared->rc ? "ends with" : "goes on,", shared->rc, shared->why);
    if (!are_well(status) || differs) {
        printf("FAILED: statuses %d and %d, closed after step %" PRIu64 ", ended after %" PRIu64
               ", step %" PRIu64 " has two results\n",
               status[0], status[members - 1], shared->closed_at, shared->ended, differs);
        failures++;
    }
    return true;
}

int main(int argc, char **argv)
{
    static const struct way way[WAYS] = { { "auto", false }, { "tcp", false }, { "tcp", true } };
    int first = (int)cluster_argument(argc, argv, "first", 0),
        last = (int)cluster_argument(argc, argv, "last", ANY),
        how = (int)cluster_argument(argc, argv, "how", ANY),
        only = (int)cluster_argument(argc, argv, "way", ANY),
        tries = (int)cluster_argument(argc, argv, "tries", 1);
    bool all = cluster_argument(argc, argv, "all", 0);

    setvbuf(stdout, NULL, _IOLBF, 0);
    setenv("SPOTNIK_JOB", "each", 1);
    setenv("SPOTNIK_STALE_MS", "2000", 1);
    members = (uint32_t)cluster_argument(argc, argv, "members", 2);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return 2;
    for (int t = 0; t < tries; t++)
        for (int i = 0; i < WAYS; i++)
            for (int h = 0; h < HOWS; h++) {
                bool asked = how == h || (how == ANY && (i == 1 || h == CLOSED || h == SHUT_BOTH));
                if (!asked || (only != ANY && only != i))
                    continue;
                bool at_once = all || (how == ANY && h >= BLOCKING);
                if (at_once || (how == ANY && h == SHUT_BOTH))
                    play(&way[i], (enum how)h, ALL);
                for (int index = at_once ? last + 1 : first;
                     index <= last && play(&way[i], (enum how)h, index); index++)
                    continue;
            }
    return failures != 0;
}
