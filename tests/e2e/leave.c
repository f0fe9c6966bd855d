/* SPDX-License-Identifier: Apache-2.0 */
/* Planned leaves. Claims: a member that gets SIGTERM finishes its step, leaves and exits with 75;
 * the others lose no step and see no loss; when the steps asked for are done, all exit with 0 and
 * the same replica. A member that was stopped while the others finished and left ends soon after it
 * wakes: with 0 and the same replica where there are checkpoints, with an error where there are
 * none; never as if the state it has were the last.
 *
 *     e2e-leave WORKER [steps=1500] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 20000

static uint32_t leaver;

static bool has_left(struct cluster *cluster)
{
    const struct worker *worker = &cluster->worker[leaver];

    return worker->ended && cluster_is_together(cluster, cluster->places - 1);
}

static bool others_have_ended(struct cluster *cluster)
{
    return cluster->worker[0].ended && cluster->worker[1].ended;
}

static void wakes_too_late(char *worker, bool checkpoints)
{
    static struct cluster cluster;
    char directory[400];

    cluster_new(&cluster, 3, 2);
    cluster.tolerant = true;
    snprintf(directory, sizeof directory, "%s/checkpoints", cluster.dir);
    if (checkpoints)
        setenv("SPOTNIK_CHECKPOINT", directory, 1);
    cluster_use(&cluster, worker, "-s", "2000", "-c", "5000", "-n", "10000", "-b", "64", "-u",
                "1000", NULL);
    for (uint32_t i = 0; i < 3; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, cluster_is_whole, "three in one view", PATIENCE_MS);
    cluster_kill(&cluster, 2, SIGSTOP);
    cluster_until(&cluster, others_have_ended, "the others to be done without the third", 60000);
    cluster.worker[2].killed = !checkpoints; /* it has an error to tell */
    cluster_kill(&cluster, 2, SIGCONT);
    cluster_until(&cluster, cluster_is_over, "the third to learn that the job is over",
                  PATIENCE_MS);
    if (cluster.worker[2].status != (checkpoints ? 0 : 1))
        cluster_fail(&cluster, "the third ended with %d", cluster.worker[2].status);
    cluster_expect_end(&cluster, 0);
    printf("stopped while the others finished, %s checkpoints: ended with %d\n",
           checkpoints ? "with" : "without", cluster.worker[2].status);
    unsetenv("SPOTNIK_CHECKPOINT");
    cluster_free(&cluster);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    char steps[32];
    uint64_t wanted = cluster_argument(argc, argv, "steps", 1500);

    if (argc < 2)
        return 2;
    wakes_too_late(argv[1], false);
    wakes_too_late(argv[1], true);
    snprintf(steps, sizeof steps, "%" PRIu64, wanted);
    cluster_new(&cluster, 5, 1);
    cluster_use(&cluster, argv[1], "-s", steps, "-c", "5000", "-n", "10000", "-b", "64", "-u",
                "1000", NULL);
    for (uint32_t i = 0; i < 5; i++)
        cluster_start(&cluster, i);
    cluster_until(&cluster, cluster_is_whole, "everybody in one view at the start", PATIENCE_MS);
    for (leaver = 0; leaver < 3; leaver++) { /* the founder first */
        cluster_kill(&cluster, leaver, SIGTERM);
        cluster_until(&cluster, has_left, "the leaver to end and the others to go on", PATIENCE_MS);
        if (cluster.worker[leaver].status != 75)
            cluster_fail(&cluster, "the leaver ended with %d, not 75",
                         cluster.worker[leaver].status);
        cluster_start(&cluster, leaver);
        cluster_until(&cluster, cluster_is_whole, "its successor to be in", PATIENCE_MS);
    }
    if (cluster.recoveries)
        cluster_fail(&cluster, "a planned leave was told as a loss");
    cluster_until(&cluster, cluster_is_over, "all steps to be done", 60000);
    cluster_expect_end(&cluster, 0);
    if (cluster.step_highest != wanted)
        cluster_fail(&cluster, "ended after step %" PRIu64, cluster.step_highest);
    printf("3 leaves with exit 75; %" PRIu64
           " steps, all members ended with 0 and the same digest\n",
           wanted);
    cluster_free(&cluster);
    return 0;
}
