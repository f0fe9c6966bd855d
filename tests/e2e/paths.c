/* SPDX-License-Identifier: Apache-2.0 */
/* Hosts (network namespaces on a switch), one member each, and paths that are neither whole nor
 * cut; iptables breaks them. Claims:
 *
 *   pair    two hosts do not reach each other, in both directions or in one, the others reach both:
 *           while that is so at least 500 steps of 5 ms in 30 s are made, and `spotnik status` at
 *           another host names both ends. All are in one view within 60 s of the healing
 *   loss    5 % of all packets are lost: nobody is excluded
 *
 * Needs root, `ip` and `iptables`; says so and is skipped (77) where they are missing.
 *
 *     e2e-paths WORKER [hosts=4] [floats=0: small buckets] [cut_s=30] [loss_s=0]
 *
 * The loss is for a machine that does nothing else (loss_s=60): heartbeats that are late and lost
 * ones add up. */
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

enum { STEPS_WANTED = 500, PER_S = 30, PATIENCE_MS = 30000, WHOLE_MS = 60000 };

static uint32_t hosts;

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

static void drop(uint32_t to, uint32_t from, bool on)
{
    char words[100];
    snprintf(words, sizeof words, "-s %s -j DROP", netns_address[from]);
    if (!rule(to, words, on))
        exit(2);
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

/* Does a member tell of the path, by the addresses of both ends? */
static bool is_named(struct cluster *cluster, uint32_t a, uint32_t b)
{
    char words[2][100];
    snprintf(words[0], 100, "through from %s:", netns_address[a]);
    snprintf(words[1], 100, "through from %s:", netns_address[b]);
    return anybody_says(cluster, words[0]) || anybody_says(cluster, words[1]);
}

static void pair(struct cluster *cluster, uint32_t a, uint32_t b, bool one_way, uint64_t cut_s)
{
    settle(cluster);
    uint64_t excluded = exclusions(cluster), from = cluster_step(cluster);
    drop(b, a, true);
    if (!one_way)
        drop(a, b, true);
    cluster_spend(cluster, cut_s * SPOTNIK_S);
    uint64_t steps = cluster_step(cluster) - from, healed_ns;
    bool named = is_named(cluster, a, b);
    cluster_spend(cluster, SPOTNIK_S / 10); /* read what they have said meanwhile */
    bool together = cluster_is_together(cluster, hosts);
    healed_ns = cluster_now_ns();
    drop(b, a, false);
    if (!one_way)
        drop(a, b, false);
    step_wanted = cluster_step(cluster) + 10;
    cluster_until(cluster, all_go_on, "all hosts in one view", WHOLE_MS);
    printf("no path %s %u and %u for %" PRIu64 " s: %" PRIu64 " steps, %" PRIu64
           " exclusions; all together %" PRIu64 " ms after it healed\n",
           one_way ? "from one to the other of" : "between", a, b, cut_s, steps,
           exclusions(cluster) - excluded, (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
    if (steps * PER_S < STEPS_WANTED * cut_s)
        cluster_fail(cluster, "too few steps while the path was cut");
    if (together)
        cluster_fail(cluster, "all are in one view although the path is cut");
    if (!named)
        cluster_fail(cluster, "no status names the path");
}

static void loss(struct cluster *cluster, uint64_t seconds)
{
    static const char words[] = "-p tcp -m statistic --mode random --probability 0.05 -j DROP";
    settle(cluster);
    uint64_t excluded = exclusions(cluster), from = cluster_step(cluster);
    for (uint32_t i = 0; i < hosts; i++)
        if (!rule(i, words, true))
            return;
    cluster_spend(cluster, seconds * SPOTNIK_S);
    printf("5 %% loss: %" PRIu64 " steps in %" PRIu64 " s\n", cluster_step(cluster) - from,
           seconds);
    settle(cluster);
    if (exclusions(cluster) != excluded)
        cluster_fail(cluster, "somebody was excluded");
    for (uint32_t i = 0; i < hosts; i++)
        rule(i, words, false);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    char floats[24];

    if (argc < 2)
        return 2;
    if (geteuid() != 0 || !netns_set_up() || !rule(0, "-s 10.99.8.1 -j DROP", true)) {
        puts("skipped: needs root, `ip` and `iptables`");
        return 77;
    }
    hosts = (uint32_t)cluster_argument(argc, argv, "hosts", 4);
    uint64_t cut_s = cluster_argument(argc, argv, "cut_s", PER_S);
    if (hosts < 3 || hosts > NETNS_HOSTS)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    snprintf(floats, sizeof floats, "%" PRIu64, cluster_argument(argc, argv, "floats", 0));
    cluster_new(&cluster, hosts, 1);
    cluster.tolerant = true; /* exclusions are counted here */
    cluster_use(&cluster, argv[1], "-u", "5000", atoi(floats) ? "-c" : NULL, floats, NULL);
    for (uint32_t i = 0; i < hosts; i++) {
        cluster.netns[i] = netns_host[i];
        cluster.bind[i] = netns_address[i];
        cluster_start(&cluster, i);
    }
    if (cut_s > 0) {
        pair(&cluster, 0, 1, false, cut_s);
        pair(&cluster, 0, 2, false, cut_s);
        pair(&cluster, 2, 0, true, cut_s);
    }
    if (cluster_argument(argc, argv, "loss_s", 0))
        loss(&cluster, cluster_argument(argc, argv, "loss_s", 0));
    cluster_free(&cluster);
    return 0;
}
