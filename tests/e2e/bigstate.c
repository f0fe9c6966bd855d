/* SPDX-License-Identifier: Apache-2.0 */
/* A joiner with much state enters while four others train. Claims: they go on stepping while it
 * copies, and its digest is theirs; their step rate during the copy and their longest step are
 * reported.
 *
 *     e2e-bigstate WORKER [mib=256] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 60000

enum { MEMBERS = 4, JOINER = 4 };

static bool members_are_together(struct cluster *cluster)
{
    return cluster_is_together(cluster, MEMBERS);
}

static bool joiner_is_in(struct cluster *cluster)
{
    return cluster->worker[JOINER].entered_ns && cluster_is_together(cluster, MEMBERS + 1);
}

static uint64_t longest(struct cluster *cluster)
{
    uint64_t longest_ns = 0;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (cluster->worker[i].longest_step_ns > longest_ns)
            longest_ns = cluster->worker[i].longest_step_ns;
        cluster->worker[i].longest_step_ns = 0;
    }
    return longest_ns;
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t mib = cluster_argument(argc, argv, "mib", 256);
    char bytes[32];

    if (argc < 2)
        return 2;
    snprintf(bytes, sizeof bytes, "%" PRIu64, mib << 20);
    cluster_new(&cluster, MEMBERS + 1, 1);
    cluster_use(&cluster, argv[1], "-S", bytes, "-D", "-c", "20000", "-n", "10000", "-b", "64",
                "-u", "5000", NULL);
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, members_are_together, "four members in one view", PATIENCE_MS);
    longest(&cluster);
    uint64_t step = cluster_step(&cluster), begun_ns = cluster_now_ns();

    cluster_spend(&cluster, 2 * SPOTNIK_S);
    double alone =
        (double)(cluster_step(&cluster) - step) * 1e9 / (double)(cluster_now_ns() - begun_ns);
    uint64_t alone_longest_ns = longest(&cluster);

    step = cluster_step(&cluster);
    begun_ns = cluster_now_ns();
    cluster_start(&cluster, JOINER);
    cluster_until(&cluster, joiner_is_in, "the joiner to be in", PATIENCE_MS);
    double copying =
        (double)(cluster_step(&cluster) - step) * 1e9 / (double)(cluster_now_ns() - begun_ns);

    if (cluster_step(&cluster) < step + 5)
        cluster_fail(&cluster, "the members stood still while the joiner copied");
    printf("%" PRIu64 " MiB: the joiner was in %.2f s after its start; members made %.0f steps/s "
           "before, %.0f while it "
           "copied; longest step %.0f ms before, %.0f ms while\n",
           mib, (double)(cluster_now_ns() - begun_ns) / 1e9, alone, copying,
           (double)alone_longest_ns / 1e6, (double)longest(&cluster) / 1e6);
    for (uint32_t i = 0; i <= MEMBERS; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    cluster_free(&cluster);
    return 0;
}
