/* SPDX-License-Identifier: Apache-2.0 */
/* Status and open files of members. Asking is done in a child, because it may have to enter another
 * network. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "discovery/discovery.h"
#include "spotnik/spotnik.h"

#define ASK_NS SPOTNIK_S
#define FAIL_NS (40 * SPOTNIK_S)

void probe_credentials(struct cluster *cluster, struct spotnik_credentials *ret)
{
    static uint8_t key[SPOTNIK_KEY_BYTES];

    *ret = (struct spotnik_credentials){ .key = key };
    spotnik_job_hash("e2e", ret->job);
    if (spotnik_tls_settings_read(&ret->tls) || spotnik_key_read(cluster->key, ret->key)
        || spotnik_key_random(&ret->self.id, sizeof ret->self.id))
        cluster_fail(cluster, "no credentials: %s", spotnik_last_error());
}

bool probe_member_find(struct cluster *cluster, uint32_t place, struct spotnik_member *ret)
{
    struct spotnik_member found[CLUSTER_PLACES];
    struct spotnik_credentials credentials;
    uint32_t count = 0;

    probe_credentials(cluster, &credentials);
    if (spotnik_discovery_list(cluster->spec, &credentials, found, CLUSTER_PLACES, &count))
        cluster_fail(cluster, "%s", spotnik_last_error());
    for (uint32_t i = 0; i < count; i++) {
        char id[33];

        snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)found[i].id.high,
                 (unsigned long long)found[i].id.low);
        if (!strcmp(id, cluster->worker[place].member)) {
            *ret = found[i];
            return true;
        }
    }
    return false;
}

struct spotnik_member probe_member(struct cluster *cluster, uint32_t place)
{
    struct spotnik_member member;

    if (!probe_member_find(cluster, place, &member))
        cluster_fail(cluster, "place %u has no record in the peers directory", place);
    return member;
}

static void ask(struct cluster *cluster, uint32_t place, const struct spotnik_member *member,
                int out)
{
    struct spotnik_credentials credentials;
    char path[128], *text;
    size_t size;
    int fd;

    if (cluster->netns[place]) {
        snprintf(path, sizeof path, "/run/netns/%s", cluster->netns[place]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || setns(fd, CLONE_NEWNET))
            _exit(1);
    }
    probe_credentials(cluster, &credentials);
    if (spotnik_net_question(&credentials, member->address, member->port, SPOTNIK_PURPOSE_STATUS,
                             ASK_NS, &text, &size))
        _exit(1);
    _exit(write(out, text, size) != (ssize_t)size);
}

bool probe_status(struct cluster *cluster, uint32_t place, const struct spotnik_member *member,
                  char *text, size_t size)
{
    size_t used = 0;
    ssize_t got;
    int ends[2], status;

    if (pipe2(ends, O_CLOEXEC))
        cluster_fail(cluster, "pipe: %m");
    pid_t pid = fork();
    if (pid == 0)
        ask(cluster, place, member, ends[1]);
    close(ends[1]);
    while (used < size - 1 && (got = read(ends[0], text + used, size - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    close(ends[0]);
    return waitpid(pid, &status, 0) == pid && status == 0 && used > 0;
}

void probe_until(struct cluster *cluster, uint32_t place, const struct spotnik_member *member,
                 const char *what, uint64_t limit_ms, char *text, size_t size)
{
    uint64_t limit_ns = cluster_now_ns() + limit_ms * SPOTNIK_MS;

    while (!probe_status(cluster, place, member, text, size) || !strstr(text, what)) {
        if (cluster_now_ns() > limit_ns)
            cluster_fail(cluster, "the status of place %u does not show %s: %s", place, what, text);
        cluster_turn(cluster, 20);
    }
}

static void become(const struct cluster *cluster, const char *key, const char *job,
                   const char *peers, int events)
{
    char fd[16];

    snprintf(fd, sizeof fd, "%d", events);
    fcntl(events, F_SETFD, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv("SPOTNIK_KEY_FILE", key, 1);
    setenv("SPOTNIK_JOB", job, 1);
    setenv("SPOTNIK_PEERS", peers, 1);
    execl(cluster->command[0], cluster->command[0], "-e", fd, (char *)NULL);
    _exit(127);
}

/* All it says until it ends; the members of the job are heard meanwhile. */
static void listen_to(struct cluster *cluster, pid_t pid, int events, char *text, size_t size)
{
    uint64_t limit_ns = cluster_now_ns() + FAIL_NS;
    size_t used = 0;

    fcntl(events, F_SETFL, O_NONBLOCK);
    for (ssize_t got = 1; got != 0;) {
        cluster_turn(cluster, 10);
        got = read(events, text + used, size - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        text[used] = 0;
        if (cluster_now_ns() < limit_ns)
            continue;
        kill(pid, SIGKILL);
        cluster_fail(cluster, "a worker that does not belong is still there: %s", text);
    }
}

void probe_told(struct cluster *cluster, const char *key, const char *job, const char *peers,
                char *text, size_t size)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC))
        cluster_fail(cluster, "pipe: %m");
    pid_t pid = fork();
    if (pid == 0)
        become(cluster, key, job, peers, ends[1]);
    close(ends[1]);
    text[0] = '\0';
    listen_to(cluster, pid, ends[0], text, size);
    close(ends[0]);
    waitpid(pid, NULL, 0);
}

void probe_fails(struct cluster *cluster, const char *key, const char *job, const char *peers,
                 int code, const char *why)
{
    char text[1024], expected[32];

    probe_told(cluster, key, job, peers, text, sizeof text);
    snprintf(expected, sizeof expected, "error %d ", code);
    if (strncmp(text, expected, strlen(expected)) || !strstr(text, why))
        cluster_fail(cluster, "a worker was told \"%s\", not \"%s... %s\"", text, expected, why);
    printf("told: %s", text);
}

int probe_files(pid_t pid)
{
    char path[64];
    int count = 0;

    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    if (!files)
        return -1;
    while (readdir(files))
        count++;
    closedir(files);
    return count - 2;
}
