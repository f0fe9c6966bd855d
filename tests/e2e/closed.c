/* SPDX-License-Identifier: Apache-2.0 */
/* A live process closes all descriptors that it does not know, as daemonisers do, and opens others
 * in their place. Claim: its member commits nothing after that; its calls end with an error that
 * says why, and none of the new descriptors is touched. The others go on, and what they committed
 * is the only result of every step. Two members of one host, in shared memory and over TCP; and
 * three on two hosts: of two machines the one that is left may have to wait out the silence of the
 * other (docs/protocol.md, 16).
 *
 *     e2e-closed [steps=20] */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "cluster.h"
#include "spotnik/spotnik.h"

enum { FILES = 300, FURTHER = 50, TOGETHER = 4, LIMIT_S = 60 };

static struct {
    uint64_t closed_at; /* the step committed last by the one that closes, 0: not yet */
    uint64_t committed; /* and after all */
    uint64_t other;     /* by the others */
    int rc, untouched;
    char why[300];
} *told;

static uint64_t after;
static uint32_t members;

static int step_once(spotnik_job *job, float *g, uint64_t *ret_step)
{
    spotnik_step step;
    int rc = spotnik_step_begin(job, &step);
    g[0] = 1;
    if (!rc && !step.replay)
        /* as if it computed: a founder that does nothing but step outruns every joiner */
        usleep(200);
    if (!rc)
        rc = spotnik_allreduce(job, 0, g, 1000, SPOTNIK_F32, SPOTNIK_SUM);
    if (!rc)
        rc = spotnik_step_commit(job);
    if (!rc)
        *ret_step = step.number;
    return rc;
}

/* All of ours, whatever they are, become files of somebody else. */
static void close_behind_its_back(int *file)
{
    if (syscall(SYS_close_range, 3, ~0u, 0) != 0)
        exit(77);
    for (int i = 0; i < FILES; i++)
        file[i] = open("/dev/null", O_RDONLY);
}

static bool are_open(const int *file)
{
    bool all = true;
    for (int i = 0; i < FILES; i++)
        if (file[i] >= 0 && fcntl(file[i], F_GETFD) < 0) {
            printf("descriptor %d was closed\n", file[i]);
            all = false;
        }
    fflush(stdout);
    return all;
}

static void be_member(bool closes)
{
    static float w[1000], g[1000];
    int file[FILES];
    spotnik_config config;
    spotnik_job *job;
    uint64_t step = 0;
    spotnik_config_init(&config);
    if (spotnik_join(&config, &job) || spotnik_state_add(job, "w", w, 1000, SPOTNIK_F32)) {
        fprintf(stderr, "FAILED: cannot join: %s\n", spotnik_last_error());
        exit(1);
    }
    while (!closes) { /* until the one that closes has ended, and for a while */
        int rc = step_once(job, g, &step);
        if (rc) {
            fprintf(stderr, "FAILED: another member ends with %d: %s\n", rc, spotnik_last_error());
            exit(1);
        }
        __atomic_store_n(&told->other, step, __ATOMIC_SEQ_CST);
        uint64_t ended = __atomic_load_n(&told->committed, __ATOMIC_SEQ_CST);
        if (ended && step >= ended + FURTHER)
            exit(spotnik_leave(job) ? 1 : 0);
    }
    /* A member that has just come in may lack the result of one step, which only the others have:
     * that is handed over first. */
    for (int together = 0; step < after || together < TOGETHER;) {
        spotnik_job_status status;
        if (step_once(job, g, &step))
            exit(1);
        spotnik_status(job, &status);
        together = status.size == members ? together + 1 : 0;
    }
    close_behind_its_back(file);
    told->closed_at = step;
    do
        told->rc = step_once(job, g, &step);
    while (!told->rc);
    snprintf(told->why, sizeof told->why, "%s", spotnik_last_error());
    spotnik_abandon(job);
    told->untouched = are_open(file);
    __atomic_store_n(&told->committed, step, __ATOMIC_SEQ_CST);
    exit(0);
}

static pid_t start(bool closes, const char *host)
{
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    alarm(LIMIT_S * CLUSTER_SLOWNESS);
    if (host)
        setenv("SPOTNIK_HOST", host, 1);
    be_member(closes);
    _exit(1);
}

static void play(const char *transport, bool apart)
{
    char dir[] = "/tmp/spotnik-closed-XXXXXX", path[64];
    int status[3] = { 0 };
    memset(told, 0, sizeof *told);
    if (!mkdtemp(dir))
        exit(2);
    snprintf(path, sizeof path, "%s/key", dir);
    if (spotnik_key_create(path))
        exit(2);
    setenv("SPOTNIK_KEY_FILE", path, 1);
    snprintf(path, sizeof path, "file:%s/peers", dir);
    setenv("SPOTNIK_PEERS", path, 1);
    setenv("SPOTNIK_JOB", "closed", 1);
    setenv("SPOTNIK_TRANSPORT", transport, 1);
    mkdir(path + 5, 0700);
    members = apart ? 3 : 2;
    pid_t pid[3] = { start(true, apart ? "two" : NULL) };
    for (uint32_t i = 1; i < members; i++)
        pid[i] = start(false, apart ? "one" : NULL);
    for (uint32_t i = 0; i < members; i++)
        waitpid(pid[i], &status[i], 0);
    snprintf(path, sizeof path, "rm -rf %s", dir);
    if (system(path) != 0 || WEXITSTATUS(status[0]) == 77)
        exit(77);
    printf("%s, %s: closed after step %" PRIu64 ", commits until %" PRIu64
           " (%d: %s); the others go on to %" PRIu64 "\n",
           transport, apart ? "two hosts" : "one host", told->closed_at, told->committed, told->rc,
           told->why, told->other);
    if (status[0] || status[1] || status[2] || told->rc != SPOTNIK_ERR_SYSTEM
        || !strstr(told->why, "descriptors") || !told->untouched
        || told->committed != told->closed_at) {
        printf("FAILED: statuses %d, %d and %d, descriptors %s\n", status[0], status[1], status[2],
               told->untouched ? "untouched" : "touched");
        exit(1);
    }
}

int main(int argc, char **argv)
{
    after = cluster_argument(argc, argv, "steps", 20);
    setvbuf(stdout, NULL, _IOLBF, 0);
    told = mmap(NULL, sizeof *told, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return 2;
    play("auto", false);
    play("tcp", false);
    play("tcp", true);
    return 0;
}
