/* SPDX-License-Identifier: Apache-2.0 */
/* Strangers at the door of a live job: port scans, garbage, half a handshake, connections that say nothing for ever, workers
 * with another key or of another job. Claims: the members' view does not change, steps go on, each worker that does not
 * belong is told why, and a rightful joiner gets in meanwhile (P10).
 *
 *     e2e-strangers WORKER [seed=1] */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "cluster.h"
#include "spotnik/spotnik.h"

#define PATIENCE_MS 40000

enum { MEMBERS = 3, SILENT = 200 };

static char door[MEMBERS + 1][32];
static int silent[SILENT];

/* A port that is free now; whoever takes it before the member does fails the test with a clear message. */
static uint16_t free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size)
        || getsockname(fd, (struct sockaddr *)&address, &size))
        exit(2);
    close(fd);
    return ntohs(address.sin_port);
}

static int knock(uint32_t place)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_port = htons((uint16_t)atoi(strchr(door[place], ':') + 1));
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address)) {
        close(fd);
        return -1;
    }
    fcntl(fd, F_SETFL, O_NONBLOCK);
    return fd;
}

static void scan(struct cluster *cluster)
{
    for (int i = 0; i < 60; i++) {
        int fd = knock((uint32_t)i % MEMBERS);

        if (fd >= 0)
            close(fd);
        cluster_turn(cluster, 0);
    }
}

/* Random bytes, and bytes that begin as the door's own first words do. */
static void garbage(struct cluster *cluster)
{
    for (int i = 0; i < 60; i++) {
        uint8_t bytes[4096], first[256];
        int fd = knock((uint32_t)i % MEMBERS);

        if (fd < 0)
            continue;
        for (size_t at = 0; at < sizeof bytes; at += 8) {
            uint64_t random = spotnik_prng_next(&cluster->prng);

            memcpy(bytes + at, &random, 8);
        }
        struct pollfd wait = { fd, POLLIN, 0 };
        ssize_t heard = i % 2 && poll(&wait, 1, 20) > 0 ? recv(fd, first, sizeof first, 0) : 0;

        if (heard > 0)
            memcpy(bytes, first,
                   (size_t)heard); /* its own words back: a reflected challenge must not open the door */
        ssize_t sent = send(fd, bytes, 1 + spotnik_prng_below(&cluster->prng, sizeof bytes), MSG_NOSIGNAL);

        (void)sent; /* the door may be shut already */
        cluster_turn(cluster, 1);
        close(fd);
    }
}

static void be_silent(void)
{
    for (int i = 0; i < SILENT; i++) {
        silent[i] = knock((uint32_t)i % MEMBERS);
        if (silent[i] >= 0 && send(silent[i], "S", 1, MSG_NOSIGNAL) != 1)
            continue; /* shut out at once */
    }
}

static void become_stranger(const struct cluster *cluster, const char *worker, const char *key,
                            const char *job, int events)
{
    char fd[16];

    snprintf(fd, sizeof fd, "%d", events);
    fcntl(events, F_SETFD, 0);
    setenv("SPOTNIK_KEY_FILE", key, 1);
    setenv("SPOTNIK_JOB", job, 1);
    setenv("SPOTNIK_PEERS", door[0], 1);
    (void)cluster;
    execl(worker, worker, "-e", fd, (char *)NULL);
    _exit(127);
}

/* Run a worker that does not belong; it must end with error `code`. */
static void stranger(struct cluster *cluster, const char *worker, const char *key, const char *job, int code)
{
    char text[1024] = "", expected[32];
    size_t used = 0;
    int ends[2], status;
    uint64_t limit_ns = cluster_now_ns() + PATIENCE_MS * SPOTNIK_MS;

    if (pipe2(ends, O_CLOEXEC))
        cluster_fail(cluster, "pipe: %m");
    pid_t pid = fork();
    if (pid == 0)
        become_stranger(cluster, worker, key, job, ends[1]);
    close(ends[1]);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    for (ssize_t got = 1; got != 0;) {
        cluster_turn(cluster, 10);
        got = read(ends[0], text + used, sizeof text - 1 - used);
        used += got > 0 ? (size_t)got : 0;
        if (cluster_now_ns() > limit_ns) {
            kill(pid, SIGKILL);
            cluster_fail(cluster, "a stranger is still there: %s", text);
        }
    }
    close(ends[0]);
    waitpid(pid, &status, 0);
    text[used] = 0;
    snprintf(expected, sizeof expected, "error %d ", code);
    if (strncmp(text, expected, strlen(expected)))
        cluster_fail(cluster, "a stranger was told \"%s\", not \"%s\"", text, expected);
    printf("told: %s", text);
}

static uint64_t step_wanted;

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) >= step_wanted;
}

static void expect_calm(struct cluster *cluster, uint64_t epoch, const char *after)
{
    step_wanted = cluster_step(cluster) + 20;
    cluster_until(cluster, is_further, after, PATIENCE_MS);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cluster->worker[i].epoch != epoch)
            cluster_fail(cluster, "%s: w%u is in view %" PRIu64 ", not %" PRIu64, after,
                         cluster->worker[i].number, cluster->worker[i].epoch, epoch);
    printf("calm: %s\n", after);
}

static bool joiner_is_in(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS + 1);
}

static bool members_are_together(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    char other_key[320];

    if (argc < 2)
        return 2;
    cluster_new(&cluster, MEMBERS + 1, cluster_argument(argc, argv, "seed", 1));
    cluster_use(&cluster, argv[1], "-c", "5000", "-n", "10000", "-b", "64", "-u", "1000", NULL);
    for (uint32_t i = 0; i <= MEMBERS; i++) {
        snprintf(door[i], sizeof door[i], "127.0.0.1:%u", free_port());
        cluster.bind[i] = door[i];
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, members_are_together, "three members in one view", PATIENCE_MS);
    uint64_t epoch = cluster.worker[0].epoch;

    scan(&cluster);
    expect_calm(&cluster, epoch, "after port scans");
    garbage(&cluster);
    expect_calm(&cluster, epoch, "after garbage");
    snprintf(other_key, sizeof other_key, "%s/other-key", cluster.dir);
    if (spotnik_key_create(other_key))
        cluster_fail(&cluster, "cannot make a key");
    stranger(&cluster, argv[1], other_key, "e2e", SPOTNIK_ERR_KEY);
    stranger(&cluster, argv[1], cluster.key, "another-job", SPOTNIK_ERR_JOB);
    expect_calm(&cluster, epoch, "after a wrong key and a wrong job");
    be_silent();
    expect_calm(&cluster, epoch, "with connections that say nothing");
    cluster_start(&cluster, MEMBERS);
    cluster_until(&cluster, joiner_is_in, "a rightful joiner to be in although the door is crowded",
                  PATIENCE_MS);
    printf("a rightful joiner got in\n");
    for (int i = 0; i < SILENT; i++)
        if (silent[i] >= 0)
            close(silent[i]);
    for (uint32_t i = 0; i <= MEMBERS; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    cluster_free(&cluster);
    return 0;
}
