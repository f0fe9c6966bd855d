/* SPDX-License-Identifier: Apache-2.0 */
/* Every machine of a job gets a notice. Claims: the members leave one by one or together, and
 * nobody loses a step: the state after the last step that any of them committed is on disk,
 * although no checkpoint was due, and the next life of the job goes on at the very next step. When
 * only some leave, but fewer stay than the job needs, the leaver saves its own last step. A member
 * that leaves while enough stay writes nothing.
 *
 *     e2e-farewell WORKER [lives=6] [seed=1] [mib=36] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/time.h"
#include "cluster.h"
#include "checkpoint/checkpoint_store.h"

#define PATIENCE_MS 60000

static char directory[400];
static uint64_t step_wanted;
static uint32_t leaver;

static bool is_further(struct cluster *cluster)
{
    return cluster->step_highest >= step_wanted;
}

static bool has_ended(struct cluster *cluster)
{
    return cluster->worker[leaver].ended;
}

/* The newest complete checkpoint; 0: none. */
static uint64_t newest(void)
{
    struct spotnik_checkpoint_store_list list;
    uint64_t step = 0;

    if (spotnik_checkpoint_store_list(directory, &list))
        return 0;
    for (uint32_t i = 0; i < list.count && !step; i++)
        step = list.entry[i].written_s ? list.entry[i].step : 0;
    spotnik_checkpoint_store_list_done(&list);
    return step;
}

static uint64_t committed_by_anybody(const struct cluster *cluster)
{
    uint64_t step = 0;

    for (uint32_t i = 0; i < cluster->places; i++)
        step = cluster->worker[i].step > step ? cluster->worker[i].step : step;
    return step;
}

static void refill(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (!cluster->worker[i].pid)
            cluster_start(cluster, i);
}

static void expect_saved(struct cluster *cluster, const char *when)
{
    uint64_t step = committed_by_anybody(cluster), saved = newest();

    if (saved != step)
        cluster_fail(cluster,
                     "%s: step %" PRIu64 " was the last one, the checkpoint is after %" PRIu64,
                     when, step, saved);
}

static void live(struct cluster *cluster)
{
    step_wanted = cluster->step_highest + 20;
    refill(cluster);
    cluster_until(cluster, cluster_is_whole, "everybody in one view", PATIENCE_MS);
    cluster_until(cluster, is_further, "twenty steps more", PATIENCE_MS);
}

static void forget_after(struct cluster *cluster, uint64_t step)
{
    for (uint64_t i = step + 1; i <= committed_by_anybody(cluster) + 2; i++)
        cluster->digest_of[i & (CLUSTER_STEPS - 1)] = 0;
    cluster->step_highest = step;
}

/* A notice for every machine: at one instant, or as they come. */
static void all_leave(struct cluster *cluster, bool at_once)
{
    for (uint32_t i = 0; i < cluster->places; i++) {
        if (!at_once && i)
            cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 20 * SPOTNIK_MS));
        cluster_kill(cluster, i, SIGTERM);
    }
    cluster_until(cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(cluster, 75);
}

static void lives_that_end_by_notice(struct cluster *cluster, uint64_t lives)
{
    for (uint64_t life = 0; life < lives; life++) {
        uint64_t before = cluster->step_highest;

        live(cluster);
        if (life && !cluster->digest_of[(before + 1) & (CLUSTER_STEPS - 1)])
            cluster_fail(cluster, "step %" PRIu64 " was not made after the checkpoint", before + 1);
        all_leave(cluster, life % 2 == 0);
        expect_saved(cluster, "everybody left");
        cluster->step_highest = committed_by_anybody(cluster);
    }
    printf("%" PRIu64 " times everybody left: the last step, %" PRIu64
           " at the end, was saved each time\n",
           lives, cluster->step_highest);
}

/* Enough stay: no checkpoint. Too few: one, though those that stay are lost. */
static void some_leave(struct cluster *cluster)
{
    uint64_t before = newest();

    live(cluster);
    leaver = 0;
    cluster_kill(cluster, leaver, SIGTERM);
    cluster_until(cluster, has_ended, "one to leave", PATIENCE_MS);
    if (newest() != before)
        cluster_fail(cluster, "one left, enough stayed, and a checkpoint was written all the same");
    leaver = 1;
    cluster_kill(cluster, leaver, SIGTERM);
    cluster_until(cluster, has_ended, "a second one to leave", PATIENCE_MS);
    if (newest() != cluster->worker[leaver].step)
        cluster_fail(cluster,
                     "fewer stay than the job needs: the leaver's last step was %" PRIu64
                     ", the checkpoint is after %" PRIu64,
                     cluster->worker[leaver].step, newest());
    for (uint32_t i = 2; i < cluster->places; i++)
        cluster_kill(cluster, i, SIGKILL);
    cluster_until(cluster, cluster_is_over, "the others to be lost", PATIENCE_MS);
    forget_after(cluster,
                 /* a step that those that stayed had begun may be made again, by others */
                 newest());
    live(cluster);
    printf("two of four left a job of three: saved after step %" PRIu64 ", and it went on\n",
           newest());
    all_leave(cluster, true);
    expect_saved(cluster, "everybody left");
}

static void begin(struct cluster *cluster, int argc, char **argv, uint32_t min)
{
    char bytes[32];

    snprintf(bytes, sizeof bytes, "%" PRIu64, cluster_argument(argc, argv, "mib", 36) << 20);
    cluster_new(cluster, 4, cluster_argument(argc, argv, "seed", 1));
    cluster->min = min;
    snprintf(directory, sizeof directory, "%s/checkpoints", cluster->dir);
    setenv("SPOTNIK_CHECKPOINT", directory, 1);
    setenv("SPOTNIK_CHECKPOINT_S", "3600", 1); /* none is due in this test */
    cluster_use(cluster, argv[1], "-c", "5000", "-n", "10000", "-b", "320", "-u", "2000", "-D",
                "-S", bytes, NULL);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;

    if (argc < 2)
        return 2;
    begin(&cluster, argc, argv, 1);
    lives_that_end_by_notice(&cluster, cluster_argument(argc, argv, "lives", 6));
    cluster_free(&cluster);
    begin(&cluster, argc, argv, 3);
    some_leave(&cluster);
    cluster_free(&cluster);
    return 0;
}
