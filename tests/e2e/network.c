/* SPDX-License-Identifier: Apache-2.0 */
/* Five hosts (network namespaces on a switch of their own), one member each. Claims:
 *
 *   cut        a host vanishes from the network without FIN or RST: the others commit again within
 *              500 ms of their last commit before, and of the cut (a machine whose undisturbed
 *              steps take longer than 25 ms is given more time: cluster_allowed_ms())
 *   partition  2|3, the smallest id among the two: the three go on, the two say that they are
 *              parked; when it heals they are members again, and no step was ever committed twice
 *              with different results (P1, P3)
 *   mute       a host hears the others and nobody hears it; deaf: the other way round. The others
 *              go on without it within 500 ms, and it comes back when the cable is mended
 *   pair       two neighbours do not reach each other, but all others: steps go on
 *   halves     2|2 of four: the half that takes the witness in the peers directory goes on,
 *              whichever it is; the other one is parked
 *   reset      two of four die with input unread, which makes RSTs: FIN proves it all the same, the
 *              other two go on
 *   orphans    2|3, the three go on, commit and die all at once; when it heals the two learn of
 *              three deaths, and still commit nothing: what the three did is lost with them, not
 *              done again (P1)
 *
 *   resettled  2|3, and the three are replaced one by one until nobody the two knew is left; when
 *              it heals the two find the job all the same, by the peers directory, and join it
 *
 *   storm      cuts, kills and heals at random instants; whoever is left at the end: never two
 *              results for one step (P1)
 *
 * Needs root and the program `ip`; says so and is skipped (77) where they are missing.
 *
 *     e2e-network WORKER [limit_ms=500] [five=1] [four=1] [orphans=1] [resettled=1] [storms=2]
 *                 [seed=1] [p2p_turn_ms=500] */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"
#include "netns.h"
#include "probe.h"
#include "sides.h"

#define PATIENCE_MS 30000
#define TRIES 3

/* ---- what is waited for ---- */

static void all_step(struct cluster *cluster, uint32_t steps)
{
    sides.step = cluster_step(cluster) + steps;
    cluster_until(cluster, sides_all_go_on, "all hosts in one view", PATIENCE_MS);
}

/* Wait until all hosts have stepped together for a while: a fresh view measures its jitter anew. So
 * does the test: of the steps after that. */
static void settle(struct cluster *cluster)
{
    all_step(cluster, 100);
    cluster_longest_step_anew(cluster);
    all_step(cluster, 100);
    cluster_was_undisturbed(cluster);
}

/* Those that go on are `size` members, past the step they were in when it happened. */
static void expect(struct cluster *cluster, uint32_t size, const char *what)
{
    sides.step = cluster_step(cluster) + 1;
    sides.size = size;
    cluster_until(cluster, sides_those_go_on, what, PATIENCE_MS);
}

/* From the cut, and from the last commit before it, to the first commit in the new view on the last
 * of those that go on. */
static uint64_t resumed_ms(struct cluster *cluster, uint64_t cut_ns, uint64_t *ret_pause_ms)
{
    uint64_t last_ns = 0, pause_ns = 0;

    for (uint32_t i = 0; i < cluster->places; i++) {
        const struct worker *worker = &cluster->worker[i];

        if (sides.among[i] && worker->view_ns > last_ns)
            last_ns = worker->view_ns;
        if (sides.among[i] && worker->longest_step_ns > pause_ns)
            pause_ns = worker->longest_step_ns;
    }
    *ret_pause_ms = pause_ns / SPOTNIK_MS;
    return spotnik_time_since(last_ns, cut_ns) / SPOTNIK_MS;
}

static uint32_t smallest(struct cluster *cluster)
{
    uint32_t found = 0;

    for (uint32_t i = 1; i < cluster->places; i++)
        if (strcmp(cluster->worker[i].member, cluster->worker[found].member) < 0)
            found = i;
    return found;
}

/* ---- what happens ---- */

/* Within the limit? */
static bool cut_one(struct cluster *cluster, uint32_t victim, uint64_t limit_ms)
{
    uint64_t pause_ms;

    settle(cluster);
    sides_set(cluster, victim, victim);
    uint64_t cut_ns = cluster_now_ns();

    netns_plug(victim, false);
    expect(cluster, cluster->places - 1, "the others to go on without the one cut off");
    uint64_t took_ms = resumed_ms(cluster, cut_ns, &pause_ms);

    printf("cut off without FIN or RST: all four commit again %" PRIu64
           " ms after the cut, %" PRIu64 " ms after their last commit before it\n",
           took_ms, pause_ms);
    netns_plug(victim, true);
    uint64_t healed_ns = cluster_now_ns();

    settle(cluster);
    printf("  plugged in again: a member of five for 100 steps after %" PRIu64 " ms\n",
           (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
    return took_ms <= cluster_allowed_ms(cluster, limit_ms)
           && pause_ms <= cluster_allowed_ms(cluster, limit_ms);
}

/* The parked have learnt that they were excluded. */
static bool the_parked_know(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (!sides.among[i] && !cluster->worker[i].exclusions)
            return false;
    return true;
}

/* `a` and `b` are cut off together, for p2p_turn_ms and 300 steps. */
static void partition(struct cluster *cluster, uint32_t a, uint32_t b, uint64_t p2p_turn_ms,
                      const char *name)
{
    uint64_t pause_ms;

    settle(cluster);
    sides_set(cluster, a, b);
    uint64_t cut_ns = cluster_now_ns();

    netns_move(a, true);
    netns_move(b, true);
    sides.step = cluster_step(cluster) + 1;
    sides.size = cluster->places - 2;
    cluster_until(cluster, sides.size == 2 ? sides_one_half_goes_on : sides_those_go_on,
                  "one side to go on", PATIENCE_MS);
    uint64_t took_ms = resumed_ms(cluster, cut_ns, &pause_ms), from = cluster_step(cluster);

    cluster_until(cluster, sides_others_are_parked, "the other side to say that it is parked",
                  PATIENCE_MS);
    cluster_spend(cluster, p2p_turn_ms * SPOTNIK_MS);
    sides.step = cluster_step(cluster) + 300;
    cluster_until(cluster, sides_those_go_on, "that side to go on for long", PATIENCE_MS);
    sides_parked_made_none(cluster);
    uint64_t steps = cluster_step(cluster) - from, healed_ns = cluster_now_ns();

    netns_move(a, false);
    netns_move(b, false);
    settle(cluster);
    if (!the_parked_know(cluster))
        cluster_fail(cluster, "the parked never learnt that they were excluded");
    printf("%s: went on after %" PRIu64 " ms for %" PRIu64
           " steps, the two others were parked and made none; all together again "
           "for 100 steps %" PRIu64 " ms after it healed\n",
           name, took_ms, steps, (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
}

static bool one_way_cut(struct cluster *cluster, uint32_t victim, bool mute, uint64_t limit_ms)
{
    uint64_t pause_ms;

    settle(cluster);
    sides_set(cluster, victim, victim);
    uint64_t cut_ns = cluster_now_ns();

    for (uint32_t i = 0; i < cluster->places; i++)
        if (i != victim)
            netns_one_way(mute ? victim : i, mute ? i : victim, true);
    expect(cluster, cluster->places - 1,
           "the others to go on without the one that is cut off one way");
    uint64_t took_ms = resumed_ms(cluster, cut_ns, &pause_ms), step = cluster_step(cluster);

    sides.step = step + 300;
    cluster_until(cluster, sides_those_go_on, "the others to go on for long", PATIENCE_MS);
    uint64_t healed_ns = cluster_now_ns();

    for (uint32_t i = 0; i < cluster->places; i++)
        if (i != victim)
            netns_one_way(mute ? victim : i, mute ? i : victim, false);
    settle(cluster);
    printf("%s: the others commit again after %" PRIu64 " ms; it is back for 100 steps %" PRIu64
           " ms after the cable was "
           "mended\n",
           mute ? "mute (hears, is not heard)" : "deaf (is heard, hears not)", took_ms,
           (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
    return took_ms <= cluster_allowed_ms(cluster, limit_ms);
}

static bool cut_mute(struct cluster *cluster, uint32_t victim, uint64_t limit_ms)
{
    return one_way_cut(cluster, victim, true, limit_ms);
}

static bool cut_deaf(struct cluster *cluster, uint32_t victim, uint64_t limit_ms)
{
    return one_way_cut(cluster, victim, false, limit_ms);
}

/* A machine that is held up in that very moment costs a try; a fault of ours would cost all. */
static void within(struct cluster *cluster, bool (*cut)(struct cluster *, uint32_t, uint64_t),
                   uint32_t victim, uint64_t limit_ms)
{
    for (int tries = 0; tries < TRIES; tries++)
        if (cut(cluster, victim, limit_ms))
            return;
    cluster_fail(cluster,
                 "that is more than %" PRIu64 " ms, %d times, and undisturbed steps took %" PRIu64
                 " ms at most",
                 cluster_allowed_ms(cluster, limit_ms), TRIES, cluster->calm_ns / SPOTNIK_MS);
}

static bool somebody_goes_on(struct cluster *cluster)
{
    return cluster_step(cluster) > sides.step;
}

/* Whom `place` sends its chunks to: the one behind it in the list of its status. */
static uint32_t successor(struct cluster *cluster, uint32_t place)
{
    struct spotnik_member member = probe_member(cluster, place);
    uint32_t first = place, next = place;
    const char *at[NETNS_HOSTS];
    char text[16384];

    probe_until(cluster, place, &member, "\"members\":", PATIENCE_MS, text, sizeof text);
    for (uint32_t i = 0; i < cluster->places; i++) {
        at[i] = strstr(strstr(text, "\"members\":"), cluster->worker[i].member);
        if (!at[i])
            cluster_fail(cluster, "place %u is not in the view of place %u: %s", i, place, text);
    }
    for (uint32_t i = 0; i < cluster->places; i++) {
        if (at[i] < at[first])
            first = i;
        if (at[i] > at[place] && (next == place || at[i] < at[next]))
            next = i;
    }
    return next == place ? first : next;
}

/* Two hosts that follow each other on the ring cannot reach each other, though all others reach
 * both. Whatever the views are, steps must go on. */
static void pair(struct cluster *cluster, uint32_t a)
{
    settle(cluster);
    uint32_t b = successor(cluster, a);
    uint64_t step = cluster_step(cluster), epoch = cluster->worker[0].epoch,
             cut_ns = cluster_now_ns();

    netns_one_way(a, b, true);
    netns_one_way(b, a, true);
    sides.step = step + 500;
    cluster_until(cluster, somebody_goes_on, "500 steps although two cannot reach each other",
                  PATIENCE_MS);
    uint64_t took_ms = (cluster_now_ns() - cut_ns) / SPOTNIK_MS, views = 0,
             healed_ns = cluster_now_ns();

    for (uint32_t i = 0; i < cluster->places; i++)
        if (cluster->worker[i].epoch > epoch + views)
            views = cluster->worker[i].epoch - epoch;
    netns_one_way(a, b, false);
    netns_one_way(b, a, false);
    settle(cluster);
    printf("pair (two cannot reach each other): 500 steps in %" PRIu64 " ms and %" PRIu64
           " views; all together again for 100 steps %" PRIu64 " ms after it healed\n",
           took_ms, views, (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
}

/* Half of the hosts' members die with heartbeats unread, so that their kernels say RST for the
 * connections they heard on. Those they spoke on end with FIN: proof enough for the others to go
 * on, whoever has the smallest id. */
static void reset_half(struct cluster *cluster)
{
    settle(cluster);
    uint32_t a = smallest(cluster), b = (a + 1) % cluster->places;

    sides_set(cluster, a, b);
    cluster_kill(cluster, a, SIGSTOP);
    cluster_kill(cluster, b, SIGSTOP);
    cluster_spend(cluster, 120 * SPOTNIK_MS);
    uint64_t killed_ns = cluster_now_ns(), pause_ms;

    cluster_kill(cluster, a, SIGKILL);
    cluster_kill(cluster, b, SIGKILL);
    expect(cluster, cluster->places - 2, "the others to go on after two resets");
    printf("reset: half of the members died with input unread; the others commit again %" PRIu64
           " ms later\n",
           resumed_ms(cluster, killed_ns, &pause_ms));
}

static void start(struct cluster *cluster, uint32_t places, const char *worker)
{
    cluster_new(cluster, places, 1);
    cluster_use(cluster, worker, "-c", "5000", "-n", "10000", "-b", "64", "-u", "2000", NULL);
    cluster->without_slots = true; /* hosts share no memory */
    cluster->tolerant = true;
    for (uint32_t i = 0; i < places; i++) {
        cluster->bind[i] = netns_address[i];
        cluster->netns[i] = netns_host[i];
        cluster_start(cluster, i);
    }
}

static void finish(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        cluster_kill(cluster, i, SIGTERM);
    cluster_until(cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(cluster, 75);
    printf("%u hosts: %" PRIu64 " stable steps, %" PRIu64
           " commits compared, no step with two results\n",
           cluster->places, cluster->step_highest, cluster->commits);
    cluster_free(cluster);
}

static void five(const char *worker, uint64_t limit_ms, uint64_t p2p_turn_ms)
{
    static struct cluster cluster;

    start(&cluster, 5, worker);
    settle(&cluster);
    within(&cluster, cut_one, (smallest(&cluster) + 1) % 5, limit_ms);
    within(&cluster, cut_one, smallest(&cluster), limit_ms);
    partition(&cluster, smallest(&cluster), (smallest(&cluster) + 1) % 5, p2p_turn_ms,
              "2|3, the smallest id among the two, the three");
    within(&cluster, cut_mute, 1, limit_ms);
    within(&cluster, cut_deaf, 2, limit_ms);
    pair(&cluster, 0);
    finish(&cluster);
}

static void four(const char *worker, uint64_t p2p_turn_ms)
{
    static struct cluster cluster;

    start(&cluster, 4, worker);
    settle(&cluster);
    uint32_t first = smallest(&cluster);

    partition(&cluster, (first + 1) % 4, (first + 2) % 4, p2p_turn_ms,
              "2|2, the half with the witness");
    reset_half(&cluster);
    finish(&cluster);
}

/* The others go on without `gone`, too. */
static void expect_without(struct cluster *cluster, uint32_t gone)
{
    sides.among[gone] = false;
    expect(cluster, 2, "two to go on");
    sides.among[gone] = true;
}

static bool the_rest_is_over(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        if (sides.among[i] && cluster->worker[i].pid)
            return false;
    return true;
}

/* Five members, of whom the hosts of two, the smallest and its neighbour, are cut off together
 * until these are parked. */
static void cut_two_off(struct cluster *cluster, const char *worker, uint32_t *ret_a,
                        uint32_t *ret_b)
{
    start(cluster, 5, worker);
    settle(cluster);
    *ret_a = smallest(cluster);
    *ret_b = (*ret_a + 1) % 5;
    sides_set(cluster, *ret_a, *ret_b);
    netns_move(*ret_a, true);
    netns_move(*ret_b, true);
    expect(cluster, 3, "the three to go on");
    cluster_until(cluster, sides_others_are_parked, "the two to say that they are parked",
                  PATIENCE_MS);
}

static void orphans(const char *worker, uint64_t p2p_turn_ms)
{
    static struct cluster cluster;
    uint32_t a, b;

    cut_two_off(&cluster, worker, &a, &b);
    for (uint32_t i = 0; i < 5; i++)
        if (sides.among[i])
            cluster_kill(&cluster, i, SIGKILL);
    cluster_until(&cluster, the_rest_is_over, "the three to be dead", PATIENCE_MS);
    cluster_spend(&cluster, p2p_turn_ms * SPOTNIK_MS);
    netns_move(a, false);
    netns_move(b, false);
    cluster_spend(&cluster, 2 * SPOTNIK_S); /* time enough for many ballots */
    sides_parked_made_none(&cluster);
    uint64_t had_a = sides.told_step[a], had_b = sides.told_step[b];
    cluster_until(&cluster, sides_others_are_parked, "the two to be parked still", PATIENCE_MS);
    if (sides.told_step[a] > had_a || sides.told_step[b] > had_b)
        cluster_fail(&cluster, "the two committed although the three had gone on without them");
    printf("orphans: the three went on and died; the two heard of it and stayed parked\n");
    cluster_kill(&cluster, a, SIGKILL);
    cluster_kill(&cluster, b, SIGKILL);
    cluster_until(&cluster, cluster_is_over, "the two to be dead", PATIENCE_MS);
    cluster_free(&cluster);
}

/* Everybody two hosts knew dies one after the other while they are cut off, each replaced before
 * the next. */
static void resettled(const char *worker)
{
    static struct cluster cluster;
    uint32_t a, b;

    cut_two_off(&cluster, worker, &a, &b);
    for (uint32_t i = 0; i < 5; i++) {
        if (!sides.among[i])
            continue;
        cluster_kill(&cluster, i, SIGKILL);
        expect_without(&cluster, i);
        cluster_start(&cluster, i);
        expect(&cluster, 3, "a new member in its place");
    }
    uint64_t healed_ns = cluster_now_ns();

    netns_move(a, false);
    netns_move(b, false);
    settle(&cluster);
    if (!cluster.worker[a].exclusions || !cluster.worker[b].exclusions)
        cluster_fail(&cluster, "the two never learnt that the job had gone on without them");
    printf(
        "resettled: all that the two knew were replaced; all together again for 100 steps %" PRIu64
        " ms after it healed\n",
        (cluster_now_ns() - healed_ns) / SPOTNIK_MS);
    finish(&cluster);
}

/* Random instants up to 600 ms apart: short ones hit ballots and last words under way, long ones
 * make silence count. */
static void wait_a_while(struct cluster *cluster)
{
    static const uint64_t longest_ms[] = { 5, 60, 300, 600 };

    cluster_spend(cluster, spotnik_prng_below(&cluster->prng,
                                              longest_ms[spotnik_prng_below(&cluster->prng, 4)]
                                                  * SPOTNIK_MS));
}

/* Nobody who lives is in a view that could go on: each is parked, or looks for the job. */
static bool all_are_out(struct cluster *cluster)
{
    char text[16384];

    for (uint32_t i = 0; i < cluster->places; i++) {
        if (!cluster->worker[i].pid || cluster->worker[i].killed || cluster->worker[i].step == 0)
            continue; /* dead, or excluded and not in again */
        struct spotnik_member member = probe_member(cluster, i);
        if (!probe_status(cluster, i, &member, text, sizeof text)
            || (!strstr(text, "\"parked\":true") && !strstr(text, "\"joining\":true")))
            return false;
    }
    return true;
}

/* One death leaves a quorum of everybody else, whatever was cut meanwhile: then somebody goes
 * on. */
static bool is_decided(struct cluster *cluster)
{
    return cluster_step(cluster) > sides.step || (cluster->kills > 1 && all_are_out(cluster));
}

/* Some hosts are cut off, some members die on either side, the cable is mended, more die. Then
 * whoever lives goes on, or knows that it may not. What the two sides did is compared step by step,
 * that of the dead included. */
static void storm(const char *worker, uint64_t seed)
{
    static struct cluster cluster;
    uint32_t cut = 0;

    start(&cluster, 5, worker);
    spotnik_prng_seed(&cluster.prng, seed);
    settle(&cluster);
    for (int round = 0; round < 2; round++) {
        /* never nobody, never all */
        uint32_t side = 1 + (uint32_t)spotnik_prng_below(&cluster.prng, 30);

        for (uint32_t i = 0; i < 5; i++)
            if (side >> i & 1)
                netns_move(i, true), cut++;
        for (int kills = 0; kills < 2; kills++) {
            uint32_t victim = (uint32_t)spotnik_prng_below(&cluster.prng, 8);

            wait_a_while(&cluster);
            if (victim < 5 && cluster_alive(&cluster) > 1 && cluster.worker[victim].pid
                && !cluster.worker[victim].killed) {
                if (spotnik_prng_below(&cluster.prng, 3) == 0) /* with unread input */
                    cluster_kill(&cluster, victim, SIGSTOP), wait_a_while(&cluster);
                cluster_kill(&cluster, victim, SIGKILL);
            }
        }
        wait_a_while(&cluster);
        for (uint32_t i = 0; i < 5; i++)
            if (side >> i & 1)
                netns_move(i, false);
        wait_a_while(&cluster);
    }
    sides.step = cluster_step(&cluster) + 50;
    cluster_until(&cluster, is_decided, "the rest to go on, or to be out", PATIENCE_MS);
    printf("storm %" PRIu64 ": %u hosts cut, %u members killed: %s\n", seed, cut, cluster.kills,
           cluster_step(&cluster) > sides.step ? "the rest goes on" : "the rest is parked or out");
    for (uint32_t i = 0; i < 5; i++)
        if (cluster.worker[i].pid)
            cluster_kill(&cluster, i, SIGKILL);
    cluster_until(&cluster, cluster_is_over, "all to be dead", PATIENCE_MS);
    cluster_free(&cluster);
}

int main(int argc, char **argv)
{
    uint64_t p2p_turn_ms = cluster_argument(argc, argv, "p2p_turn_ms", 500);

    if (argc < 2)
        return 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (geteuid() != 0) {
        printf("skipped: network namespaces need root\n");
        return 77;
    }
    if (!netns_set_up()) {
        printf(
            "skipped: cannot make network namespaces here (needs `ip` and the right to use it)\n");
        return 77;
    }
    if (cluster_argument(argc, argv, "five", 1))
        five(argv[1], cluster_argument(argc, argv, "limit_ms", 500), p2p_turn_ms);
    if (cluster_argument(argc, argv, "four", 1))
        four(argv[1], p2p_turn_ms);
    for (uint64_t i = cluster_argument(argc, argv, "orphans", 1); i > 0; i--)
        orphans(argv[1], p2p_turn_ms);
    if (cluster_argument(argc, argv, "resettled", 1))
        resettled(argv[1]);
    for (uint64_t i = 0; i < cluster_argument(argc, argv, "storms", 2); i++)
        storm(argv[1], cluster_argument(argc, argv, "seed", 1) + i);
    return 0;
}
