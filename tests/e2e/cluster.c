/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, killing and reaping the members of a test's job, and waiting for events. What the
 * events must say is checked in lineage.c. */
#include "cluster.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "api/key.h"
#include "base/assert.h"
#include "base/time.h"
#include "lineage.h"
#include "discovery/discovery.h"

uint64_t cluster_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

void cluster_new(struct cluster *cluster, uint32_t places, uint64_t seed)
{
    memset(cluster, 0, sizeof *cluster);
    snprintf(cluster->dir, sizeof cluster->dir, "%s/spotnik-e2e-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    if (!mkdtemp(cluster->dir))
        cluster_fail(cluster, "mkdtemp: %m");
    snprintf(cluster->key, sizeof cluster->key, "%s/key", cluster->dir);
    snprintf(cluster->peers, sizeof cluster->peers, "%s/peers", cluster->dir);
    snprintf(cluster->spec, sizeof cluster->spec, "file:%s", cluster->peers);
    if (spotnik_discovery_fresh(cluster->peers) || spotnik_key_create(cluster->key))
        cluster_fail(cluster, "cannot prepare %s", cluster->dir);
    if (spotnik_slots_new(CLUSTER_PLACES, &cluster->slots_fd, &cluster->slots))
        cluster_fail(cluster, "cannot make slots");
    for (uint32_t i = 0; i < CLUSTER_PLACES; i++)
        cluster->worker[i].events = -1;
    cluster->places = places;
    cluster->min = 1;
    cluster->digest_of = calloc(CLUSTER_STEPS, sizeof *cluster->digest_of);
    if (!cluster->digest_of)
        cluster_fail(cluster, "no memory");
    spotnik_prng_seed(&cluster->prng, seed);
    signal(SIGPIPE, SIG_IGN);
}

static void remove_dir(const char *path)
{
    pid_t pid = fork();

    if (pid == 0) {
        execlp("rm", "rm", "-rf", path, (char *)NULL);
        _exit(127);
    }
    if (pid > 0)
        waitpid(pid, NULL, 0);
}

void cluster_free(struct cluster *cluster)
{
    for (uint32_t i = 0; i < CLUSTER_PLACES; i++) {
        struct worker *worker = &cluster->worker[i];

        if (worker->pid) {
            kill(worker->pid, SIGKILL);
            kill(worker->pid, SIGCONT);
            waitpid(worker->pid, NULL, 0);
        }
        if (worker->events >= 0)
            close(worker->events);
    }
    spotnik_slots_unmap(cluster->slots);
    close(cluster->slots_fd);
    free(cluster->digest_of);
    remove_dir(cluster->dir);
}

void cluster_fail(struct cluster *cluster, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "FAILED: ");
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    for (uint32_t i = 0; i < cluster->places; i++) {
        const struct worker *worker = &cluster->worker[i];

        if (worker->number)
            fprintf(stderr, "  place %u: w%u pid %d step %llu epoch %llu size %u%s%s member %s\n",
                    i, worker->number, (int)worker->pid, (unsigned long long)worker->step,
                    (unsigned long long)worker->epoch, worker->size,
                    worker->replay ? " replaying" : "", worker->killed ? " killed" : "",
                    worker->member);
    }
    if (getenv("E2E_HOLD")) /* for a debugger: the members stay as they are */
        pause();
    if (cluster->slots)
        cluster_free(cluster);
    exit(1);
}

/* ---- processes ---- */

static void set_number(const char *name, uint64_t value)
{
    char text[32];

    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

/* In the child: the environment of a member, as `spotnik run` sets it. */
static void become(const struct cluster *cluster, uint32_t place, int events)
{
    const char *argv[40];
    int at = 0;
    char fd[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL); /* however the test ends, it leaves nobody behind */
    setenv("SPOTNIK_JOB", "e2e", 1);
    setenv("SPOTNIK_KEY_FILE", cluster->key, 1);
    setenv("SPOTNIK_PEERS", cluster->spec, 1);
    set_number("SPOTNIK_MIN", cluster->min);
    set_number("SPOTNIK_MAX", 64);
    if (cluster->hosts)
        set_number("SPOTNIK_HOST", place % cluster->hosts);
    if (cluster->bind[place])
        setenv("SPOTNIK_BIND", cluster->bind[place], 1);
    if (!cluster->without_slots) {
        fcntl(cluster->slots_fd, F_SETFD, 0);
        set_number("SPOTNIK_SLOTS_FD", (uint64_t)cluster->slots_fd);
        set_number("SPOTNIK_SLOT", place);
    }
    if (cluster->netns[place]) {
        argv[at++] = "ip";
        argv[at++] = "netns";
        argv[at++] = "exec";
        argv[at++] = cluster->netns[place];
    }
    for (int i = 0; cluster->command[i]; i++)
        argv[at++] = cluster->command[i];
    snprintf(fd, sizeof fd, "%d", events);
    argv[at++] = "-e";
    argv[at++] = fd;
    argv[at] = NULL;
    execvp(argv[0], (char *const *)argv);
    _exit(127);
}

/* A killed member is dead some time after the kill only, the longer the more memory it had. */
static void await_death(struct cluster *cluster, const struct worker *worker)
{
    uint64_t limit_ns = cluster_now_ns() + 10 * CLUSTER_SLOWNESS * SPOTNIK_S;

    while (worker->pid && worker->killed && cluster_now_ns() < limit_ns)
        cluster_turn(cluster, 10);
}

void cluster_start(struct cluster *cluster, uint32_t place)
{
    struct worker *worker = &cluster->worker[place];
    int ends[2];

    await_death(cluster, worker);
    if (worker->pid)
        cluster_fail(cluster, "place %u is taken", place);
    if (worker->events >= 0)
        close(worker->events);
    if (pipe2(ends, O_CLOEXEC))
        cluster_fail(cluster, "pipe: %m");
    memset(worker, 0, sizeof *worker);
    worker->number = ++cluster->started;
    worker->events = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    spotnik_slots_assign(cluster->slots, place);
    worker->pid = fork();
    if (worker->pid < 0)
        cluster_fail(cluster, "fork: %m");
    if (worker->pid == 0) {
        fcntl(ends[1], F_SETFD, 0);
        become(cluster, place, ends[1]);
    }
    close(ends[1]);
}

void cluster_kill(struct cluster *cluster, uint32_t place, int signal)
{
    struct worker *worker = &cluster->worker[place];

    if (!worker->pid)
        return;
    if (signal == SIGKILL) {
        worker->killed = true;
        cluster->kills++;
    }
    worker->stopped = signal == SIGSTOP ? true : signal == SIGCONT ? false : worker->stopped;
    kill(worker->pid, signal);
}

void cluster_aim(struct cluster *cluster, uint32_t place, int aim)
{
    struct worker *worker = &cluster->worker[place];
    uint64_t limit_ns = cluster_now_ns() + 10 * CLUSTER_SLOWNESS * SPOTNIK_S;

    if (!worker->pid || worker->killed)
        return;
    worker->aim_wanted = aim;
    if (sigqueue(worker->pid, SIGUSR1, (union sigval){ .sival_int = aim }) && errno != ESRCH)
        cluster_fail(cluster, "cannot signal w%u: %m", worker->number);
    while (worker->aim != aim && worker->events >= 0 && !worker->killed) {
        cluster_turn(cluster, 10);
        if (cluster_now_ns() > limit_ns)
            cluster_fail(cluster, "w%u does not hear where to die", worker->number);
    }
}

static void reap(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++) {
        struct worker *worker = &cluster->worker[i];
        int status;

        if (!worker->pid || worker->events >= 0 || waitpid(worker->pid, &status, 0) != worker->pid)
            continue; /* reaped once its pipe is at its end, so that no line is lost */
        worker->pid = 0;
        worker->ended = true;
        worker->status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        lineage_end(cluster, worker);
    }
}

/* ---- events ---- */

static void cut_lines(struct cluster *cluster, struct worker *worker)
{
    char *line = worker->line, *end;

    worker->line[worker->used] = 0;
    while ((end = strchr(line, '\n'))) {
        *end = 0;
        lineage_event(cluster, worker, line);
        line = end + 1;
    }
    worker->used -= (size_t)(line - worker->line);
    memmove(worker->line, line, worker->used);
}

static void read_events(struct cluster *cluster, struct worker *worker)
{
    for (;;) {
        ssize_t got = read(worker->events, worker->line + worker->used,
                           sizeof worker->line - 1 - worker->used);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            close(worker->events);
            worker->events = -1;
            return;
        }
        worker->used += (size_t)got;
        cut_lines(cluster, worker);
    }
}

bool cluster_turn(struct cluster *cluster, int timeout_ms)
{
    struct pollfd wait[CLUSTER_PLACES];
    uint32_t place[CLUSTER_PLACES], count = 0;

    for (uint32_t i = 0; i < cluster->places; i++)
        if (cluster->worker[i].events >= 0) {
            place[count] = i;
            wait[count++] = (struct pollfd){ cluster->worker[i].events, POLLIN, 0 };
        }
    int ready = poll(wait, count, timeout_ms);

    for (uint32_t i = 0; i < count && ready > 0; i++)
        if (wait[i].revents)
            read_events(cluster, &cluster->worker[place[i]]);
    reap(cluster);
    lineage_judge(cluster);
    return ready > 0;
}

void cluster_until(struct cluster *cluster, bool (*is_true)(struct cluster *), const char *what,
                   uint64_t limit_ms)
{
    limit_ms *= CLUSTER_SLOWNESS;
    uint64_t limit_ns = cluster_now_ns() + limit_ms * SPOTNIK_MS;

    while (!is_true(cluster)) {
        if (cluster_now_ns() > limit_ns)
            cluster_fail(cluster, "waited %llu ms for: %s", (unsigned long long)limit_ms, what);
        cluster_turn(cluster, 50);
    }
}

void cluster_spend(struct cluster *cluster, uint64_t ns)
{
    uint64_t until_ns = cluster_now_ns() + ns, now_ns;

    while ((now_ns = cluster_now_ns()) < until_ns)
        cluster_turn(cluster, (int)((until_ns - now_ns) / SPOTNIK_MS));
}

/* ---- questions ---- */

uint32_t cluster_alive(const struct cluster *cluster)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < cluster->places; i++)
        count += cluster->worker[i].pid && !cluster->worker[i].killed;
    return count;
}

uint64_t cluster_step(const struct cluster *cluster)
{
    uint64_t step = 0;

    for (uint32_t i = 0; i < cluster->places; i++)
        if (cluster->worker[i].pid && !cluster->worker[i].killed && cluster->worker[i].step > step)
            step = cluster->worker[i].step;
    return step;
}

uint64_t cluster_longest_step_anew(struct cluster *cluster)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < cluster->places; i++) {
        if (cluster->worker[i].longest_step_ns > longest_ns)
            longest_ns = cluster->worker[i].longest_step_ns;
        cluster->worker[i].longest_step_ns = 0;
    }
    return longest_ns;
}

void cluster_was_undisturbed(struct cluster *cluster)
{
    uint64_t longest_ns = cluster_longest_step_anew(cluster);

    if (longest_ns > cluster->calm_ns)
        cluster->calm_ns = longest_ns;
}

uint64_t cluster_allowed_ms(const struct cluster *cluster, uint64_t limit_ms)
{
    uint64_t ms = limit_ms / 2 + 10 * cluster->calm_ns / SPOTNIK_MS;

    return ms > limit_ms ? ms : limit_ms;
}

bool cluster_is_together(const struct cluster *cluster, uint32_t size)
{
    uint64_t epoch = 0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < cluster->places; i++) {
        const struct worker *worker = &cluster->worker[i];

        if (!worker->pid || worker->killed)
            continue;
        if (worker->size != size || worker->replay || (epoch && worker->epoch != epoch))
            return false;
        epoch = worker->epoch;
        count++;
    }
    return count == size;
}

bool cluster_is_over(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (cluster->worker[i].pid)
            return false;
    return true;
}

bool cluster_is_whole(struct cluster *cluster)
{
    return cluster_alive(cluster) == cluster->places
           && cluster_is_together(cluster, cluster->places);
}

/* Copied: workers are started with it for as long as the cluster is there. */
void cluster_use(struct cluster *cluster, const char *worker, ...)
{
    char *place = cluster->words, *end = cluster->words + sizeof cluster->words;
    va_list words;
    int at = 0;

    va_start(words, worker);
    for (const char *word = worker; word; word = va_arg(words, const char *)) {
        SPOTNIK_ASSERT(place + strlen(word) < end);
        cluster->command[at++] = place;
        place = stpcpy(place, word) + 1;
    }
    va_end(words);
    cluster->command[at] = NULL;
}

void cluster_expect_end(struct cluster *cluster, int status)
{
    uint64_t digest = 0, step = 0;

    for (uint32_t i = 0; i < cluster->places; i++) {
        const struct worker *worker = &cluster->worker[i];

        if (!worker->ended || worker->killed)
            continue;
        if (worker->accusing_ns)
            cluster_fail(cluster, "w%u was excluded although nothing had happened to it",
                         worker->number);
        if (worker->status != status)
            cluster_fail(cluster, "w%u ended with %d, not %d", worker->number, worker->status,
                         status);
        if (status == 0 && digest && (worker->digest != digest || worker->step != step))
            cluster_fail(cluster, "w%u ended with another replica or step than the others",
                         worker->number);
        digest = worker->digest;
        step = worker->step;
    }
}

uint64_t cluster_argument(int argc, char **argv, const char *name, uint64_t otherwise)
{
    size_t length = strlen(name);

    for (int i = 1; i < argc; i++)
        if (!strncmp(argv[i], name, length) && argv[i][length] == '=')
            return strtoull(argv[i] + length + 1, NULL, 10);
    return otherwise;
}
