/* SPDX-License-Identifier: Apache-2.0 */
/* Who may found a job, on hosts that are network namespaces and take each other for other machines
 * (SPOTNIK_HOST). Claims:
 *
 *   vanished  files of the folder of a live job are removed or torn: a newcomer that reaches nobody
 *             founds nothing, and says what is missing; when it reaches the members it joins
 *   reject    a firewall refuses a newcomer every connection to the job: it waits, and joins when
 *             the firewall goes
 *   list      listed members die, are started again and cut off from the rest: they found nothing;
 *             healed, they join
 *   outsiders all listed members die, while others live: those who take their places join these
 *   power     all machines lose power at once; new ones with the folder and the checkpoint go on by
 *             themselves within T and 10 s, at the step of the checkpoint; until then their status
 *             says what is waited for
 *   pair      of two machines with a folder one loses power, either of them: the other goes on at
 *             once, by the witness
 *   unnamed   the same without the witness: the survivor goes on after T, with its own state
 *   orphan    all others go on without one that is cut off, write a checkpoint, and lose power: it
 *             goes on after T, not from its memory but from the checkpoint, which is newer
 *
 *     e2e-founding WORKER [only=0: all, 1: vanished, ...] */
#include <glob.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/time.h"
#include "checkpoint/checkpoint_store.h"
#include "cluster.h"
#include "link/address.h"
#include "netns.h"
#include "discovery/discovery.h"
#include "probe.h"

#define STALE_MS 4000
#define PATIENCE_MS 60000

static uint64_t step_wanted;
static uint32_t size_wanted;

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int shell(const char *format, ...)
{
    char command[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

static bool is_further(struct cluster *cluster)
{
    return cluster_step(cluster) >= step_wanted && cluster_is_together(cluster, size_wanted);
}

static void go_on(struct cluster *cluster, uint32_t size, const char *what)
{
    step_wanted = cluster_step(cluster) + 20;
    size_wanted = size;
    cluster_until(cluster, is_further, what, PATIENCE_MS);
}

static void begin(struct cluster *cluster, const char *worker, uint32_t places)
{
    cluster_new(cluster, places, 1);
    cluster->tolerant = cluster->without_slots = true;
    cluster->hosts = places;
    cluster_use(cluster, worker, "-c", "2000", "-n", "100000", "-b", "640", "-u", "2000", NULL);
    for (uint32_t i = 0; i < places; i++) {
        cluster->bind[i] = netns_address[i];
        cluster->netns[i] = netns_host[i];
    }
}

static void finish(struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->places; i++)
        cluster_kill(cluster, i, SIGTERM);
    cluster_until(cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_free(cluster);
}

/* How many foundings the folder has seen. */
static size_t foundings(const struct cluster *cluster)
{
    char pattern[400];
    glob_t found;

    snprintf(pattern, sizeof pattern, "%s/genesis-*", cluster->peers);
    int rc = glob(pattern, 0, NULL, &found);
    size_t count = rc ? 0 : found.gl_pathc;
    if (!rc)
        globfree(&found);
    return count;
}

/* The worker at `place` waits in vain for so long, and founds nothing. */
static void waits(struct cluster *cluster, uint32_t place, uint64_t ms)
{
    cluster_spend(cluster, ms * SPOTNIK_MS);
    if (cluster->worker[place].step || !cluster->worker[place].pid)
        cluster_fail(cluster, "place %u steps, or has given up", place);
}

/* It has told nothing yet: its record says where it listens. */
static struct spotnik_member waiting_member(struct cluster *cluster, uint32_t place)
{
    struct spotnik_credentials credentials;
    struct spotnik_member listed[CLUSTER_PLACES];
    uint8_t address[16];
    uint16_t port;
    uint32_t count = 0;

    probe_credentials(cluster, &credentials);
    if (spotnik_discovery_list(cluster->spec, &credentials, listed, CLUSTER_PLACES, &count)
        || spotnik_address_parse(netns_address[place], address, &port))
        cluster_fail(cluster, "no list of records");
    for (uint32_t i = 0; i < count; i++)
        if (!memcmp(listed[i].address, address, sizeof address))
            return listed[i];
    return (struct spotnik_member){ .port = 0 };
}

static void expect_waiting(struct cluster *cluster, uint32_t place, const char *for_what)
{
    struct spotnik_member member = { .port = 0 };
    char text[16384];

    while (member.port == 0) {
        cluster_turn(cluster, 10);
        member = waiting_member(cluster, place);
    }
    probe_until(cluster, place, &member, for_what, PATIENCE_MS, text, sizeof text);
}

/* Host 2 is refused every connection to hosts 0 and 1, or no longer. */
static void wall(struct cluster *cluster, char add)
{
    for (uint32_t i = 0; i < 2; i++)
        if (shell("ip netns exec %s iptables -%c OUTPUT -p tcp -d %s -j REJECT "
                  "--reject-with tcp-reset",
                  netns_host[2], add, netns_address[i]))
            cluster_fail(cluster, "iptables does not work here");
}

static void reject(const char *worker)
{
    static struct cluster cluster;

    begin(&cluster, worker, 3);
    cluster_start(&cluster, 0);
    cluster_start(&cluster, 1);
    go_on(&cluster, 2, "two members");
    wall(&cluster, 'A');
    cluster_start(&cluster, 2);
    waits(&cluster, 2, 2 * STALE_MS);
    if (foundings(&cluster) != 1)
        cluster_fail(&cluster, "the newcomer has founded a job beside the living");
    wall(&cluster, 'D');
    go_on(&cluster, 3, "the newcomer in the view of the others");
    puts("reject: the newcomer has waited, and joined when the firewall was gone");
    finish(&cluster);
}

/* A newcomer starts right after `damage` was done to the folder, of which `left` foundings are
 * left. */
static void damaged(struct cluster *cluster, const char *damage, size_t left, const char *says)
{
    if (shell(damage, cluster->peers))
        cluster_fail(cluster, "%s does not work", damage);
    cluster_start(cluster, 2);
    expect_waiting(cluster, 2, says);
    waits(cluster, 2, 2 * STALE_MS);
    if (foundings(cluster) != left)
        cluster_fail(cluster, "%s: the newcomer has founded a job beside the living", damage);
    struct spotnik_id id = waiting_member(cluster, 2).id; /* the next one listens there, too */
    cluster_kill(cluster, 2, SIGKILL);
    if (shell("rm %s/member-%016" PRIx64 "%016" PRIx64, cluster->peers, id.high, id.low))
        cluster_fail(cluster, "the newcomer has left no record");
    go_on(cluster, 2, "the two members");
}

static void vanished(const char *worker)
{
    static struct cluster cluster;

    begin(&cluster, worker, 3);
    cluster_start(&cluster, 0);
    cluster_start(&cluster, 1);
    go_on(&cluster, 2, "two members");
    wall(&cluster, 'A');
    damaged(&cluster, "truncate -s 40 %s/member-*", 1, "member-");
    damaged(&cluster, "rm %s/genesis-1", 0, "genesis-1 is missing");
    damaged(&cluster, "rm -r %s/*", 0, "genesis-1 is missing");
    wall(&cluster, 'D');
    cluster_start(&cluster, 2);
    go_on(&cluster, 3, "a newcomer in the view of the others");
    puts("vanished: whatever was torn or removed, the newcomer has founded nothing beside the "
         "living");
    finish(&cluster);
}

static void list_use(struct cluster *cluster, uint32_t listed)
{
    static char bind[NETNS_HOSTS][64];
    size_t at = 0;

    for (uint32_t i = 0; i < cluster->places; i++) {
        snprintf(bind[i], sizeof bind[i], "%s:4100", netns_address[i]);
        cluster->bind[i] = bind[i];
    }
    for (uint32_t i = 0; i < listed; i++)
        at += (size_t)snprintf(cluster->spec + at, sizeof cluster->spec - at, "%s%s", i ? "," : "",
                               bind[i]);
}

/* Places 0, 3 and 4. */
static bool rest_goes_on(struct cluster *cluster)
{
    bool all = true;

    for (uint32_t i = 0; i < 5; i++)
        all &= i == 1 || i == 2
               || (cluster->worker[i].step >= step_wanted && cluster->worker[i].size == 3);
    return all;
}

static void list(const char *worker)
{
    static struct cluster cluster;

    begin(&cluster, worker, 5);
    list_use(&cluster, 3);
    for (uint32_t i = 0; i < 5; i++)
        cluster_start(&cluster, i);
    go_on(&cluster, 5, "three listed and two others in one view");
    for (uint32_t i = 1; i < 3; i++) {
        cluster_kill(&cluster, i, SIGKILL);
        netns_move(i, true);
        cluster_start(&cluster, i);
    }
    waits(&cluster, 1, 2 * STALE_MS);
    waits(&cluster, 2, 0);
    step_wanted = cluster_step(&cluster) + 20;
    cluster_until(&cluster, rest_goes_on, "the other three to go on", PATIENCE_MS);
    for (uint32_t i = 1; i < 3; i++)
        netns_move(i, false);
    go_on(&cluster, 5, "all five in one view");
    puts("list: two of three listed, started again and cut off, have founded nothing, and joined "
         "in the end");
    finish(&cluster);
}

static void outsiders(const char *worker)
{
    static struct cluster cluster;

    begin(&cluster, worker, 4);
    list_use(&cluster, 1);
    for (uint32_t i = 0; i < 4; i++)
        cluster_start(&cluster, i);
    go_on(&cluster, 4, "one listed and three others in one view");
    cluster_kill(&cluster, 0, SIGKILL);
    cluster_start(&cluster, 0);
    go_on(&cluster, 4, "the one that is started again in the view of the others");
    puts("outsiders: the only listed one, started again, has joined those who are not listed");
    finish(&cluster);
}

static bool has_checkpoint(struct cluster *cluster, uint64_t *ret_step)
{
    struct spotnik_checkpoint_store_list shelf;
    char directory[400];

    *ret_step = 0;
    snprintf(directory, sizeof directory, "%s/checkpoints", cluster->dir);
    if (spotnik_checkpoint_store_list(directory, &shelf))
        return false;
    for (uint32_t i = 0; i < shelf.count && !*ret_step; i++)
        if (shelf.entry[i].written_s)
            *ret_step = shelf.entry[i].step;
    spotnik_checkpoint_store_list_done(&shelf);
    return *ret_step != 0;
}

static bool is_saved(struct cluster *cluster)
{
    uint64_t step;

    return has_checkpoint(cluster, &step);
}

/* The last words of the dead reach nobody. */
static void power_off(struct cluster *cluster, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to; i++)
        netns_plug(i, false);
    for (uint32_t i = from; i < to; i++)
        cluster_kill(cluster, i, SIGKILL);
}

/* Steps after the checkpoint are as if they had never been. */
static void roll_back(struct cluster *cluster, uint64_t step)
{
    for (uint64_t i = step + 1; i <= cluster->step_highest + 2; i++)
        cluster->digest_of[i & (CLUSTER_STEPS - 1)] = 0;
    cluster->step_highest = step;
}

static bool anybody_steps(struct cluster *cluster)
{
    return cluster_step(cluster) > 0;
}

static void power(const char *worker)
{
    static struct cluster cluster;
    char directory[400];
    uint64_t step;

    begin(&cluster, worker, 4);
    snprintf(directory, sizeof directory, "%s/checkpoints", cluster.dir);
    setenv("SPOTNIK_CHECKPOINT", directory, 1);
    setenv("SPOTNIK_CHECKPOINT_STEPS", "50", 1);
    cluster_start(&cluster, 0);
    cluster_start(&cluster, 1);
    go_on(&cluster, 2, "two members");
    cluster_until(&cluster, is_saved, "a checkpoint", PATIENCE_MS);
    power_off(&cluster, 0, 2);
    cluster_until(&cluster, cluster_is_over, "everybody to be dead", PATIENCE_MS);
    has_checkpoint(&cluster, &step);
    roll_back(&cluster, step);
    uint64_t begun_ns = cluster_now_ns();
    cluster_start(&cluster, 2);
    cluster_start(&cluster, 3);
    expect_waiting(&cluster, 2, "waiting until it stays the same for 4 s");
    cluster_until(&cluster, anybody_steps, "new machines to go on by themselves", STALE_MS + 10000);
    uint64_t took_ms = (cluster_now_ns() - begun_ns) / SPOTNIK_MS;
    go_on(&cluster, 2, "both new machines in one view");
    if (!cluster.digest_of[(step + 1) & (CLUSTER_STEPS - 1)])
        cluster_fail(&cluster, "nobody committed step %" PRIu64 " after the checkpoint", step + 1);
    printf("power: new machines go on after step %" PRIu64 ", %" PRIu64
           " ms after the first of them began (T = %d ms)\n",
           step, took_ms, STALE_MS);
    unsetenv("SPOTNIK_CHECKPOINT");
    unsetenv("SPOTNIK_CHECKPOINT_STEPS");
    finish(&cluster);
    netns_plug(0, true);
    netns_plug(1, true);
}

/* Two members, of which one loses power. Returns when. */
static uint64_t halve(struct cluster *cluster, const char *worker, bool smallest, bool unnamed,
                      uint32_t *ret_lost)
{
    begin(cluster, worker, 3);
    cluster_start(cluster, 0);
    cluster_start(cluster, 1);
    go_on(cluster, 2, "two members");
    if (shell("ls %s/witness-* > /dev/null", cluster->peers)
        || (unnamed && shell("rm %s/witness-*", cluster->peers)))
        cluster_fail(cluster, "there is no witness in the folder");
    uint32_t smaller = strcmp(cluster->worker[0].member, cluster->worker[1].member) < 0 ? 0 : 1;
    *ret_lost = smallest ? smaller : 1 - smaller;
    power_off(cluster, *ret_lost, *ret_lost + 1);
    return cluster_now_ns();
}

static void survivor_grows(struct cluster *cluster, uint32_t lost, uint64_t before)
{
    /* its folder is there, too: it waits for whoever has the newest state */
    cluster_start(cluster, 2);
    step_wanted = cluster_step(cluster) + 40;
    size_wanted = 2;
    cluster_until(cluster, is_further, "the other and a newcomer to go on", 2 * STALE_MS + 20000);
    if (cluster->worker[1 - lost].commits < 10 || cluster->step_highest < before)
        cluster_fail(cluster, "the survivor has not gone on from its own state");
    netns_plug(lost, true);
    finish(cluster);
}

static bool goes_on_alone(struct cluster *cluster)
{
    return cluster_step(cluster) >= step_wanted;
}

static void pair(const char *worker)
{
    static struct cluster cluster;
    uint32_t lost;

    for (int smallest = 0; smallest < 2; smallest++) {
        uint64_t begun_ns = halve(&cluster, worker, smallest, false, &lost),
                 before = cluster_step(&cluster);
        step_wanted = before + 40;
        cluster_until(&cluster, goes_on_alone, "the other to go on", 2 * STALE_MS + 20000);
        uint64_t took_ns = cluster_now_ns() - begun_ns;
        if (foundings(&cluster) != 1)
            cluster_fail(&cluster,
                         "the survivor had to found the job again, %" PRIu64 " ms after the loss",
                         took_ns / SPOTNIK_MS);
        printf("pair: the %s id loses power, the other is 40 steps further %" PRIu64
               " ms after the loss (T = %d ms)\n",
               smallest ? "smaller" : "larger", took_ns / SPOTNIK_MS, STALE_MS);
        survivor_grows(&cluster, lost, before);
    }
}

static void unnamed(const char *worker)
{
    static struct cluster cluster;
    uint32_t lost;
    uint64_t begun_ns = halve(&cluster, worker, true, true, &lost);

    survivor_grows(&cluster, lost, cluster_step(&cluster));
    printf("unnamed: without a witness the survivor goes on from its memory, and takes in a "
           "newcomer, %" PRIu64 " ms after the loss (T = %d ms)\n",
           (cluster_now_ns() - begun_ns) / SPOTNIK_MS, STALE_MS);
}

static uint64_t orphaned_step;

static bool is_saved_later(struct cluster *cluster)
{
    uint64_t step;

    return has_checkpoint(cluster, &step) && step > orphaned_step + 50;
}

static bool two_are_dead(struct cluster *cluster)
{
    return !cluster->worker[0].pid && !cluster->worker[1].pid;
}

static bool orphan_steps(struct cluster *cluster)
{
    return cluster->worker[2].size == 1 && cluster->worker[2].step >= step_wanted;
}

static void orphan(const char *worker)
{
    static struct cluster cluster;
    char directory[400];
    uint64_t step;

    begin(&cluster, worker, 3);
    snprintf(directory, sizeof directory, "%s/checkpoints", cluster.dir);
    setenv("SPOTNIK_CHECKPOINT", directory, 1);
    setenv("SPOTNIK_CHECKPOINT_STEPS", "50", 1);
    for (uint32_t i = 0; i < 3; i++)
        cluster_start(&cluster, i);
    go_on(&cluster, 3, "three members");
    netns_plug(2, false);
    orphaned_step = cluster_step(&cluster);
    cluster_until(&cluster, is_saved_later, "a checkpoint without the third", PATIENCE_MS);
    power_off(&cluster, 0, 2);
    uint64_t begun_ns = cluster_now_ns(), had = cluster.worker[2].step;
    /* and all they told is heard */
    cluster_until(&cluster, two_are_dead, "the two to be dead", PATIENCE_MS);
    has_checkpoint(&cluster, &step);
    roll_back(&cluster, step);
    step_wanted = step + 20;
    cluster_until(&cluster, orphan_steps, "the one that is left to go on", 2 * STALE_MS + 20000);
    if (had > step || !cluster.digest_of[(step + 1) & (CLUSTER_STEPS - 1)])
        cluster_fail(&cluster, "it did not go on right after the checkpoint, %" PRIu64, step);
    printf("orphan: cut off at step %" PRIu64 ", goes on after the checkpoint of step %" PRIu64
           ", %" PRIu64 " ms after the loss\n",
           had, step, (cluster_now_ns() - begun_ns) / SPOTNIK_MS);
    unsetenv("SPOTNIK_CHECKPOINT");
    unsetenv("SPOTNIK_CHECKPOINT_STEPS");
    for (uint32_t i = 0; i < 3; i++)
        netns_plug(i, true);
    finish(&cluster);
}

int main(int argc, char **argv)
{
    static void (*const scenario[])(const char *worker) = { vanished, reject, list,    outsiders,
                                                            power,    pair,   unnamed, orphan };
    uint64_t only = cluster_argument(argc, argv, "only", 0);
    char text[16];

    if (argc < 2)
        return 2;
    if (!netns_set_up()) {
        puts("left out: no network namespaces here (not root, or no `ip`)");
        return 77;
    }
    snprintf(text, sizeof text, "%d", STALE_MS);
    setenv("SPOTNIK_STALE_MS", text, 1);
    for (uint64_t i = 1; i <= sizeof scenario / sizeof *scenario; i++) {
        if (only && only != i)
            continue;
        if (i <= 2 && shell("iptables -V > /dev/null 2>&1"))
            puts("vanished, reject: left out, there is no iptables here");
        else
            scenario[i - 1](argv[1]);
        fflush(stdout);
    }
    return 0;
}
