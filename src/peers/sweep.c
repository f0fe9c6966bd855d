/* SPDX-License-Identifier: Apache-2.0 */
/* The leftovers of dead processes in the directory. While a job lives no search meets them, so its
 * members now and then remove them. They are records that nobody has refreshed for long and whose
 * process does not answer; and half a record that a killed process was writing. The record of our
 * founder stays: that it is there shows newcomers that no cleaner was. A live member puts its
 * record back at once, so that this decides nothing about the job. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "peers/inside.h"

#define SWEEP_NS (2 * SPOTNIK_S) /* for one sweep: our own record must stay fresh */

struct broom {
    struct spotnik_peers *peers;
    const struct spotnik_credentials *self;
    struct spotnik_id founder;
    struct stat own; /* of our record: the file server stamps all of them; clocks differ */
};

static bool is_old(const struct broom *broom, const struct stat *facts, uint64_t age_ns)
{
    return broom->own.st_mtim.tv_sec - facts->st_mtim.tv_sec >= (int64_t)(age_ns / SPOTNIK_S);
}

static bool is_gone(const struct broom *broom, const struct spotnik_record *record,
                    const struct stat *facts)
{
    struct spotnik_answer answer;
    enum spotnik_liveness life = spotnik_process_life(&record->process);
    if (spotnik_id_equal(record->member.id, broom->founder))
        return false;
    if (life != SPOTNIK_LIFE_UNKNOWN)
        return life == SPOTNIK_LIFE_ENDED;
    return is_old(broom, facts, 2 * broom->peers->times.stale_ns)
           && (spotnik_net_ask(broom->self, record->member.address, record->member.port,
                               SPOTNIK_PEERS_ASK_NS, &answer, NULL)
                   != 0
               || !spotnik_id_equal(answer.self.id, record->member.id));
}

static void consider(const struct broom *broom, const char *name)
{
    const char *directory = broom->peers->spec.directory;
    struct spotnik_record record;
    struct stat facts;
    char path[PATH_MAX + NAME_MAX + 2];
    uint64_t print;
    bool whole = strncmp(name, "member-", 7) == 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if ((!whole && strncmp(name, ".member-", 8) != 0) || lstat(path, &facts) != 0
        || !S_ISREG(facts.st_mode) || !is_old(broom, &facts, SPOTNIK_PEERS_SWEEP_S * SPOTNIK_S))
        return;
    if (!whole
        || (spotnik_record_read(broom->self, directory, name, &record, &print, NULL)
                == SPOTNIK_READING_RECORD
            && is_gone(broom, &record, &facts)))
        unlink(path);
}

void spotnik_peers_sweep(struct spotnik_peers *peers, const struct spotnik_credentials *self)
{
    uint64_t until_ns = spotnik_peers_clock_ns() + SWEEP_NS;
    char name[64], path[PATH_MAX];
    struct broom broom = { .peers = peers, .self = self };
    pthread_mutex_lock(&peers->lock);
    broom.founder = peers->founder;
    pthread_mutex_unlock(&peers->lock);
    spotnik_record_name(self->self.id, name);
    snprintf(path, sizeof path, "%s/%s", peers->spec.directory, name);
    DIR *directory = stat(path, &broom.own) == 0 ? opendir(peers->spec.directory) : NULL;
    if (directory == NULL)
        return;
    for (const struct dirent *entry;
         (entry = readdir(directory)) != NULL && spotnik_peers_clock_ns() < until_ns;)
        consider(&broom, entry->d_name);
    closedir(directory);
}
