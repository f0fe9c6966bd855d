/* SPDX-License-Identifier: Apache-2.0 */
/* A member is stopped (SIGSTOP) for a while and continued. Claims: the others exclude it and go on; it notices by itself
 * that it was excluded, joins again as a new member, and nobody else is disturbed.
 *
 *     e2e-stop WORKER [ms=3000] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 20000

static uint64_t step_wanted;

static bool others_go_on(struct cluster *cluster)
{
    uint32_t together = 0;

    for (uint32_t i = 0; i < cluster->places; i++)
        together += i != 1 && cluster->worker[i].size == cluster->places - 1;
    return together == cluster->places - 1 && cluster_step(cluster) > step_wanted;
}

static bool is_back(struct cluster *cluster)
{
    return cluster->worker[1].exclusions == 1 && cluster_is_whole(cluster)
           && cluster->worker[1].step > step_wanted;
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t stop_ms = cluster_argument(argc, argv, "ms", 3000);

    if (argc < 2)
        return 2;
    cluster_new(&cluster, 4, 1);
    cluster_use(&cluster, argv[1], "-c", "20000", "-n", "10000", "-b", "64", "-u", "1000", NULL);
    for (uint32_t i = 0; i < 4; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, cluster_is_whole, "everybody in one view at the start", PATIENCE_MS);
    uint64_t stopped_ns = cluster_now_ns();
    uint64_t step_then = step_wanted = cluster_step(&cluster);

    cluster_kill(&cluster, 1, SIGSTOP);
    cluster_until(&cluster, others_go_on, "the others to go on without the stopped one", PATIENCE_MS);
    uint64_t resumed_ns = cluster_now_ns();

    cluster_spend(&cluster, stop_ms * SPOTNIK_MS);
    cluster.tolerant = true;
    step_wanted = cluster_step(&cluster);
    cluster_kill(&cluster, 1, SIGCONT);
    cluster_until(&cluster, is_back, "the continued one to be a member again", PATIENCE_MS);
    if (cluster.worker[0].exclusions || cluster.worker[2].exclusions || cluster.worker[3].exclusions)
        cluster_fail(&cluster, "somebody else was excluded");
    printf("the others went on after %.0f ms, from step %" PRIu64 " to %" PRIu64
           " in %.1f s of stop; back %.0f ms after it was continued\n",
           (double)(resumed_ns - stopped_ns) / 1e6, step_then, step_wanted, (double)stop_ms / 1e3,
           (double)(cluster_now_ns() - resumed_ns) / 1e6 - (double)stop_ms);
    for (uint32_t i = 0; i < 4; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    cluster_free(&cluster);
    return 0;
}
