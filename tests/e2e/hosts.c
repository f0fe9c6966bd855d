/* SPDX-License-Identifier: Apache-2.0 */
/* A job on three hosts, as its members take it, of two or three members each. Claims: it goes on,
 * with one digest on all members, when it loses
 *
 *   a member that is served by the holder of its host's stream
 *   the holder of a stream; the one that takes over; the last of that host, and so a whole host at
 *       length
 *   a whole host at one instant
 *   a member of one host, or all of it, and the holder of another at each act of the recovery from
 *       that (a worker that can be armed)
 *
 * and when each is replaced. Nothing is left behind (not looked for in namespaces). What commits
 * stable has one digest on all members, which cluster.h compares.
 *
 * namespaces=1: on three hosts for real, which are network namespaces, so that nothing but TCP
 * joins them. Needs root and the program `ip`; says so and is skipped (77) where they are missing.
 *
 *     e2e-hosts WORKER [count=50000] [namespaces=0] [armed=0] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "cluster.h"
#include "leftovers.h"
#include "netns.h"

#define PATIENCE_MS 30000
#define PLACES 8
#define HOSTS 3

static uint64_t step_wanted;
static uint32_t size_wanted, struck;

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) > step_wanted && cluster_is_together(cluster, size_wanted);
}

/* Whoever is left by now. */
static bool is_beyond(struct cluster *cluster)
{
    size_wanted = cluster_alive(cluster);
    return is_further(cluster);
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

/* Views keep their members in the order they came in, so the holder of a host is the one that has
 * been there longest: the `nth` of them. */
static uint32_t nth_of(struct cluster *cluster, uint32_t host, uint32_t nth)
{
    for (uint32_t place = host; place < PLACES; place += HOSTS) {
        uint32_t before = 0;
        for (uint32_t other = host; other < PLACES; other += HOSTS)
            before += lives(cluster, other)
                      && cluster->worker[other].number < cluster->worker[place].number;
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

/* ---- during a recovery ---- */

/* It dies there, if that act falls to it; else it is told to live. */
static void lose_holder_at(struct cluster *cluster, uint32_t host, enum armed_phase phase,
                           bool whole)
{
    uint32_t other = (host + 1) % HOSTS, holder = nth_of(cluster, host, 0);

    cluster_aim(cluster, holder, armed_aim(phase, false));
    for (uint32_t nth = 0, n = whole ? 2 : 1; nth < n; nth++)
        cluster_kill(cluster, nth_of(cluster, other, 0), SIGKILL);
    step_wanted = cluster_step(cluster) + 20;
    cluster_until(cluster, is_beyond, "steps after a loss, and a holder's during the recovery",
                  PATIENCE_MS);
    if (lives(cluster, holder))
        cluster_aim(cluster, holder, 0);
    struck += !lives(cluster, holder);
    be_whole(cluster);
}

static void lose_in_recovery(struct cluster *cluster)
{
    static const enum armed_phase phases[] = { ARMED_FROZEN,  ARMED_RECONCILE, ARMED_ACCEPT,
                                               ARMED_RESTART, ARMED_VIEW,      ARMED_DATA };
    uint32_t count = sizeof phases / sizeof *phases;

    for (uint32_t i = 0; i < 2 * count; i++)
        lose_holder_at(cluster, i % HOSTS, phases[i % count], i >= count);
    printf("%u of %u holders died during the recovery from another loss\n", struck, 2 * count);
    if (struck < count)
        cluster_fail(cluster, "too few holders died where they should");
}

static bool stand_apart(struct cluster *cluster)
{
    if (geteuid() != 0 || !netns_set_up())
        return false;
    cluster->without_slots = true; /* hosts share no memory */
    for (uint32_t place = 0; place < PLACES; place++) {
        cluster->bind[place] = netns_address[place % HOSTS];
        cluster->netns[place] = netns_host[place % HOSTS];
    }
    return true;
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
    bool namespaces = cluster_argument(argc, argv, "namespaces", 0) != 0;
    cluster.hosts = namespaces ? 0 : HOSTS;
    if (namespaces && !stand_apart(&cluster)) {
        printf("skipped: network namespaces need root and the program ip\n");
        return 77;
    }
    if (!namespaces)
        leftovers_watch(&cluster);
    cluster_use(&cluster, argv[1], "-c", count, "-n", "100000", "-b", "640", "-u", "1000", NULL);
    be_whole(&cluster);
    for (uint32_t host = 0; host < HOSTS; host++) {
        lose_one_by_one(&cluster, host);
        lose_at_once(&cluster, host);
    }
    if (cluster_argument(argc, argv, "armed", 0) != 0)
        lose_in_recovery(&cluster);
    if (!namespaces)
        cluster_until(&cluster, leftovers_are_dropped, "members to drop what they had of the dead",
                      PATIENCE_MS);
    for (uint32_t place = 0; place < PLACES; place++)
        cluster_kill(&cluster, place, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    if (!namespaces) /* else the one that takes the namespaces away would count */
        leftovers_expect_none(&cluster);
    printf("%u kills on %u hosts, %" PRIu64 " stable steps, %" PRIu64 " commits compared\n",
           cluster.kills, HOSTS, cluster.step_highest, cluster.commits);
    cluster_free(&cluster);
    return 0;
}
