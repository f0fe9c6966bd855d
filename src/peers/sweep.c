/* SPDX-License-Identifier: Apache-2.0 */
/* What the dead leave in the directory: while a job lives nobody searches so far that it meets them, so its members
 * take away, now and then, records that nobody has refreshed for long and whose process is proven gone, and half a
 * record that a killed process was writing. Decides nothing about the job. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/time.h"
#include "net/address.h"
#include "peers/inside.h"

#define SWEEP_NS (2 * SPOTNIK_S) /* for one sweep: our own record must stay fresh */

/* A record that is alive is refreshed every second. */
static bool is_old(const struct stat *own, const struct stat *facts)
{
    return own->st_mtim.tv_sec - facts->st_mtim.tv_sec >= SPOTNIK_PEERS_STALE_S;
}

/* Nobody listens there, or somebody else does. Loopback of another host is not ours to judge. */
static bool is_gone(const struct spotnik_credentials *self, const struct spotnik_member *member)
{
    struct spotnik_answer answer;
    bool refused;
    if (member->host != self->self.host && spotnik_address_is_loopback(member->address))
        return false;
    if (spotnik_net_ask(self, member->address, member->port, SPOTNIK_PEERS_ASK_NS, &answer, &refused) == 0)
        return !spotnik_id_equal(answer.self.id, member->id);
    return refused;
}

static void consider(const struct spotnik_credentials *self, const char *directory, const char *name,
                     const struct stat *own)
{
    struct spotnik_record record;
    struct stat facts;
    char path[PATH_MAX + NAME_MAX + 2];
    bool readable, whole = strncmp(name, "member-", 7) == 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    if ((!whole && strncmp(name, ".member-", 8) != 0) || stat(path, &facts) != 0 || !is_old(own, &facts))
        return;
    if (!whole || (spotnik_record_read(self, directory, name, &record, &readable) == 0 && is_gone(self, &record.member)))
        unlink(path);
}

void spotnik_peers_sweep(struct spotnik_peers *peers, const struct spotnik_credentials *self)
{
    uint64_t until_ns = spotnik_peers_clock_ns() + SWEEP_NS;
    char name[64], path[PATH_MAX];
    struct stat own; /* the file server stamps all of them; clocks differ */
    spotnik_record_name(self->self.id, name);
    snprintf(path, sizeof path, "%s/%s", peers->spec.directory, name);
    DIR *directory = stat(path, &own) == 0 ? opendir(peers->spec.directory) : NULL;
    if (directory == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL && spotnik_peers_clock_ns() < until_ns;)
        consider(self, peers->spec.directory, entry->d_name, &own);
    closedir(directory);
}
