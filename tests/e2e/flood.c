/* SPDX-License-Identifier: Apache-2.0 */
/* What thousands of unauthenticated peers a second cost a job. Two members step; a process without
 * the key connects to their listening sockets.
 *
 *     e2e-flood WORKER [rate=2000] [rounds=5] [seconds=3] [seed=1]
 *
 * Each round has three windows: no connections; connections to a socket of no member (their price
 * for the machine itself); connections to the members. `rate=0`: as many as the machine can make.
 * It prints steps per second of each kind of window and the ratios of their medians, and fails when
 * a member is lost. The figures mean something on a quiet machine only. */
#include <arpa/inet.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"

enum { MEMBERS = 2, ROUNDS_MAX = 101, PATIENCE_MS = 40000 };
enum window { CALM, DECOY, FLOOD, WINDOWS };

static const char *const window_name[WINDOWS] = { "nobody comes", "to nobody's door",
                                                  "to the members" };

struct bench {
    struct cluster cluster;
    char door[MEMBERS][32];
    uint16_t port[MEMBERS], decoy_port;
    int decoy;
    uint64_t rate, window_ns, *came;
    double steps[WINDOWS][ROUNDS_MAX], refused[WINDOWS][ROUNDS_MAX];
};

/* A port that stays ours: who binds it by name may listen there, nobody else gets it. */
static int reserve(uint16_t *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof address;
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one)
        || bind(fd, (struct sockaddr *)&address, size)
        || getsockname(fd, (struct sockaddr *)&address, &size))
        exit(2);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

/* ---- unauthenticated peers ---- */

static void come(uint16_t port, uint64_t *came)
{
    struct sockaddr_in from = { .sin_family = AF_INET,
                                .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 8) };
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons(port) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    /* or ports run out */
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){ 1, 0 }, sizeof(struct linger));
    if (fd >= 0 && bind(fd, (struct sockaddr *)&from, sizeof from) == 0
        && connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        __atomic_add_fetch(came, 1, __ATOMIC_RELAXED);
    if (fd >= 0)
        close(fd);
}

/* Until killed. One that falls behind its rate does not catch up: a burst would be another
 * experiment. */
static void flood(struct bench *bench, bool decoy)
{
    uint64_t next_ns = cluster_now_ns(), gap_ns = bench->rate > 0 ? SPOTNIK_S / bench->rate : 0;

    for (uint32_t i = 0;; i++) {
        come(decoy ? bench->decoy_port : bench->port[i % MEMBERS], bench->came);
        uint64_t now_ns = cluster_now_ns();
        next_ns += gap_ns;
        if (next_ns < now_ns) {
            next_ns = now_ns;
        } else {
            struct timespec span = { .tv_nsec = (long)(next_ns - now_ns) };
            nanosleep(&span, NULL);
        }
    }
}

static void take_in(int listener)
{
    for (;;)
        close(accept(listener, NULL, NULL));
}

/* A process that ends with this one. */
static pid_t process_new(void)
{
    pid_t pid = fork();
    if (pid == 0)
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    return pid;
}

static pid_t flood_start(struct bench *bench, enum window window)
{
    if (window == CALM)
        return 0;
    pid_t pid = process_new();
    if (pid == 0)
        flood(bench, window == DECOY);
    return pid;
}

static void process_end(pid_t pid)
{
    if (pid > 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
    }
}

/* ---- windows ---- */

static void measure(struct bench *bench, enum window window, uint64_t round)
{
    pid_t pid = flood_start(bench, window);
    uint64_t begun_ns = cluster_now_ns(), step = cluster_step(&bench->cluster), came = *bench->came;

    cluster_spend(&bench->cluster, bench->window_ns);
    double took_s = (double)(cluster_now_ns() - begun_ns) / 1e9;
    bench->steps[window][round] = (double)(cluster_step(&bench->cluster) - step) / took_s;
    bench->refused[window][round] =
        (double)(__atomic_load_n(bench->came, __ATOMIC_RELAXED) - came) / took_s;
    process_end(pid);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, uint64_t count)
{
    qsort(values, count, sizeof *values, compare);
    return values[count / 2];
}

static void tell(struct bench *bench, uint64_t rounds)
{
    double steps[WINDOWS];

    puts("| unauthenticated peers | peers/s | steps/s, median | least | most | of idle "
         "|\n|---|---|---|---|---|---|");
    for (int window = 0; window < WINDOWS; window++) {
        double *of = bench->steps[window];
        steps[window] = median(of, rounds);
        printf("| %s | %.0f | %.1f | %.1f | %.1f | %.3f |\n", window_name[window],
               median(bench->refused[window], rounds), steps[window], of[0], of[rounds - 1],
               steps[window] / steps[CALM]);
    }
    printf("to the members, of what a flood to nobody leaves: %.3f\n", steps[FLOOD] / steps[DECOY]);
}

static bool are_together(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS) && cluster_step(cluster) > 500;
}

static void found_job(struct bench *bench, const char *worker, uint64_t seed)
{
    cluster_new(&bench->cluster, MEMBERS, seed);
    cluster_use(&bench->cluster, worker, "-c", "5000", "-n", "1000000", "-b", "64", "-u", "1000",
                NULL);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        close(reserve(&bench->port[i]));
        snprintf(bench->door[i], sizeof bench->door[i], "127.0.0.1:%u", bench->port[i]);
        bench->cluster.bind[i] = bench->door[i];
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster_start(&bench->cluster, i);
    cluster_until(&bench->cluster, are_together, "both members in one view", PATIENCE_MS);
}

int main(int argc, char **argv)
{
    static struct bench bench;

    if (argc < 2)
        return 2;
    uint64_t rounds = cluster_argument(argc, argv, "rounds", 5);
    bench.rate = cluster_argument(argc, argv, "rate", 2000);
    bench.window_ns = cluster_argument(argc, argv, "seconds", 3) * SPOTNIK_S;
    bench.came =
        mmap(NULL, sizeof *bench.came, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bench.decoy = reserve(&bench.decoy_port);
    if (rounds == 0 || rounds > ROUNDS_MAX || bench.came == MAP_FAILED || listen(bench.decoy, 128))
        return 2;
    pid_t decoy = process_new();
    if (decoy == 0)
        take_in(bench.decoy);
    found_job(&bench, argv[1], cluster_argument(argc, argv, "seed", 1));
    for (uint64_t round = 0; round < rounds; round++)
        for (int window = 0; window < WINDOWS; window++)
            measure(&bench, (enum window)window, round);
    process_end(decoy);
    tell(&bench, rounds);
    if (bench.cluster.recoveries)
        cluster_fail(&bench.cluster, "somebody was lost");
    cluster_free(&bench.cluster);
    return 0;
}
