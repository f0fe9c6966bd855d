/* SPDX-License-Identifier: Apache-2.0 */
/* The peers directory vanishes while the job runs. Claims: training goes on and survives losses without it; once the
 * directory is back, members are found again and a joiner gets in.
 *
 *     e2e-vanish WORKER */
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 20000

static uint64_t step_wanted;
static uint32_t size_wanted;

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) > step_wanted && cluster_is_together(cluster, size_wanted);
}

static void go_on(struct cluster *cluster, uint32_t size, const char *what)
{
    step_wanted = cluster_step(cluster) + 20;
    size_wanted = size;
    cluster_until(cluster, is_further, what, PATIENCE_MS);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    char elsewhere[320];

    if (argc < 2)
        return 2;
    cluster_new(&cluster, 4, 1);
    cluster_use(&cluster, argv[1], "-c", "5000", "-n", "10000", "-b", "64", "-u", "1000", NULL);
    for (uint32_t i = 0; i < 4; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, cluster_is_whole, "everybody in one view at the start", PATIENCE_MS);
    snprintf(elsewhere, sizeof elsewhere, "%s/elsewhere", cluster.dir);
    if (rename(cluster.peers, elsewhere))
        cluster_fail(&cluster, "rename: %m");
    go_on(&cluster, 4, "steps without the directory");
    cluster_kill(&cluster, 2, SIGKILL);
    go_on(&cluster, 3, "steps after a loss without the directory");
    if (rename(elsewhere, cluster.peers))
        cluster_fail(&cluster, "rename: %m");
    cluster_start(&cluster, 2);
    go_on(&cluster, 4, "a joiner to be in once the directory is back");
    printf("steps went on without the directory, also after a loss; a joiner got in when it was back\n");
    for (uint32_t i = 0; i < 4; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    cluster_free(&cluster);
    return 0;
}
