/* SPDX-License-Identifier: Apache-2.0 */
/* A job on three hosts, as its members take it, of two or three members each. Claims: it goes on, with one digest on all members, when it loses
 *
 *   a member that is served by the holder of its host's stream
 *   the holder of a stream; the one that takes over; the last of that host, and so a whole host at length
 *   a whole host at one instant
 *
 * and when each is replaced. Nothing is left behind.
 *
 *     e2e-hosts WORKER [count=50000] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "cluster.h"
#include "leftovers.h"

#define PATIENCE_MS 30000
#define PLACES 8
#define HOSTS 3

static uint64_t step_wanted;
static uint32_t size_wanted;

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) > step_wanted && cluster_is_together(cluster, size_wanted);
}

static void go_on(struct cluster *cluster, const char *what)
{
    step_wanted = cluster_step(cluster) + 20;
    size_wanted = cluster_alive(cluster);
    cluster_until(cluster, is_further, what, PATIENCE_MS);
}

static bool lives(const struct cluster *cluster, uint32_t place)
{
    return cluster->worker[place].pid && !cluster->worker[place].killed;
}

/* Views keep their members in the order they came in, so the holder of a host is the one that has been there longest: the `nth` of them. */
static uint32_t nth_of(struct cluster *cluster, uint32_t host, uint32_t nth)
{
    for (uint32_t place = host; place < PLACES; place += HOSTS) {
        uint32_t before = 0;
        for (uint32_t other = host; other < PLACES; other += HOSTS)
            before += lives(cluster, other) && cluster->worker[other].number < cluster->worker[place].number;
        if (lives(cluster, place) && before == nth)
            return place;
    }
    cluster_fail(cluster, "host %u has no member %u any more", host, nth);
}

static void kill_nth(struct cluster *cluster, uint32_t host, uint32_t nth, const char *what)
{
    cluster_kill(cluster, nth_of(cluster, host, nth), SIGKILL);
    go_on(cluster, what);
}

static void refill(struct cluster *cluster)
{
    for (uint32_t place = 0; place < PLACES; place++)
        if (!cluster->worker[place].pid)
            cluster_start(cluster, place);
}

static bool is_whole(struct cluster *cluster)
{
    refill(cluster);
    return cluster_is_whole(cluster);
}

static void be_whole(struct cluster *cluster)
{
    cluster_until(cluster, is_whole, "everybody in one view", PATIENCE_MS);
    go_on(cluster, "steps of all");
}

static void lose_one_by_one(struct cluster *cluster, uint32_t host)
{
    kill_nth(cluster, host, 1, "steps after the loss of one that was served");
    kill_nth(cluster, host, 0, "steps after the loss of a holder");
    be_whole(cluster);
    kill_nth(cluster, host, 0, "steps after the loss of a holder");
    kill_nth(cluster, host, 0, "steps after the loss of the one that took over");
    while (cluster_alive(cluster) > PLACES - (PLACES - host + HOSTS - 1) / HOSTS)
        kill_nth(cluster, host, 0, "steps after the loss of the last of a host");
    be_whole(cluster);
}

static void lose_at_once(struct cluster *cluster, uint32_t host)
{
    for (uint32_t place = host; place < PLACES; place += HOSTS)
        cluster_kill(cluster, place, SIGKILL);
    go_on(cluster, "steps after the loss of a host");
    be_whole(cluster);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    char count[32];

    if (argc < 2)
        return 2;
    snprintf(count, sizeof count, "%" PRIu64, cluster_argument(argc, argv, "count", 50000));
    cluster_new(&cluster, PLACES, 1);
    cluster.min = 2;
    cluster.hosts = HOSTS;
    leftovers_watch(&cluster);
    cluster_use(&cluster, argv[1], "-c", count, "-n", "100000", "-b", "640", "-u", "1000", NULL);
    be_whole(&cluster);
    for (uint32_t host = 0; host < HOSTS; host++) {
        lose_one_by_one(&cluster, host);
        lose_at_once(&cluster, host);
    }
    cluster_until(&cluster, leftovers_are_dropped, "members to drop what they had of the dead", PATIENCE_MS);
    for (uint32_t place = 0; place < PLACES; place++)
        cluster_kill(&cluster, place, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    leftovers_expect_none(&cluster);
    printf("%u kills on %u hosts, %" PRIu64 " stable steps, %" PRIu64 " commits compared\n", cluster.kills, HOSTS, cluster.step_highest,
           cluster.commits);
    cluster_free(&cluster);
    return 0;
}
