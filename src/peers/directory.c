/* SPDX-License-Identifier: Apache-2.0 */
/* One round of the search in a directory. Whoever makes genesis-<n> founds the job for the n-th time; all
 * others join by any member whose record lies there. n + 1 follows only when every process that n can have
 * had is proven dead. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "net/address.h"
#include "peers/inside.h"

/* Rounds in which everybody was dead before a new generation is founded: a member may be entering a view
 * right now, on the word of one that has just died. */
#define QUIET_ROUNDS 3

struct listing {
    uint64_t generation; /* highest genesis-<n>; 0: none */
    uint32_t count;
    struct spotnik_record record[SPOTNIK_PEERS_RECORDS_MAX];
};

static bool generation_parse(const char *name, uint64_t *ret)
{
    char *end;
    if (strncmp(name, "genesis-", 8) != 0 || name[8] < '1' || name[8] > '9')
        return false;
    *ret = strtoull(name + 8, &end, 10);
    return *end == '\0';
}

static void listing_add(const struct spotnik_peers_search *search, const char *name, struct listing *listing)
{
    const char *directory = search->peers->spec.directory;
    uint64_t generation;
    bool readable;
    if (generation_parse(name, &generation)) {
        if (generation > listing->generation)
            listing->generation = generation;
    } else if (strncmp(name, "member-", 7) == 0 && listing->count < SPOTNIK_PEERS_RECORDS_MAX) {
        if (spotnik_record_read(&search->self, directory, name, &listing->record[listing->count], &readable)
            == 0)
            listing->count++;
    }
}

static int by_age(const void *a, const void *b)
{
    const struct timespec *left = &((const struct spotnik_record *)a)->written;
    const struct timespec *right = &((const struct spotnik_record *)b)->written;
    if (left->tv_sec != right->tv_sec)
        return left->tv_sec > right->tv_sec ? -1 : 1;
    return left->tv_nsec > right->tv_nsec ? -1 : left->tv_nsec < right->tv_nsec;
}

/* Freshest first. */
static int listing_read(struct spotnik_peers_search *search, struct listing *listing)
{
    DIR *directory = opendir(search->peers->spec.directory);
    listing->generation = listing->count = 0;
    if (directory == NULL)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read the peers directory %s: %m",
                                    search->peers->spec.directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        listing_add(search, entry->d_name, listing);
    closedir(directory);
    qsort(listing->record, listing->count, sizeof *listing->record, by_age);
    return 0;
}

static void genesis_name(uint64_t generation, char name[64])
{
    snprintf(name, 64, "genesis-%llu", (unsigned long long)generation);
}

/* Try to found generation n: the file system lets only one succeed. */
static enum spotnik_peers_round found(struct spotnik_peers_search *search, uint64_t generation)
{
    char name[64];
    genesis_name(generation, name);
    int rc = spotnik_record_write(&search->self, search->peers->spec.directory, name, true);
    if (rc == 0)
        return SPOTNIK_PEERS_FOUND;
    if (rc == -EEXIST)
        return SPOTNIK_PEERS_AGAIN;
    errno = -rc;
    search->error = spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot write %s/%s: %m",
                                         search->peers->spec.directory, name);
    return SPOTNIK_PEERS_ERROR;
}

/* Age is counted against the freshest record, not our clock: the file server stamps them all, and clocks
 * step. */
static void stale_remove(struct spotnik_peers_search *search, const struct listing *listing,
                         const struct spotnik_record *record)
{
    char name[64], path[PATH_MAX];
    if (listing->record[0].written.tv_sec - record->written.tv_sec < SPOTNIK_PEERS_STALE_S)
        return;
    spotnik_record_name(record->member.id, name);
    snprintf(path, sizeof path, "%s/%s", search->peers->spec.directory, name);
    unlink(path);
}

/* Is this process dead, for all we can know? Loopback of another host is not ours to judge. */
static bool proven_dead(struct spotnik_peers_search *search, const struct spotnik_member *member,
                        enum spotnik_peers_reply reply)
{
    if (reply != SPOTNIK_PEERS_REPLY_GONE)
        return reply == SPOTNIK_PEERS_REPLY_IDLE; /* in no view: it cannot hold this job */
    if (member->host == search->self.self.host || !spotnik_address_is_loopback(member->address))
        return true;
    spotnik_peers_say(search,
                      "a member on another host listens on a loopback address; set SPOTNIK_BIND there");
    return false;
}

/* The founder of the newest generation, from its genesis file. */
static int founder_read(struct spotnik_peers_search *search, uint64_t generation,
                        struct spotnik_record *ret_founder)
{
    char name[64];
    bool readable;
    const char *directory = search->peers->spec.directory;
    genesis_name(generation, name);
    int rc = spotnik_record_read(&search->self, directory, name, ret_founder, &readable);
    if (rc == 0)
        return 0;
    if (!readable)
        return SPOTNIK_ERR_PEERS; /* taken away just now, or the file system has not caught up */
    const char *why = rc == SPOTNIK_ERR_JOB   ? "belongs to another job: give each job its own directory"
                      : rc == SPOTNIK_ERR_KEY ? "is signed with another job key"
                                              : "is damaged: delete it if no job is running";
    spotnik_error_set("%s/%s %s", directory, name, why);
    search->error = rc == SPOTNIK_ERR_ARGUMENT ? SPOTNIK_ERR_SYSTEM : rc;
    return search->error;
}

/* Ask everybody who left a record. True: *search->sponsor is in a view. */
static bool members_ask(struct spotnik_peers_search *search, const struct listing *listing,
                        bool *ret_all_dead)
{
    for (uint32_t i = 0; i < listing->count; i++) {
        const struct spotnik_member *member = &listing->record[i].member;
        struct spotnik_answer answer;
        if (spotnik_id_equal(member->id, search->self.self.id))
            continue;
        enum spotnik_peers_reply reply = spotnik_peers_ask(search, member, &answer);
        if (reply == SPOTNIK_PEERS_REPLY_IN_VIEW) {
            search->sponsor = answer.self;
            return true;
        }
        if (reply == SPOTNIK_PEERS_REPLY_GONE)
            stale_remove(search, listing, &listing->record[i]);
        *ret_all_dead &= proven_dead(search, member, reply);
    }
    return false;
}

static enum spotnik_peers_round generation_judge(struct spotnik_peers_search *search,
                                                 const struct listing *listing)
{
    struct spotnik_record founder;
    struct spotnik_answer answer;
    bool all_dead = true;
    int rc = founder_read(search, listing->generation, &founder);
    if (rc != 0)
        return rc == SPOTNIK_ERR_PEERS ? SPOTNIK_PEERS_AGAIN : SPOTNIK_PEERS_ERROR;
    bool ours = spotnik_id_equal(founder.member.id, search->self.self.id);
    if (ours && search->may_found)
        return SPOTNIK_PEERS_FOUND;
    /* The founder first: whoever still enters by it does so before the others are asked. A founder that
     * the others went on without asks only them. */
    enum spotnik_peers_reply reply = SPOTNIK_PEERS_REPLY_IDLE;
    if (!ours)
        reply = spotnik_peers_ask(search, &founder.member, &answer);
    if (reply == SPOTNIK_PEERS_REPLY_IN_VIEW) {
        search->sponsor = answer.self;
        return SPOTNIK_PEERS_JOIN;
    }
    /* A founder that lives and is in no view is about to found. */
    all_dead = reply == SPOTNIK_PEERS_REPLY_GONE && proven_dead(search, &founder.member, reply);
    if (members_ask(search, listing, &all_dead))
        return SPOTNIK_PEERS_JOIN;
    search->quiet = all_dead ? search->quiet + 1 : 0;
    if (!search->may_found || search->quiet < QUIET_ROUNDS)
        return SPOTNIK_PEERS_AGAIN;
    return found(search, listing->generation + 1);
}

enum spotnik_peers_round spotnik_peers_directory_round(struct spotnik_peers_search *search)
{
    struct listing *listing = malloc(sizeof *listing);
    enum spotnik_peers_round round;
    search->error = listing == NULL ? SPOTNIK_ERR_MEMORY : listing_read(search, listing);
    if (search->error != 0)
        round = SPOTNIK_PEERS_ERROR;
    else if (listing->generation > 0)
        round = generation_judge(search, listing);
    else if (search->may_found)
        round = found(search, 1);
    else
        round = SPOTNIK_PEERS_AGAIN;
    free(listing);
    return round;
}
