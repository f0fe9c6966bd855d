/* SPDX-License-Identifier: Apache-2.0 */
/* Five hosts (network namespaces on a switch of their own), one member each. Claims:
 *
 *   cut        a host vanishes from the network without FIN or RST: the others commit again within 500 ms
 *   partition  2|3: the three go on, the two wait; when it heals the two are members again, and nothing was ever committed
 *              twice (P1)
 *
 * Needs root and the program `ip`; says so and is skipped (77) where they are missing.
 *
 *     e2e-network WORKER [limit_ms=500] */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 30000

enum { HOSTS = 5 };

static char host[HOSTS][32], address[HOSTS][32], net[32];
static uint64_t step_wanted;
static uint32_t size_wanted, first_of_many;

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int shell(const char *format, ...)
{
    char command[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static void tear_down(void)
{
    for (int i = 0; i < HOSTS; i++)
        if (shell("ip netns del %s 2>/dev/null", host[i]))
            continue; /* was not there */
    if (shell("ip netns del %s 2>/dev/null", net))
        return;
}

/* One namespace is the switch, with two bridges: hosts hang on `one`, and a partition moves some to `two`. */
static bool set_up(void)
{
    snprintf(net, sizeof net, "sp%d-net", (int)getpid());
    for (int i = 0; i < HOSTS; i++) {
        snprintf(host[i], sizeof host[i], "sp%d-%d", (int)getpid(), i);
        snprintf(address[i], sizeof address[i], "10.99.7.%d", i + 1);
    }
    if (shell("ip netns add %s 2>/dev/null", net))
        return false;
    atexit(tear_down);
    if (shell("ip -n %s link add one type bridge && ip -n %s link add two type bridge && "
              "ip -n %s link set one up && ip -n %s link set two up",
              net, net, net, net))
        return false;
    for (int i = 0; i < HOSTS; i++)
        if (shell("ip netns add %s && ip -n %s link add eth0 type veth peer name h%d netns %s && "
                  "ip -n %s link set h%d master one up && ip -n %s addr add %s/24 dev eth0 && "
                  "ip -n %s link set eth0 up && ip -n %s link set lo up",
                  host[i], host[i], i, net, net, i, host[i], address[i], host[i], host[i]))
            return false;
    return true;
}

static void cable(uint32_t of, const char *what)
{
    if (shell("ip -n %s link set h%u %s", net, of, what))
        exit(2);
}

/* The hosts from first_of_many on are in one view of size_wanted and past step_wanted. */
static bool many_go_on(struct cluster *cluster)
{
    for (uint32_t i = first_of_many; i < HOSTS; i++)
        if (cluster->worker[i].size != size_wanted || cluster->worker[i].step <= step_wanted)
            return false;
    return true;
}

static bool all_go_on(struct cluster *cluster)
{
    for (uint32_t i = 0; i < HOSTS; i++)
        if (cluster->worker[i].step <= step_wanted)
            return false;
    return cluster_is_whole(cluster);
}

/* Wait until all hosts have stepped together for a while: a fresh view measures its jitter anew. */
static void settle(struct cluster *cluster)
{
    step_wanted = cluster_step(cluster) + 100;
    cluster_until(cluster, all_go_on, "five hosts in one view", PATIENCE_MS);
}

static void cut_one(struct cluster *cluster, uint64_t limit_ms)
{
    settle(cluster);
    uint64_t begun_ns = cluster_now_ns();

    cable(0, "down");
    step_wanted = cluster_step(cluster) + 1;
    first_of_many = 1;
    size_wanted = HOSTS - 1;
    cluster_until(cluster, many_go_on, "four hosts to go on without the one cut off", PATIENCE_MS);
    uint64_t took_ms = (cluster_now_ns() - begun_ns) / SPOTNIK_MS;

    printf("cut off without FIN or RST: the four committed again after %" PRIu64 " ms\n", took_ms);
    if (took_ms > limit_ms)
        cluster_fail(cluster, "that is more than %" PRIu64 " ms", limit_ms);
    cable(0, "up");
    settle(cluster);
}

static void partition(struct cluster *cluster)
{
    uint64_t commits[2];

    settle(cluster);
    for (uint32_t i = 0; i < 2; i++)
        cable(i, "master two");
    step_wanted = cluster_step(cluster) + 1;
    first_of_many = 2;
    size_wanted = 3;
    cluster_until(cluster, many_go_on, "the three to go on", PATIENCE_MS);
    for (uint32_t i = 0; i < 2; i++)
        commits[i] = cluster->worker[i].commits;
    step_wanted = cluster_step(cluster) + 500;
    cluster_until(cluster, many_go_on, "the three to go on for long", PATIENCE_MS);
    for (uint32_t i = 0; i < 2; i++)
        if (cluster->worker[i].commits != commits[i] || !cluster->worker[i].pid)
            cluster_fail(cluster, "host %u did not wait", i);
    for (uint32_t i = 0; i < 2; i++)
        cable(i, "master one");
    uint64_t healed_ns = cluster_now_ns();

    settle(cluster);
    if (!cluster->worker[0].exclusions || !cluster->worker[1].exclusions)
        cluster_fail(cluster, "the two never learnt that they were excluded");
    printf("partition 2|3: the three made 500 steps, the two none; all were together again %" PRIu64
           " ms after it healed\n",
           (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;

    if (argc < 2)
        return 2;
    if (geteuid() != 0) {
        printf("skipped: network namespaces need root\n");
        return 77;
    }
    if (!set_up()) {
        printf("skipped: cannot make network namespaces here (needs `ip` and the right to use it)\n");
        return 77;
    }
    cluster_new(&cluster, HOSTS, 1);
    cluster_use(&cluster, argv[1], "-c", "5000", "-n", "10000", "-b", "64", "-u", "2000", NULL);
    cluster.without_slots = true; /* hosts share no memory */
    cluster.tolerant = true;
    for (uint32_t i = 0; i < HOSTS; i++) {
        cluster.bind[i] = address[i];
        cluster.netns[i] = host[i];
        cluster_start(&cluster, i);
    }
    cut_one(&cluster, cluster_argument(argc, argv, "limit_ms", 500));
    partition(&cluster);
    for (uint32_t i = 0; i < HOSTS; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    cluster_free(&cluster);
    return 0;
}
