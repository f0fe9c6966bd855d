/* SPDX-License-Identifier: Apache-2.0 */
/* Status and open files of members. Asking is done in a child, because it may have to enter another network. */
#include "probe.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "peers/peers.h"
#include "spotnik/spotnik.h"

#define ASK_NS SPOTNIK_S

void probe_credentials(struct cluster *cluster, struct spotnik_credentials *ret)
{
    memset(ret, 0, sizeof *ret);
    spotnik_job_hash("e2e", ret->job);
    if (spotnik_key_read(cluster->key, ret->key) || spotnik_key_random(&ret->self.id, sizeof ret->self.id))
        cluster_fail(cluster, "no credentials: %s", spotnik_last_error());
}

struct spotnik_member probe_member(struct cluster *cluster, uint32_t place)
{
    struct spotnik_member found[CLUSTER_PLACES];
    struct spotnik_credentials credentials;
    uint32_t count = 0;

    probe_credentials(cluster, &credentials);
    if (spotnik_peers_list(cluster->spec, &credentials, found, CLUSTER_PLACES, &count))
        cluster_fail(cluster, "%s", spotnik_last_error());
    for (uint32_t i = 0; i < count; i++) {
        char id[33];

        snprintf(id, sizeof id, "%016llx%016llx", (unsigned long long)found[i].id.high,
                 (unsigned long long)found[i].id.low);
        if (!strcmp(id, cluster->worker[place].member))
            return found[i];
    }
    cluster_fail(cluster, "place %u has no record in the peers directory", place);
}

static void ask(struct cluster *cluster, uint32_t place, const struct spotnik_member *member, int out)
{
    struct spotnik_credentials credentials;
    struct spotnik_member peer;
    char path[128], piece[4096];
    ssize_t got;
    int fd;

    if (cluster->netns[place]) {
        snprintf(path, sizeof path, "/run/netns/%s", cluster->netns[place]);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || setns(fd, CLONE_NEWNET))
            _exit(1);
    }
    probe_credentials(cluster, &credentials);
    if (spotnik_net_dial(&credentials, member->address, member->port, SPOTNIK_PURPOSE_STATUS, ASK_NS, &fd, &peer))
        _exit(1);
    while ((got = read(fd, piece, sizeof piece)) > 0)
        if (write(out, piece, (size_t)got) != got)
            _exit(1);
    _exit(got == 0 ? 0 : 1);
}

bool probe_status(struct cluster *cluster, uint32_t place, const struct spotnik_member *member, char *text, size_t size)
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

void probe_until(struct cluster *cluster, uint32_t place, const struct spotnik_member *member, const char *what,
                 uint64_t limit_ms, char *text, size_t size)
{
    uint64_t limit_ns = cluster_now_ns() + limit_ms * SPOTNIK_MS;

    while (!probe_status(cluster, place, member, text, size) || !strstr(text, what)) {
        if (cluster_now_ns() > limit_ns)
            cluster_fail(cluster, "the status of place %u does not show %s: %s", place, what, text);
        cluster_turn(cluster, 20);
    }
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
