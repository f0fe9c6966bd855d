/* SPDX-License-Identifier: Apache-2.0 */
/* Four hosts (network namespaces on a switch), one member each, and paths that are neither whole
 * nor cut; iptables breaks them. Claims:
 *
 *   pair    two hosts do not reach each other, the others reach both: nobody is excluded, and steps
 *           go on; for every pair of the four, so for ring neighbours and for others. The status
 *           names such a path
 *   narrow  packets over 1280 bytes vanish on the way to one host: steps go on within seconds, and
 *           nobody is excluded
 *   loss    5 % of all packets are lost: nobody is excluded
 *   three   one host has left; two of the three that stay do not reach each other, so that there is
 *           no ring: two go on, and the third returns when its path works
 *
 * Needs root, `ip` and `iptables`; says so and is skipped (77) where they are missing.
 *
 *     e2e-paths WORKER [pairs=1] [narrow=1] [three=1] [loss_s=0] [hosts=4]
 *
 * The loss is for a machine that does nothing else (loss_s=60): heartbeats that are late and lost
 * ones add up. With fewer hosts only the loss makes sense. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"
#include "netns.h"
#include "probe.h"

enum { HOSTS = 4, PATIENCE_MS = 30000 };

static uint32_t hosts = HOSTS;

static uint64_t step_wanted;

static bool all_go_on(struct cluster *cluster)
{
    for (uint32_t i = 0; i < hosts; i++)
        if (cluster->worker[i].size != hosts || cluster->worker[i].step <= step_wanted)
            return false;
    return true;
}

static uint64_t exclusions(const struct cluster *cluster)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < hosts; i++)
        count += cluster->worker[i].exclusions;
    return count;
}

static void settle(struct cluster *cluster)
{
    step_wanted = cluster_step(cluster) + 100;
    cluster_until(cluster, all_go_on, "all hosts in one view", PATIENCE_MS);
}

/* `do` or undo a rule at a host. */
static bool rule(uint32_t at, const char *words, bool on)
{
    char command[300];
    snprintf(command, sizeof command, "ip netns exec %s iptables -%c INPUT %s 2>/dev/null",
             netns_host[at], on ? 'I' : 'D', words);
    return system(command) == 0;
}

static void drop_pair(uint32_t a, uint32_t b, bool on)
{
    char words[100];
    snprintf(words, sizeof words, "-s %s -j DROP", netns_address[a]);
    bool done = rule(b, words, on);
    snprintf(words, sizeof words, "-s %s -j DROP", netns_address[b]);
    if (!rule(a, words, on) || !done)
        exit(2);
}

/* All four, 100 steps on, with nobody excluded. */
static void expect_all(struct cluster *cluster, const char *what, uint64_t excluded,
                       uint64_t began_ns)
{
    settle(cluster);
    printf("%s: 100 steps on with all after %" PRIu64 " ms, %" PRIu64 " exclusions\n", what,
           (cluster_now_ns() - began_ns) / SPOTNIK_MS, exclusions(cluster) - excluded);
    if (exclusions(cluster) != excluded)
        cluster_fail(cluster, "%s: somebody was excluded", what);
}

static bool anybody_says(struct cluster *cluster, const char *words)
{
    char text[16384];
    for (uint32_t i = 0; i < hosts; i++) {
        struct spotnik_member member = probe_member(cluster, i);
        if (probe_status(cluster, i, &member, text, sizeof text) && strstr(text, words))
            return true;
    }
    return false;
}

static void pair(struct cluster *cluster, uint32_t a, uint32_t b)
{
    char what[64];
    settle(cluster);
    uint64_t excluded = exclusions(cluster), began_ns = cluster_now_ns();
    snprintf(what, sizeof what, "no path between %u and %u", a, b);
    drop_pair(a, b, true);
    expect_all(cluster, what, excluded, began_ns);
    drop_pair(a, b, false);
    /* a path that broke is taken for broken for 2 s; with two at once there may be no ring */
    cluster_spend(cluster, 2500 * SPOTNIK_MS);
}

/* The rule looks at packets before anybody has cut them up: let them be as short as on a cable. */
static bool cut_up(void)
{
    char command[300];
    for (uint32_t i = 0; i < hosts; i++) {
        snprintf(command, sizeof command, "ip -n %s link set dev eth0 gso_max_segs 1 2>/dev/null",
                 netns_host[i]);
        if (system(command) != 0)
            return false;
    }
    return true;
}

static void narrow(struct cluster *cluster)
{
    if (!cut_up()) {
        puts("large packets: left out, this `ip` knows no gso_max_segs");
        return;
    }
    settle(cluster);
    uint64_t excluded = exclusions(cluster), began_ns = cluster_now_ns();
    if (!rule(1, "-p tcp -m length --length 1281: -j DROP", true))
        return;
    expect_all(cluster, "large packets to 1 vanish", excluded, began_ns);
    if (!anybody_says(cluster, "large packets vanish"))
        cluster_fail(cluster, "no status names the path");
    rule(1, "-p tcp -m length --length 1281: -j DROP", false);
}

static void loss(struct cluster *cluster, uint64_t seconds)
{
    static const char words[] = "-p tcp -m statistic --mode random --probability 0.05 -j DROP";
    settle(cluster);
    uint64_t excluded = exclusions(cluster), began_ns = cluster_now_ns(),
             from = cluster_step(cluster);
    for (uint32_t i = 0; i < hosts; i++)
        if (!rule(i, words, true))
            return;
    cluster_spend(cluster, seconds * SPOTNIK_S);
    printf("5 %% loss: %" PRIu64 " steps in %" PRIu64 " s\n", cluster_step(cluster) - from,
           seconds);
    expect_all(cluster, "5 % of the packets lost", excluded, began_ns);
    for (uint32_t i = 0; i < hosts; i++)
        rule(i, words, false);
}

static bool three_are_together(struct cluster *cluster)
{
    return cluster_is_together(cluster, 3);
}

static bool two_go_on(struct cluster *cluster)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < 3; i++)
        count += cluster->worker[i].size == 2 && cluster->worker[i].step > step_wanted;
    return count == 2;
}

/* Between any two of three. */
static void three(struct cluster *cluster)
{
    settle(cluster);
    cluster_kill(cluster, 3, SIGTERM);
    for (uint32_t a = 0; a < 3; a++) {
        uint32_t b = (a + 1) % 3;
        cluster_until(cluster, three_are_together, "three hosts in one view", PATIENCE_MS);
        uint64_t began_ns = cluster_now_ns();
        step_wanted = cluster_step(cluster);
        drop_pair(a, b, true);
        cluster_until(cluster, two_go_on, "two of three hosts to go on", PATIENCE_MS);
        uint64_t alone_ns = cluster_now_ns();
        drop_pair(a, b, false);
        cluster_until(cluster, three_are_together, "the third host to return", PATIENCE_MS);
        printf("three hosts, no path between %u and %u: two go on after %" PRIu64
               " ms, the third is back %" PRIu64 " ms after its path\n",
               a, b, (alone_ns - began_ns) / SPOTNIK_MS,
               (cluster_now_ns() - alone_ns) / SPOTNIK_MS);
    }
}

int main(int argc, char **argv)
{
    static struct cluster cluster;

    if (argc < 2)
        return 2;
    if (geteuid() != 0 || !netns_set_up() || !rule(0, "-s 10.99.8.1 -j DROP", true)) {
        puts("skipped: needs root, `ip` and `iptables`");
        return 77;
    }
    hosts = (uint32_t)cluster_argument(argc, argv, "hosts", HOSTS);
    if (hosts < 2 || hosts > HOSTS)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    cluster_new(&cluster, hosts, 1);
    cluster.tolerant = true; /* counted here */
    cluster_use(&cluster, argv[1], "-u", "1000", NULL);
    for (uint32_t i = 0; i < hosts; i++) {
        cluster.netns[i] = netns_host[i];
        cluster.bind[i] = netns_address[i];
        cluster_start(&cluster, i);
    }
    if (cluster_argument(argc, argv, "pairs", hosts == HOSTS))
        for (uint32_t a = 0; a < hosts; a++)
            for (uint32_t b = a + 1; b < hosts; b++)
                pair(&cluster, a, b);
    if (cluster_argument(argc, argv, "pairs", hosts == HOSTS)
        && !anybody_says(&cluster, "nothing gets through"))
        /* of those that were no ring neighbours */
        cluster_fail(&cluster, "no status names a broken path");
    if (cluster_argument(argc, argv, "narrow", hosts == HOSTS))
        narrow(&cluster);
    if (cluster_argument(argc, argv, "loss_s", 0))
        loss(&cluster, cluster_argument(argc, argv, "loss_s", 0));
    if (cluster_argument(argc, argv, "three", hosts == HOSTS))
        three(&cluster);
    cluster_free(&cluster);
    return 0;
}
