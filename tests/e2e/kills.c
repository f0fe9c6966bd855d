/* SPDX-License-Identifier: Apache-2.0 */
/* The big one: a job whose members are killed at random instants, alone, in pairs and in triples,
 * some while a recovery is under way, each replaced by a new process. A third of all kills is aimed
 * at points of the protocol (armed.h): a survivor of one kill dies before or after one exact act of
 * the recovery, or of the steps around it. Claim: every stable commit has one digest on all
 * members, no step is skipped or doubled, every sample is used once, nothing hangs; and members
 * died in every phase.
 *
 *     e2e-kills WORKER [places=8] [kills=60] [seed=1] [count=20000] [us=2000] [seconds=60]
 *     [slots=1] [hosts=0] [addresses=0]
 *
 * addresses: 1: each place has a loopback address of its own, so that its members take the others
 * for distant. hosts: how many hosts the places believe to stand on; reduced on each, and
 * between them by one member of each. WORKER: e2e-worker-armed. us: time of a member's computation
 * in a step. The kills go on until every phase was hit. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "cluster.h"
#include "leftovers.h"
#include "probe.h"

#define PATIENCE_MS 30000

static uint32_t places, massacres, massacred;
static uint64_t step_wanted;

#define STEPS_OF_A_RECOVERY                                                                        \
    3 /* who has not got where it should die by then will not get there for this loss */

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

static bool is_member(const struct worker *worker)
{
    return worker->pid && !worker->killed && worker->step && !worker->replay;
}

/* Members that are not about to die. */
static uint32_t safe_members(const struct cluster *cluster)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < places; i++)
        count += is_member(&cluster->worker[i]) && !cluster->worker[i].aim_wanted;
    return count;
}

/* The view may hold those of the newest report and anybody who has come since without a report,
 * alive or dead. */
static uint32_t view_at_most(const struct cluster *cluster)
{
    uint64_t epoch = 0;
    uint32_t size = 0, unseen = 0;

    for (uint32_t i = 0; i < places; i++) {
        const struct worker *worker = &cluster->worker[i];
        unseen += worker->number && (!worker->step || worker->replay);
        if (worker->epoch >= epoch && worker->step && !worker->replay) {
            epoch = worker->epoch;
            size = worker->size;
        }
    }
    return size + unseen;
}

/* With more than half of the view left nobody has to wait (P1). With fewer it depends on what can
 * be proven of the dead: see massacre(). */
static bool can_spare_one(const struct cluster *cluster)
{
    uint32_t safe = safe_members(cluster);
    return safe > 2 && 2 * (safe - 1) > view_at_most(cluster);
}

static uint32_t died(const struct cluster *cluster, enum armed_phase phase)
{
    return cluster->died_at[armed_aim(phase, false)] + cluster->died_at[armed_aim(phase, true)];
}

static uint32_t aimed_kills(const struct cluster *cluster)
{
    uint32_t count = 0;

    for (int phase = 0; phase < ARMED_PHASES; phase++)
        count += died(cluster, (enum armed_phase)phase);
    return count;
}

/* FENCED goes to who does not vote and is linked. Where EOF is the only proof of death, the dead
 * are no longer linked. */
static bool every_phase_hit(const struct cluster *cluster)
{
    for (int phase = 0; phase < ARMED_PHASES; phase++)
        if (!died(cluster, (enum armed_phase)phase)
            && !(cluster->without_slots && phase == ARMED_FENCED))
            return false;
    return true;
}

/* In every phase, and a third of those that were asked for; not of all that it took: whom a busy
 * machine does not let run misses the point. */
static bool is_well_aimed(const struct cluster *cluster, uint64_t kills)
{
    return every_phase_hit(cluster) && 3 * aimed_kills(cluster) >= kills;
}

/* The point least tried so far, one of them at random. */
static int next_aim(struct cluster *cluster)
{
    static uint32_t tries[ARMED_AIMS];
    uint64_t seen = 0;
    int found = 1;

    for (int aim = 1; aim < ARMED_AIMS; aim++) {
        seen = tries[aim] < tries[found] ? 0 : seen;
        if (tries[aim] <= tries[found] && spotnik_prng_below(&cluster->prng, ++seen) == 0)
            found = aim;
    }
    tries[found]++;
    return found;
}

/* Everybody aimed at has died, or the others have long gone on: an event, so that a slow machine
 * kills no fewer. */
static bool is_missed_or_hit(struct cluster *cluster)
{
    bool aimed = false;

    for (uint32_t i = 0; i < places; i++)
        aimed |=
            cluster->worker[i].aim_wanted && cluster->worker[i].pid && !cluster->worker[i].killed;
    return !aimed || cluster->step_highest >= step_wanted;
}

/* Who did not get where it should have died may have been asked for what does not happen to it. */
static void disarm_all(struct cluster *cluster)
{
    for (uint32_t i = 0; i < places; i++)
        if (cluster->worker[i].aim_wanted)
            cluster_aim(cluster, i, 0);
}

/* One or two members that will die at a point of what the coming kill sets off, or of what comes
 * later. */
static void aim_some(struct cluster *cluster)
{
    uint64_t some = 1 + spotnik_prng_below(&cluster->prng, 2);
    uint32_t first = (uint32_t)spotnik_prng_below(&cluster->prng, places);

    for (uint32_t i = 0; i < places && some && can_spare_one(cluster); i++) {
        uint32_t place = (first + i) % places;

        if (!is_member(&cluster->worker[place]) || cluster->worker[place].aim_wanted)
            continue;
        cluster_aim(cluster, place, next_aim(cluster));
        some--;
    }
}

/* Anybody whom the job can lose and go on. */
static void kill_one(struct cluster *cluster)
{
    uint32_t first = (uint32_t)spotnik_prng_below(&cluster->prng, places);
    bool spare = can_spare_one(cluster);

    for (uint32_t i = 0; i < places; i++) {
        const struct worker *worker = &cluster->worker[(first + i) % places];
        bool member = worker->step && !worker->replay;

        if (!worker->pid || worker->killed || worker->aim_wanted || (member && !spare))
            continue;
        cluster_kill(cluster, (first + i) % places, SIGKILL);
        return;
    }
}

/* One to three victims: at the same instant, or the next ones within the few milliseconds in which
 * the survivors agree on a view without the first. */
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

/* Does every member hear all others, so that their end proves itself to it? Two that came at once
 * hear each other a moment later than they stand in the view. */
static bool all_hear_all(struct cluster *cluster)
{
    char text[16384], wanted[32];

    if (!is_whole(cluster))
        return false;
    snprintf(wanted, sizeof wanted, "\"linked\":%" PRIu32 ",", places - 1);
    for (uint32_t i = 0; i < places; i++) {
        struct spotnik_member member;

        if (!probe_member_find(cluster, i, &member)
            || !probe_status(cluster, i, &member, text, sizeof text) || !strstr(text, wanted))
            return false;
    }
    return true;
}

/* All but two or three at the same instant, out of one quiet view: too few are left for a majority,
 * but every death is proven to them, so they go on. The victims are stopped first: what one of them
 * votes for after the first death is not known to those who are left. */
static void massacre(struct cluster *cluster)
{
    uint64_t left = 2 + spotnik_prng_below(&cluster->prng, 2);
    uint32_t first = (uint32_t)spotnik_prng_below(&cluster->prng, places);

    disarm_all(cluster);
    cluster_until(cluster, all_hear_all, "everybody in one view, and heard by all", PATIENCE_MS);
    for (uint32_t i = 0; i + left < places; i++)
        cluster_kill(cluster, (first + i) % places, SIGSTOP);
    for (uint32_t i = 0; i + left < places; i++)
        cluster_kill(cluster, (first + i) % places, SIGKILL);
    massacred += places - (uint32_t)left;
    massacres++;
    step_wanted = cluster->step_highest + 3;
    cluster_until(cluster, is_further, "three more steps after a massacre", PATIENCE_MS);
}

/* Replacements start at once, or only after the survivors have gone on without the lost: both
 * happen in life. */
static void kill_and_replace(struct cluster *cluster, uint64_t kills, uint64_t limit_ns)
{
    uint64_t struck_at = 0;

    while ((cluster->kills < kills || !is_well_aimed(cluster, kills))
           && cluster_now_ns() < limit_ns) {
        cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 300 * SPOTNIK_MS));
        step_wanted = struck_at + STEPS_OF_A_RECOVERY;
        cluster_until(cluster, is_missed_or_hit, "three more steps, or deaths of those aimed at",
                      PATIENCE_MS);
        disarm_all(cluster);
        if (2 * aimed_kills(cluster) <= cluster->kills - massacred)
            aim_some(cluster);
        if (spotnik_prng_chance(&cluster->prng, 1, 20))
            massacre(cluster);
        else
            strike(cluster);
        struck_at = cluster->step_highest;
        if (spotnik_prng_chance(&cluster->prng, 1, 3)) {
            step_wanted = cluster->step_highest + 3;
            cluster_until(cluster, is_further, "three more steps after a loss", PATIENCE_MS);
        }
        refill(cluster);
        if (spotnik_prng_chance(&cluster->prng, 1, 4))
            cluster_until(cluster, is_whole, "everybody in one view", PATIENCE_MS);
    }
}

static void report(const struct cluster *cluster)
{
    static const char *const name[ARMED_PHASES] = { "FROZEN",       "PREPARE sent", "ACCEPT sent",
                                                    "RESTART sent", "FENCED sent",  "VIEW",
                                                    "STEP_BEGUN",   "first data",   "COMMITTED" };

    puts("died at          before  after");
    for (int phase = 0; phase < ARMED_PHASES; phase++)
        printf("  %-14s %6u %6u\n", name[phase],
               cluster->died_at[armed_aim((enum armed_phase)phase, false)],
               cluster->died_at[armed_aim((enum armed_phase)phase, true)]);
    printf("%u of %u kills at such a point; %u times all but two or three at once\n",
           aimed_kills(cluster), cluster->kills, massacres);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    static char address[CLUSTER_PLACES][16];
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
    cluster.hosts = (uint32_t)cluster_argument(argc, argv, "hosts", 0);
    for (uint32_t i = 0; i < places && cluster_argument(argc, argv, "addresses", 0); i++) {
        snprintf(address[i], sizeof address[i], "127.0.0.%u", i + 2);
        cluster.bind[i] = address[i];
    }
    cluster.without_slots = !cluster_argument(argc, argv, "slots", 1);
    leftovers_watch(&cluster);
    cluster_use(&cluster, argv[1], "-c", count, "-n", "100000", "-b", "640", "-u", us, NULL);
    uint64_t begun_ns = cluster_now_ns();

    cluster_until(&cluster, is_whole, "everybody in one view at the start", PATIENCE_MS);
    kill_and_replace(&cluster, kills, begun_ns + seconds * SPOTNIK_S);
    disarm_all(&cluster);
    cluster_until(&cluster, is_whole, "everybody in one view at the end", PATIENCE_MS);
    cluster_until(&cluster, leftovers_are_dropped, "members to drop what they had of the dead",
                  PATIENCE_MS);
    for (uint32_t i = 0; i < places; i++)
        cluster_kill(&cluster, i, SIGTERM);
    cluster_until(&cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(&cluster, 75);
    leftovers_expect_none(&cluster);
    printf("%u kills, %u starts, %" PRIu64 " stable steps, %" PRIu64 " commits compared, %" PRIu64
           " recoveries told, longest %.1f ms, %.1f s, seed %" PRIu64 "\n",
           cluster.kills, cluster.started, cluster.step_highest, cluster.commits,
           cluster.recoveries, (double)cluster.recovery_max_ns / 1e6,
           (double)(cluster_now_ns() - begun_ns) / 1e9, seed);
    report(&cluster);
    int rc = is_well_aimed(&cluster, kills) ? 0 : 1;
    if (rc)
        puts("FAILED: too few kills at points of the protocol, or none at one of them; give it "
             "more seconds");

    cluster_free(&cluster);
    return rc;
}
