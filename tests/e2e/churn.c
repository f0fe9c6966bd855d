/* SPDX-License-Identifier: Apache-2.0 */
/* The big one: a job whose members are killed at random instants, alone, in pairs and in triples, some while a recovery
 * is under way, each replaced by a new process. Claim: every stable commit has one digest on all members, no step is
 * skipped or doubled, every sample is used once, nothing hangs.
 *
 *     e2e-churn WORKER [places=8] [kills=60] [seed=1] [count=20000] [us=2000] [seconds=60] [slots=1]
 *
 * us: time of a member's computation in a step. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 30000

static uint32_t places;
static uint64_t step_wanted;

static void refill(struct cluster *cluster)
{
    for (uint32_t i = 0; i < places; i++)
        if (!cluster->worker[i].pid)
            cluster_start(cluster, i);
}

/* A killed member's place is free once it has been reaped, which may be later than now. */
static bool is_whole(struct cluster *cluster)
{
    refill(cluster);
    return cluster_is_whole(cluster);
}

static bool is_further(struct cluster *cluster)
{
    return cluster->step_highest >= step_wanted;
}

/* A member that is neither dead nor the last one in the job. */
static void kill_one(struct cluster *cluster)
{
    uint32_t first = (uint32_t)spotnik_prng_below(&cluster->prng, places), inside = 0;

    for (uint32_t i = 0; i < places; i++)
        inside += cluster->worker[i].pid && !cluster->worker[i].killed && cluster->worker[i].step
                  && !cluster->worker[i].replay;
    for (uint32_t i = 0; i < places; i++) {
        const struct worker *worker = &cluster->worker[(first + i) % places];
        bool member = worker->step && !worker->replay;

        if (!worker->pid || worker->killed || (member && inside < 3))
            continue;
        cluster_kill(cluster, (first + i) % places, SIGKILL);
        return;
    }
}

/* One to three victims: at the same instant, or the next ones within the few milliseconds in which the survivors agree on
 * a view without the first. */
static void strike(struct cluster *cluster)
{
    uint64_t victims =
        spotnik_prng_chance(&cluster->prng, 1, 2) ? 1 : 1 + spotnik_prng_below(&cluster->prng, 3);
    bool at_once = spotnik_prng_chance(&cluster->prng, 1, 2);

    for (uint64_t i = 0; i < victims; i++) {
        if (i && !at_once)
            cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 6 * SPOTNIK_MS));
        kill_one(cluster);
    }
}

/* Replacements start at once, or only after the survivors have gone on without the lost: both happen in life. */
static void churn(struct cluster *cluster, uint64_t kills, uint64_t limit_ns)
{
    while (cluster->kills < kills && cluster_now_ns() < limit_ns) {
        cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 300 * SPOTNIK_MS));
        strike(cluster);
        if (spotnik_prng_chance(&cluster->prng, 1, 3)) {
            step_wanted = cluster->step_highest + 3;
            cluster_until(cluster, is_further, "three more steps after a loss", PATIENCE_MS);
        }
        refill(cluster);
        if (spotnik_prng_chance(&cluster->prng, 1, 4))
            cluster_until(cluster, is_whole, "everybody in one view", PATIENCE_MS);
    }
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t seed = cluster_argument(argc, argv, "seed", 1),
             kills = cluster_argument(argc, argv, "kills", 60);
    uint64_t seconds = cluster_argument(argc, argv, "seconds", 60);
    char count[32], us[32];

    if (argc < 2)
        return 2;
    places = (uint32_t)cluster_argument(argc, argv, "places", 8);
    snprintf(count, sizeof count, "%" PRIu64, cluster_argument(argc, argv, "count", 20000));
    snprintf(us, sizeof us, "%" PRIu64, cluster_argument(argc, argv, "us", 2000));
    cluster_new(&cluster, places, seed);
    cluster.min = 2;
    cluster.without_slots = !cluster_argument(argc, argv, "slots", 1);
    cluster_use(&cluster, argv[1], "-c", count, "-n", "100000", "-b", "640", "-u", us, NULL);
    uint64_t begun_ns = cluster_now_ns();

    cluster_until(&cluster, is_whole, "everybody in one view at the start", PATIENCE_MS);
    churn(&cluster, kills, begun_ns + seconds * SPOTNIK_S);
    cluster_until(&cluster, is_whole, "everybody in one view at the end", PATIENCE_MS);
    for (uint32_t i = 0; i < places; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    printf("%u kills, %u starts, %" PRIu64 " stable steps, %" PRIu64 " commits compared, %" PRIu64
           " recoveries told, longest %.1f ms, %.1f s, seed %" PRIu64 "\n",
           cluster.kills, cluster.started, cluster.step_highest, cluster.commits, cluster.recoveries,
           (double)cluster.recovery_max_ns / 1e6, (double)(cluster_now_ns() - begun_ns) / 1e9, seed);
    int rc = cluster.kills >= kills || cluster_now_ns() - begun_ns >= seconds * SPOTNIK_S ? 0 : 1;

    cluster_free(&cluster);
    return rc;
}
