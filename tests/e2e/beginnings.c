/* SPDX-License-Identifier: Apache-2.0 */
/* Short lives of small jobs: four processes start at once, one of them dies in the first steps,
 * when some of the others are still joining, and another takes its place. Views of one to four
 * members are where one death, or one mistaken for another, makes or takes a majority. Claim: one
 * lineage (P1), and everybody in it in the end.
 *
 *     e2e-beginnings WORKER [jobs=20] [seed=1] [us=2000] [slots=1] [kills=2]
 *
 * us: time of a computation; slots=0: a death is known by EOF alone, as without `spotnik run`. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

enum { PLACES = 4, STEPS_AFTER = 20, PATIENCE_MS = 60000 };

static uint64_t step_wanted;

static bool is_there(struct cluster *cluster)
{
    return cluster_step(cluster) >= step_wanted;
}

static bool is_whole(struct cluster *cluster)
{
    for (uint32_t i = 0; i < PLACES; i++)
        if (!cluster->worker[i].pid)
            cluster_start(cluster, i);
    return cluster_is_whole(cluster) && cluster_step(cluster) >= step_wanted;
}

/* Somebody who has trained or is about to, but for the last two who have: a job of one that dies
 * begins anew, as it should. */
static void kill_one(struct cluster *cluster)
{
    uint32_t first = (uint32_t)spotnik_prng_below(&cluster->prng, PLACES), trained = 0;

    for (uint32_t i = 0; i < PLACES; i++)
        trained += cluster->worker[i].pid && !cluster->worker[i].killed && cluster->worker[i].step
                   && !cluster->worker[i].replay;
    for (uint32_t i = 0; i < PLACES; i++) {
        const struct worker *worker = &cluster->worker[(first + i) % PLACES];
        bool member = worker->step && !worker->replay;

        if (!worker->pid || worker->killed || (member && trained < 3))
            continue;
        cluster_kill(cluster, (first + i) % PLACES, SIGKILL);
        return;
    }
}

static void live(struct cluster *cluster, uint64_t kills)
{
    for (uint32_t i = 0; i < PLACES; i++)
        cluster_start(cluster, i);
    for (uint64_t i = 0; i < kills; i++) {
        step_wanted = cluster_step(cluster) + 1 + spotnik_prng_below(&cluster->prng, 8);
        cluster_until(cluster, is_there, "the first steps", PATIENCE_MS);
        kill_one(cluster);
        cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 30 * SPOTNIK_MS));
    }
    step_wanted = cluster_step(cluster) + STEPS_AFTER;
    cluster_until(cluster, is_whole, "everybody in one view", PATIENCE_MS);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t seed = cluster_argument(argc, argv, "seed", 1),
             jobs = cluster_argument(argc, argv, "jobs", 20);
    uint64_t kills = cluster_argument(argc, argv, "kills", 2), commits = 0,
             begun_ns = cluster_now_ns();
    char us[32];

    if (argc < 2)
        return 2;
    snprintf(us, sizeof us, "%" PRIu64, cluster_argument(argc, argv, "us", 2000));
    for (uint64_t job = 0; job < jobs; job++) {
        cluster_new(&cluster, PLACES, seed * 1000 + job);
        cluster.min = 2;
        cluster.tolerant = true;
        cluster.without_slots = !cluster_argument(argc, argv, "slots", 1);
        cluster_use(&cluster, argv[1], "-c", "2000", "-n", "100000", "-b", "640", "-u", us, NULL);
        live(&cluster, kills);
        commits += cluster.commits;
        cluster_free(&cluster);
    }
    printf("%" PRIu64 " jobs, %" PRIu64 " commits compared, %.1f s, seed %" PRIu64 "\n", jobs,
           commits, (double)(cluster_now_ns() - begun_ns) / 1e9, seed);
    return 0;
}
