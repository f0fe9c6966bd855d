/* SPDX-License-Identifier: Apache-2.0 */
/* Every member of a job is killed at one instant, again and again, while it writes checkpoints and
 * its members come and go; each time it is started anew in the same place. Claims: it goes on from
 * the newest complete checkpoint, at the very next step, with every sample of every epoch of data
 * used once (the members check that themselves, over the deaths); from the one before when that was
 * damaged; also when it is lost again and again before it could write another; checkpoints are
 * completed while members are lost and come all the time; what it trains is, bit for bit, what the
 * same members without deaths would have. Checkpoints are signed by the key of the job: what the
 * writer of the folder has moved to a later step is passed over, and what it has written itself, or
 * another key has signed, no member loads, and none begins anew over it. Where the key was rotated
 * in between, the next life goes on from what the key before has signed, in the same place.
 *
 *     e2e-totalloss WORKER [lives=5] [seed=1] [mib=36] [every=20] [bits=1] [forged=1]
 *
 * bits=0 leaves out the comparison of bits and checkpoints by time; lives=0 leaves out the lives,
 * forged=0 the forgeries. */
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/key.h"
#include "base/time.h"
#include "cluster.h"
#include "checkpoint/checkpoint_store.h"
#include "checkpoint/resume.h"
#include "discovery/discovery.h"
#include "probe.h"
#include "spotnik/spotnik.h"

#define PATIENCE_MS 60000
#define CHURN_MAX 20

static uint32_t places;
static uint64_t step_wanted, checkpoint_wanted;
static char directory[400];

static void refill(struct cluster *cluster)
{
    for (uint32_t i = 0; i < places; i++)
        if (!cluster->worker[i].pid && !cluster->worker[i].over)
            cluster_start(cluster, i);
}

static bool is_further(struct cluster *cluster)
{
    return cluster->step_highest >= step_wanted;
}

/* The newest complete checkpoint: its step, 0 for none. */
static uint64_t newest(struct spotnik_checkpoint_store_entry *ret)
{
    struct spotnik_checkpoint_store_list list;
    uint64_t step = 0;

    if (spotnik_checkpoint_store_list(directory, &list))
        return 0;
    for (uint32_t i = 0; i < list.count && !step; i++)
        if (list.entry[i].written_s) {
            step = list.entry[i].step;
            *ret = list.entry[i];
        }
    spotnik_checkpoint_store_list_done(&list);
    return step;
}

static bool has_checkpoint(struct cluster *cluster)
{
    struct spotnik_checkpoint_store_entry entry;

    (void)cluster;
    return newest(&entry) >= checkpoint_wanted;
}

static bool is_whole(struct cluster *cluster)
{
    refill(cluster);
    return cluster_is_whole(cluster);
}

/* One member is lost and another comes, once or twice, so that checkpoints are cut and members join
 * what was resumed. */
static void kill_and_replace(struct cluster *cluster)
{
    for (uint64_t i = spotnik_prng_below(&cluster->prng, 3); i > 0; i--) {
        cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 200 * SPOTNIK_MS));
        cluster_kill(cluster, (uint32_t)spotnik_prng_below(&cluster->prng, places), SIGKILL);
        step_wanted = cluster->step_highest + 5;
        cluster_until(cluster, is_further, "five more steps after a loss", PATIENCE_MS);
        refill(cluster);
    }
}

static void kill_all(struct cluster *cluster)
{
    for (uint32_t i = 0; i < places; i++)
        cluster_kill(cluster, i, SIGKILL);
    cluster_until(cluster, cluster_is_over, "everybody to be dead", PATIENCE_MS);
}

/* Somebody is lost and replaced all the time, until a checkpoint is complete all the same: each
 * time a little later, so that a slow disk is no reason to fail. */
static void write_under_churn(struct cluster *cluster)
{
    uint64_t losses = 0;

    checkpoint_wanted = cluster->step_highest + 1;
    while (!has_checkpoint(cluster)) {
        if (++losses > CHURN_MAX)
            cluster_fail(cluster, "no checkpoint is completed while members come and go");
        cluster_kill(cluster, (uint32_t)spotnik_prng_below(&cluster->prng, places), SIGKILL);
        step_wanted = cluster->step_highest + 5;
        cluster_until(cluster, is_further, "five more steps after a loss", PATIENCE_MS);
        refill(cluster);
        cluster_spend(cluster, losses * 200 * SPOTNIK_MS);
    }
    printf("a checkpoint is complete after %" PRIu64 " losses\n", losses);
}

/* Steps after the checkpoint are as if they had never been. */
static void roll_back(struct cluster *cluster, uint64_t step)
{
    for (uint64_t i = step + 1; i <= cluster->step_highest + 2; i++)
        cluster->digest_of[i & (CLUSTER_STEPS - 1)] = 0;
    cluster->step_highest = step;
}

/* The last byte of one of its parts is lost. */
static void tear(struct cluster *cluster, const struct spotnik_checkpoint_store_entry *entry)
{
    char path[PATH_MAX], file[PATH_MAX + NAME_MAX + 2];
    struct stat facts;

    snprintf(path, sizeof path, "%s/%s", directory, entry->name);
    DIR *parts = opendir(path);
    for (const struct dirent *at; parts && (at = readdir(parts)) != NULL;) {
        snprintf(file, sizeof file, "%s/%s", path, at->d_name);
        if (!strncmp(at->d_name, "part-", 5) && !stat(file, &facts)
            && !truncate(file, facts.st_size - 1)) {
            closedir(parts);
            return;
        }
    }
    cluster_fail(cluster, "%s has no part to tear", entry->name);
}

/* Live until a new checkpoint is complete and some steps more, then die at some instant. Returns
 * where the next life must go on. */
static uint64_t live_and_die(struct cluster *cluster, bool torn)
{
    struct spotnik_checkpoint_store_entry entry;

    /* Who has copied half of the state of a job that dies with its only member cannot begin it, and
     * ends after a minute: not the claim here. */
    cluster_until(cluster, is_whole, "everybody in one view at the beginning", PATIENCE_MS);
    kill_and_replace(cluster);
    checkpoint_wanted = cluster->step_highest + 1;
    cluster_until(cluster, has_checkpoint, "a complete checkpoint", PATIENCE_MS);
    cluster_spend(cluster, spotnik_prng_below(&cluster->prng, 300 * SPOTNIK_MS));
    kill_all(cluster);
    uint64_t step = newest(&entry);

    if (torn) {
        tear(cluster, &entry);
        struct spotnik_checkpoint_store_list list;

        step = 0;
        if (spotnik_checkpoint_store_list(directory, &list))
            cluster_fail(cluster, "no list of checkpoints");
        for (uint32_t i = 0; i < list.count && !step; i++)
            if (list.entry[i].written_s && strcmp(list.entry[i].name, entry.name))
                step = list.entry[i].step;
        spotnik_checkpoint_store_list_done(&list);
    }
    return step;
}

/* The next life goes on at the very next step, or digests of the one before come again. */
static void expect_resumed(struct cluster *cluster, uint64_t step)
{
    roll_back(cluster, step);
    refill(cluster);
    step_wanted = step + 3;
    cluster_until(cluster, is_further, "the job to go on from its checkpoint", PATIENCE_MS);
    if (!cluster->digest_of[(step + 1) & (CLUSTER_STEPS - 1)])
        cluster_fail(cluster, "nobody committed step %" PRIu64 " after the checkpoint", step + 1);
}

static void finish(struct cluster *cluster)
{
    cluster_until(cluster, is_whole, "everybody in one view at the end", PATIENCE_MS);
    for (uint32_t i = 0; i < places; i++)
        cluster_kill(cluster, i, SIGTERM);
    cluster_until(cluster, cluster_is_over, "everybody to leave", PATIENCE_MS);
    cluster_expect_end(cluster, 75);
}

static void begin(struct cluster *cluster, uint64_t seed, uint32_t members, uint32_t min)
{
    places = members;
    cluster_new(cluster, members, seed);
    cluster->min = min;
    snprintf(directory, sizeof directory, "%s/checkpoints", cluster->dir);
    setenv("SPOTNIK_CHECKPOINT", directory, 1);
}

static void lives_under_churn(int argc, char **argv, uint64_t lives, uint64_t seed)
{
    static struct cluster cluster;
    char bytes[32];
    uint64_t steps = 0;

    snprintf(bytes, sizeof bytes, "%" PRIu64, cluster_argument(argc, argv, "mib", 36) << 20);
    begin(&cluster, seed, 4, 2);
    /* in less than it takes to write one, most would be left out */
    setenv("SPOTNIK_CHECKPOINT_STEPS", "100", 1);
    cluster_use(&cluster, argv[1], "-c", "5000", "-n", "10000", "-b", "320", "-u", "2000", "-D",
                "-S", bytes, NULL);
    for (uint64_t life = 0; life < lives; life++) {
        uint64_t step = live_and_die(&cluster, life == 2);

        printf("life %" PRIu64 ": %" PRIu64 " steps, goes on from step %" PRIu64 "%s\n", life,
               cluster.step_highest, step,
               life == 2 ? ", the one before the newest, which was torn" : "");
        steps += cluster.step_highest - step;
        expect_resumed(&cluster, step);
    }
    write_under_churn(&cluster);
    for (int i = 0; i < 3; i++) { /* in a row: it has hardly gone on */
        struct spotnik_checkpoint_store_entry entry;

        kill_all(&cluster);
        expect_resumed(&cluster, newest(&entry));
    }
    finish(&cluster);
    printf("%u kills, %u starts, %" PRIu64 " steps done twice\n", cluster.kills, cluster.started,
           steps);
    cluster_free(&cluster);
}

/* Two members add in one order only, so the bits do not depend on who stands where. Returns the
 * last digest. */
static uint64_t pair(char *worker, uint64_t seed, uint64_t deaths)
{
    static struct cluster cluster;

    begin(&cluster, seed, 2, 2);
    cluster_use(&cluster, worker, "-c", "3000", "-n", "5000", "-b", "64", "-u", "500", "-s", "405",
                NULL);
    for (uint64_t i = 0; i < deaths; i++) {
        struct spotnik_checkpoint_store_entry entry;

        refill(&cluster);
        step_wanted = 60 * (i + 1);
        cluster_until(&cluster, is_further, "steps of a pair", PATIENCE_MS);
        cluster_spend(&cluster, spotnik_prng_below(&cluster.prng, 30 * SPOTNIK_MS));
        kill_all(&cluster);
        cluster.step_highest = newest(&entry);
        /* digests are kept: steps done twice must give the same bits */
    }
    refill(&cluster);
    cluster_until(&cluster, cluster_is_over, "the pair to finish", PATIENCE_MS);
    cluster_expect_end(&cluster, 0);
    uint64_t digest = cluster.worker[0].digest, step = cluster.worker[0].step;

    struct spotnik_checkpoint_store_entry last;

    if (step != 405 || newest(&last) != 405)
        cluster_fail(&cluster,
                     "the pair ended at step %" PRIu64 ", its last checkpoint is after %" PRIu64,
                     step, newest(&last));
    cluster_free(&cluster);
    return digest;
}

/* Without a number of steps the members agree on a boundary by the directory alone. */
static void by_time(char *worker, uint64_t seed)
{
    static struct cluster cluster;
    struct spotnik_checkpoint_store_entry entry;

    unsetenv("SPOTNIK_CHECKPOINT_STEPS");
    setenv("SPOTNIK_CHECKPOINT_S", "1", 1);
    begin(&cluster, seed, 3, 3);
    cluster_use(&cluster, worker, "-c", "3000", "-n", "5000", "-b", "64", "-u", "2000", "-D", "-S",
                "40000000", NULL);
    refill(&cluster);
    for (int i = 0; i < 2; i++) {
        checkpoint_wanted = cluster.step_highest + 1;
        cluster_until(&cluster, has_checkpoint, "a complete checkpoint by time", PATIENCE_MS);
    }
    kill_all(&cluster);
    uint64_t step = newest(&entry);

    expect_resumed(&cluster, step);
    finish(&cluster);
    printf("by time: two checkpoints of three members, goes on from step %" PRIu64 "\n", step);
    cluster_free(&cluster);
}

/* ---- forgeries ---- */

/* All of a signed checkpoint under the name of a later one. */
static void move(struct cluster *cluster, const struct spotnik_checkpoint_store_entry *entry)
{
    char later[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], command[1500];

    spotnik_checkpoint_store_entry_name(entry->step + 1000, entry->founding, later);
    snprintf(command, sizeof command, "cp -r '%s/%s' '%s/%s'", directory, entry->name, directory,
             later);
    if (system(command))
        cluster_fail(cluster, "cannot move a checkpoint");
}

/* Its manifest anew, as any user can make it. */
static void forge(struct cluster *cluster, const char *entry)
{
    static const struct spotnik_signer none;
    static struct spotnik_manifest manifest;
    char *text = NULL;
    size_t size = 0;

    if (spotnik_checkpoint_look_at(directory, entry, &none, &manifest))
        cluster_fail(cluster, "%s: %s", entry, spotnik_last_error());
    for (uint32_t i = 0; i < manifest.part_count; i++)
        strcpy(manifest.part[i].digest, "0123456789abcdef");
    strcpy(manifest.blobs.digest, "0123456789abcdef");
    if (spotnik_manifest_write(&manifest, &manifest.schema, &none, entry, &text, &size)
        || spotnik_checkpoint_store_put(directory, entry, SPOTNIK_MANIFEST_NAME, 1, text, size))
        cluster_fail(cluster, "cannot forge %s: %s", entry, spotnik_last_error());
    free(text);
    spotnik_manifest_done(&manifest);
}

/* A founder of a new life, by other records, must refuse with these words. */
static void expect_refused(struct cluster *cluster, const char *key, const char *name,
                           const char *why)
{
    char peers[300], spec[320], text[1024], error[32];

    snprintf(peers, sizeof peers, "%.200s/%s", cluster->dir, name);
    snprintf(spec, sizeof spec, "file:%s", peers);
    if (spotnik_discovery_fresh(peers))
        cluster_fail(cluster, "cannot make %s", peers);
    probe_told(cluster, key, "e2e", spec, text, sizeof text);
    snprintf(error, sizeof error, "\nerror %d ", SPOTNIK_ERR_CHECKPOINT);
    if (!strstr(text, error) || !strstr(text, why) || strstr(text, "\ncommit "))
        cluster_fail(cluster, "a founder said \"%s\", not \"%s\"", text, why);
}

static void forgeries(char *worker, uint64_t seed)
{
    static struct cluster cluster;
    struct spotnik_checkpoint_store_entry entry;
    char other[300];

    begin(&cluster, seed, 2, 2);
    cluster_use(&cluster, worker, "-c", "3000", "-n", "5000", "-b", "64", "-u", "500", NULL);
    refill(&cluster);
    checkpoint_wanted = 40;
    cluster_until(&cluster, has_checkpoint, "a complete checkpoint", PATIENCE_MS);
    kill_all(&cluster);
    uint64_t step = newest(&entry);

    move(&cluster, &entry);
    if (spotnik_key_rotate(cluster.key))
        cluster_fail(&cluster, "the key cannot be rotated: %s", spotnik_last_error());
    expect_resumed(&cluster, step);
    kill_all(&cluster);
    step = newest(&entry);
    snprintf(other, sizeof other, "%.200s/other", cluster.dir);
    if (spotnik_key_create(other))
        cluster_fail(&cluster, "no key: %s", spotnik_last_error());
    expect_refused(&cluster, other, "peers-other", "is signed by key");
    forge(&cluster, entry.name);
    expect_refused(&cluster, cluster.key, "peers-forged", "is not signed");
    if (newest(&entry) != step)
        cluster_fail(&cluster, "a checkpoint that was refused is gone");
    puts("a moved checkpoint is passed over; one of the key before is taken; a forged one, and "
         "another "
         "key's, are refused");
    cluster_free(&cluster);
}

int main(int argc, char **argv)
{
    uint64_t seed = cluster_argument(argc, argv, "seed", 1);
    char every[32];

    if (argc < 2)
        return 2;
    snprintf(every, sizeof every, "%" PRIu64, cluster_argument(argc, argv, "every", 20));
    setenv("SPOTNIK_CHECKPOINT_STEPS", every, 1);
    uint64_t lives = cluster_argument(argc, argv, "lives", 5);
    if (lives)
        lives_under_churn(argc, argv, lives, seed);
    if (cluster_argument(argc, argv, "forged", 1))
        forgeries(argv[1], seed);
    if (!cluster_argument(argc, argv, "bits", 1))
        return 0;
    setenv("SPOTNIK_CHECKPOINT_STEPS", every, 1);
    uint64_t undisturbed = pair(argv[1], seed, 0), disturbed = pair(argv[1], seed + 1, 4);

    printf("a pair after 405 steps: %016" PRIx64 " undisturbed, %016" PRIx64
           " with 4 total losses\n",
           undisturbed, disturbed);
    if (undisturbed != disturbed) {
        puts("FAILED: total losses have changed what was trained");
        return 1;
    }
    by_time(argv[1], seed);
    return 0;
}
