/* SPDX-License-Identifier: Apache-2.0 */
/* Members of a job of five are stopped (SIGSTOP) for a while and continued. Claims:
 *
 *   short      shorter than the silence that counts as loss: nobody is excluded
 *   founder    whoever founded the job is stopped: the others go on in about 1 s, it notices by
 *              itself that they did, and is back as a new member without help
 *   two        the same with two at once
 *   recovery   one is stopped within the milliseconds in which the others recover from the death of
 *              another
 *
 *   majority   three of five: the other two wait, and all go on when the three are continued
 *   all        as when a laptop sleeps: they go on
 *
 * and in all but the last two nobody but the stopped is ever excluded; all replicas stay equal.
 *
 *     e2e-stop WORKER [ms=3000] [seed=1]        (30 s, as a laptop or a hypervisor does:
 * ms=30000) */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "base/time.h"
#include "cluster.h"

#define PATIENCE_MS 30000
/* On one host silence counts after 750 ms. Two that stop together mostly cost one silence, but 1483
 * to 1513 ms were seen, twice that; why is not traced (perhaps a token runs into the second, which
 * its sender has not missed so far). */
#define LIMIT_MS ((2 * 750 + 450) * CLUSTER_SLOWNESS)
#define SHORT_NS (80 * SPOTNIK_MS)
#define SHORT_ENOUGH_NS (150 * SPOTNIK_MS) /* a busy machine may wake us late */
#define SHORT_TRIES 20

enum { MEMBERS = 5 };

static uint64_t step_wanted, exclusions_before[MEMBERS], marked_ns;
static bool is_victim[MEMBERS];
static uint32_t size_wanted;

static bool is_settled(struct cluster *cluster)
{
    return cluster_is_whole(cluster) && cluster_step(cluster) > step_wanted;
}

static void all_step(struct cluster *cluster, uint32_t steps)
{
    step_wanted = cluster_step(cluster) + steps;
    cluster_until(cluster, is_settled, "five members in one view", PATIENCE_MS);
}

/* Five members, for long enough that they know each other's rhythm, and we theirs. */
static void settle(struct cluster *cluster)
{
    all_step(cluster, 50);
    cluster_longest_step_anew(cluster);
    all_step(cluster, 50);
    cluster_was_undisturbed(cluster);
}

static bool others_go_on(struct cluster *cluster)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct worker *worker = &cluster->worker[i];

        if (!is_victim[i] && (worker->size != size_wanted || worker->step <= step_wanted))
            return false;
    }
    return true;
}

static bool are_back(struct cluster *cluster)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct worker *worker = &cluster->worker[i];

        if (is_victim[i] && !worker->pid)
            cluster_start(cluster, i); /* the killed one's place */
        if (is_victim[i] && worker->step <= step_wanted)
            return false;
    }
    return cluster_is_whole(cluster);
}

static void expect_exclusions(struct cluster *cluster, bool of_victims)
{
    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct worker *worker = &cluster->worker[i];
        uint64_t more = worker->exclusions - exclusions_before[i];

        /* it was stopped by the machine, else */
        if (!is_victim[i] && more && worker->starved_ns < marked_ns)
            cluster_fail(cluster, "w%u was excluded although it was never stopped", worker->number);
        if (is_victim[i] && of_victims && !more)
            cluster_fail(cluster, "w%u came back without having noticed anything", worker->number);
    }
}

static void mark(struct cluster *cluster, uint32_t a, uint32_t b)
{
    marked_ns = cluster_now_ns();
    for (uint32_t i = 0; i < MEMBERS; i++) {
        is_victim[i] = i == a || i == b;
        exclusions_before[i] = cluster->worker[i].exclusions;
    }
}

/* From the stop to the first commit without the stopped, on the last of the others. */
static uint64_t resumed_ms(const struct cluster *cluster, uint64_t since_ns)
{
    uint64_t last_ns = since_ns;

    for (uint32_t i = 0; i < MEMBERS; i++)
        if (!is_victim[i] && cluster->worker[i].view_ns > last_ns)
            last_ns = cluster->worker[i].view_ns;
    return (last_ns - since_ns) / SPOTNIK_MS;
}

static void stop_short(struct cluster *cluster)
{
    settle(cluster);
    cluster->tolerant = true; /* a machine that wakes us late makes it a long one */
    for (int tries = 1; tries <= SHORT_TRIES; tries++) {
        uint64_t epoch = cluster->worker[0].epoch, exclusions = cluster->worker[1].exclusions,
                 stopped_ns = cluster_now_ns();
        uint32_t starvations = cluster->starvations;

        cluster_kill(cluster, 1, SIGSTOP);
        cluster_spend(cluster, SHORT_NS);
        cluster_kill(cluster, 1, SIGCONT);
        uint64_t took_ns = cluster_now_ns() - stopped_ns;

        settle(cluster);
        if (took_ns > SHORT_ENOUGH_NS || cluster->starvations > starvations)
            continue;
        if (cluster->worker[0].epoch != epoch || cluster->worker[1].exclusions != exclusions)
            cluster_fail(cluster, "a stop of %" PRIu64 " ms cost a membership",
                         took_ns / SPOTNIK_MS);
        printf("short: nobody was excluded by a stop of %" PRIu64 " ms\n", took_ns / SPOTNIK_MS);
        return;
    }
    printf("short: not judged, this machine is too busy to stop anybody for less than %u ms\n",
           (unsigned)(SHORT_ENOUGH_NS / SPOTNIK_MS));
}

/* `stopped` is stopped; `other`, if it is another one, just before: or it dies, and its place is
 * filled later. */
static void stop(struct cluster *cluster, const char *name, uint32_t stopped, uint32_t other,
                 bool kill_other, uint64_t stop_ms)
{
    settle(cluster);
    mark(cluster, stopped, other);
    size_wanted = stopped == other ? MEMBERS - 1 : MEMBERS - 2;
    cluster->tolerant = true;
    if (other != stopped)
        cluster_kill(cluster, other, kill_other ? SIGKILL : SIGSTOP);
    if (kill_other)
        cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 4 * SPOTNIK_MS));
    step_wanted = cluster_step(cluster) + 1;
    uint64_t stopped_ns = cluster_now_ns();

    cluster_kill(cluster, stopped, SIGSTOP);
    cluster_until(cluster, others_go_on, "the others to go on without the stopped", PATIENCE_MS);
    uint64_t resumed = resumed_ms(cluster, stopped_ns), step = cluster_step(cluster);

    if (resumed > cluster_allowed_ms(cluster, LIMIT_MS))
        cluster_fail(cluster,
                     "%s: the others went on after %" PRIu64 " ms only, of %" PRIu64 " allowed",
                     name, resumed, cluster_allowed_ms(cluster, LIMIT_MS));
    cluster_spend(cluster, stop_ms * SPOTNIK_MS);
    uint64_t steps = cluster_step(cluster) - step, continued_ns = cluster_now_ns();

    step_wanted = cluster_step(cluster);
    cluster_kill(cluster, stopped, SIGCONT);
    if (!kill_other)
        cluster_kill(cluster, other, SIGCONT);
    cluster_until(cluster, are_back, "all to be members again", PATIENCE_MS);
    expect_exclusions(cluster, !kill_other);
    printf("%s: the others went on after %" PRIu64 " ms, %" PRIu64
           " steps in %.1f s of stop; all back %" PRIu64 " ms after it\n",
           name, resumed, steps, (double)stop_ms / 1e3,
           (cluster_now_ns() - continued_ns) / SPOTNIK_MS);
}

/* The first `count` members are stopped, which are too many for the rest to go on without them. */
static void stop_many(struct cluster *cluster, const char *name, uint32_t count, uint64_t stop_ms)
{
    uint64_t commits = 0, exclusions = 0;

    settle(cluster);
    for (uint32_t i = 0; i < count; i++)
        cluster_kill(cluster, i, SIGSTOP);
    cluster_spend(cluster, 500 * SPOTNIK_MS); /* the step under way may end */
    for (uint32_t i = 0; i < MEMBERS; i++)
        commits += cluster->worker[i].commits, exclusions += cluster->worker[i].exclusions;
    cluster_spend(cluster, stop_ms * SPOTNIK_MS);
    for (uint32_t i = 0; i < MEMBERS; i++)
        commits -= cluster->worker[i].commits;
    if (commits)
        cluster_fail(cluster, "%s: steps were committed without the majority", name);
    step_wanted = cluster_step(cluster) + 20;
    uint64_t continued_ns = cluster_now_ns();

    for (uint32_t i = 0; i < count; i++)
        cluster_kill(cluster, i, SIGCONT);
    cluster_until(cluster, is_settled, "all to go on together", PATIENCE_MS);
    for (uint32_t i = 0; i < MEMBERS; i++)
        exclusions -= cluster->worker[i].exclusions;
    printf("%s: no step in %.1f s of stop; %s, all together for 20 steps %" PRIu64 " ms after it\n",
           name, (double)stop_ms / 1e3,
           exclusions ? "somebody had to join again" : "nobody was excluded",
           (cluster_now_ns() - continued_ns) / SPOTNIK_MS);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t ms = cluster_argument(argc, argv, "ms", 3000);

    if (argc < 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    cluster_new(&cluster, MEMBERS, cluster_argument(argc, argv, "seed", 1));
    cluster_use(&cluster, argv[1], "-c", "20000", "-n", "10000", "-b", "64", "-u", "1000", NULL);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        cluster_start(&cluster, i);
        if (i == 0) /* so that it is the founder */
            while (!cluster.worker[0].step)
                cluster_turn(&cluster, 50);
    }
    stop_short(&cluster);
    stop(&cluster, "founder", 0, 0, false, ms);
    stop(&cluster, "two", 1, 3, false, ms / 3);
    for (int i = 0; i < 3; i++)
        stop(&cluster, "in a recovery", 2, 4, true, ms / 6);
    stop_many(&cluster, "majority", 3, ms / 3);
    stop_many(&cluster, "all", MEMBERS, ms / 3);
    for (uint32_t i = 0; i < MEMBERS; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    printf("%" PRIu64 " stable steps, %" PRIu64 " commits compared\n", cluster.step_highest,
           cluster.commits);
    cluster_free(&cluster);
    return 0;
}
