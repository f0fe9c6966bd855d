/* SPDX-License-Identifier: Apache-2.0 */
/* Many busy members on few cores, and nothing happens to them. Claim: no view change, so no false alarm.
 *
 *     e2e-calm WORKER [places=32] [seconds=15]        (a long run: seconds=600) */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint32_t places = (uint32_t)cluster_argument(argc, argv, "places", 32);
    uint64_t seconds = cluster_argument(argc, argv, "seconds", 15), longest_ns = 0;

    if (argc < 2)
        return 2;
    cluster_new(&cluster, places, 1);
    cluster_use(&cluster, argv[1], "-c", "100000", "-x", "3000", NULL);
    for (uint32_t i = 0; i < places; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, cluster_is_whole, "everybody in one view", 120000);
    uint64_t epoch = cluster.worker[0].epoch, step = cluster_step(&cluster), begun_ns = cluster_now_ns();

    for (uint32_t i = 0; i < places; i++)
        cluster.worker[i].longest_step_ns = 0;
    while (cluster_now_ns() - begun_ns < seconds * SPOTNIK_S) {
        cluster_turn(&cluster, 100);
        for (uint32_t i = 0; i < places; i++)
            if (cluster.worker[i].epoch != epoch)
                cluster_fail(&cluster, "w%u is in view %" PRIu64 ", after %.1f s", cluster.worker[i].number,
                             cluster.worker[i].epoch, (double)(cluster_now_ns() - begun_ns) / 1e9);
    }
    for (uint32_t i = 0; i < places; i++)
        if (cluster.worker[i].longest_step_ns > longest_ns)
            longest_ns = cluster.worker[i].longest_step_ns;
    if (cluster_step(&cluster) == step)
        cluster_fail(&cluster, "no step in %" PRIu64 " s", seconds);
    printf("%u busy members, %" PRIu64 " s: %" PRIu64 " steps, no view change, longest step %.0f ms\n",
           places, seconds, cluster_step(&cluster) - step, (double)longest_ns / 1e6);
    cluster_free(&cluster);
    return 0;
}
