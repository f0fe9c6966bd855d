/* SPDX-License-Identifier: Apache-2.0 */
/* A store of which each part lies on two members only, and members that are killed one after the
 * other at random instants, each replaced: after some kills no part is where it began. Claim: no
 * update that was answered is lost and none counts twice, which the workers check (p2p_turn.h);
 * nothing is left behind.
 *
 *     e2e-holders WORKER [places=5] [kills=25] [seed=1] [us=500] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"
#include "leftovers.h"

#define PATIENCE_MS 30000
#define STEPS_BETWEEN 6 /* a push is answered in each, so two members have every part again */

static uint32_t places;
static uint64_t step_wanted;

static bool is_whole(struct cluster *cluster)
{
    for (uint32_t i = 0; i < places; i++)
        if (!cluster->worker[i].pid)
            cluster_start(cluster, i);
    return cluster_is_whole(cluster);
}

static bool is_further(struct cluster *cluster)
{
    return cluster->step_highest >= step_wanted;
}

static void strike(struct cluster *cluster)
{
    cluster_until(cluster, is_whole, "everybody in one view", PATIENCE_MS);
    step_wanted = cluster->step_highest + STEPS_BETWEEN;
    cluster_until(cluster, is_further, "some steps of all", PATIENCE_MS);
    cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 20 * SPOTNIK_MS));
    cluster_kill(cluster, (uint32_t)spotnik_prng_below(&cluster->prng, places), SIGKILL);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    char us[24];

    if (argc < 2)
        return 2;
    places = (uint32_t)cluster_argument(argc, argv, "places", 5);
    uint64_t kills = cluster_argument(argc, argv, "kills", 25);
    snprintf(us, sizeof us, "%" PRIu64, cluster_argument(argc, argv, "us", 500));
    cluster_new(&cluster, places, cluster_argument(argc, argv, "seed", 1));
    cluster_use(&cluster, argv[1], "-u", us, NULL);
    leftovers_watch(&cluster);
    while (cluster.kills < kills)
        strike(&cluster);
    cluster_until(&cluster, is_whole, "everybody in one view at last", PATIENCE_MS);
    cluster_until(&cluster, leftovers_are_dropped, "nobody to hold on to what the dead had",
                  PATIENCE_MS);
    /* leaves at once would be losses at once to the store, and be told as such */
    for (uint32_t i = 0; i < places; i++)
        cluster_kill(&cluster, i, SIGKILL);
    cluster_until(&cluster, cluster_is_over, "everybody to die", PATIENCE_MS);
    leftovers_expect_none(&cluster);
    printf("%u kills, %u starts, %" PRIu64 " stable steps\n", cluster.kills, cluster.started,
           cluster.step_highest);
    cluster_free(&cluster);
    return 0;
}
