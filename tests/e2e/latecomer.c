/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner whose replayed steps take it as long as the members' steps take them, so that it can
 * never catch up while they go on. Claim: they wait for it once, and it is in, within a few steps'
 * time.
 *
 *     e2e-latecomer WORKER [us=10000] [mib=256]
 *
 * us: time of a computation, in a step and in a replayed one. mib: state to copy, to fall behind
 * by. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

enum { MEMBERS = 3, PATIENCE_MS = 40000 };

static bool members_are_together(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS) && cluster_step(cluster) >= 10;
}

static uint64_t longest_step_ns(const struct cluster *cluster)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < MEMBERS; i++)
        if (cluster->worker[i].longest_step_ns > longest_ns)
            longest_ns = cluster->worker[i].longest_step_ns;
    return longest_ns;
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t us = cluster_argument(argc, argv, "us", 10000);
    char text[32], state[32];

    if (argc < 2)
        return 2;
    snprintf(text, sizeof text, "%" PRIu64, us);
    snprintf(state, sizeof state, "%" PRIu64, cluster_argument(argc, argv, "mib", 256) << 20);
    cluster_new(&cluster, MEMBERS + 1, 1);
    cluster.min = 2;
    cluster_use(&cluster, argv[1], "-c", "5000", "-n", "10000", "-b", "64", "-D", "-S", state, "-r",
                "-u", text, NULL);
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, members_are_together, "three members to train", PATIENCE_MS);
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster.worker[i].longest_step_ns = 0;
    uint64_t begun_ns = cluster_now_ns(), before = cluster_step(&cluster);

    cluster_start(&cluster, MEMBERS);
    cluster_until(&cluster, cluster_is_whole, "the latecomer to be in", PATIENCE_MS);
    printf("in after %.2f s and %" PRIu64
           " steps; the members' longest step meanwhile %.0f ms, of %.0f ms computing\n",
           (double)(cluster_now_ns() - begun_ns) / 1e9, cluster_step(&cluster) - before,
           (double)longest_step_ns(&cluster) / 1e6, (double)us / 1e3);
    for (uint32_t i = 0; i <= MEMBERS; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_free(&cluster);
    return 0;
}
