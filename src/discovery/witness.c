/* SPDX-License-Identifier: Apache-2.0 */
/* The witness of a lineage: an empty file in its directory that decides exact ties
 * (docs/design/0014-ties.md). Its name says for which epoch it names which member. The
 * founder makes it before any other process knows of the founding. From then on only the member
 * that the new name names moves it, to a later epoch. So no two members ever have it for one epoch.
 * Opening the new name shows the winner: the result of rename() may be lost at a file server, and a
 * listing may be old. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/thread.h"
#include "discovery/inside.h"

#define PREFIX_BYTES 32

/* On these file systems rename() is atomic for all machines that mount the folder. */
static const unsigned long kinds[] = {
    0xEF53,     /* ext2 to ext4 */
    0x58465342, /* XFS */
    0x9123683E, /* Btrfs */
    0x2FC12FC1, /* ZFS */
    0xF2F52010, /* F2FS */
    0x6969,     /* NFS */
    0x0BD00BD0, /* Lustre */
    0x00C36400, /* CephFS */
    0x47504653, /* GPFS */
    0x19830326, /* BeeGFS */
    0x01161970, /* GFS2 */
    0x7461636F, /* OCFS2 */
    0x01021994, /* tmpfs */
    0x794C7630, /* overlay */
};

static bool is_of_a_known_kind(const char *directory)
{
    struct statfs facts;
    if (statfs(directory, &facts) != 0)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (((unsigned long)facts.f_type & 0xFFFFFFFF) == kinds[i])
            return true;
    return false;
}

static void prefix_make(uint64_t founding, char prefix[PREFIX_BYTES])
{
    snprintf(prefix, PREFIX_BYTES, "witness-%016llx.", (unsigned long long)founding);
}

static void path_make(const char *directory, uint64_t founding, uint64_t epoch,
                      struct spotnik_id id, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/witness-%016llx.%llu.%016llx%016llx", directory,
             (unsigned long long)founding, (unsigned long long)epoch, (unsigned long long)id.high,
             (unsigned long long)id.low);
}

static bool is_there(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void directory_sync(const char *directory)
{
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd); /* a machine that dies loses an unwritten name */
    close(fd);
}

static bool create(const char *directory, uint64_t founding, struct spotnik_id founder)
{
    char path[PATH_MAX];
    path_make(directory, founding, 0, founder, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return false;
    close(fd);
    directory_sync(directory);
    return true;
}

bool spotnik_witness_offer(struct spotnik_discovery *discovery, struct spotnik_founding *founding)
{
    bool first = founding->root == founding->id;
    const char *directory = discovery->spec.directory;
    if ((!discovery->witness && !is_of_a_known_kind(directory))
        || !create(directory, founding->id | 1, spotnik_runtime_id(discovery->runtime)))
        return false;
    founding->id |= 1;
    if (first)
        founding->root = founding->id;
    return true;
}

/* "witness-<founding>.<epoch>.<member>" of this founding: its epoch. */
static bool epoch_of(const char *name, const char *prefix, uint64_t *ret_epoch)
{
    size_t size = strlen(prefix);
    char *end;
    if (strncmp(name, prefix, size) != 0)
        return false;
    *ret_epoch = strtoull(name + size, &end, 10);
    return end > name + size && *end == '.';
}

static void each_named(const char *directory, uint64_t founding,
                       void (*do_it)(const char *path, uint64_t epoch, void *context),
                       void *context)
{
    char prefix[PREFIX_BYTES], path[PATH_MAX + NAME_MAX + 2];
    uint64_t epoch;
    prefix_make(founding, prefix);
    DIR *files = opendir(directory);
    if (files == NULL)
        return;
    for (const struct dirent *entry; (entry = readdir(files)) != NULL;)
        if (epoch_of(entry->d_name, prefix, &epoch)) {
            snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
            do_it(path, epoch, context);
        }
    closedir(files);
}

struct move {
    const char *to;
    uint64_t epoch;
};

static void move_on(const char *path, uint64_t epoch, void *context)
{
    const struct move *move = context;
    if (epoch < move->epoch && rename(path, move->to) != 0)
        errno = 0; /* somebody was first, or the answer was lost: the open will tell */
}

bool spotnik_witness_take(const char *directory, uint64_t founding, uint64_t epoch,
                          struct spotnik_id self)
{
    char target[PATH_MAX];
    path_make(directory, founding, epoch, self, target);
    if (is_there(target))
        return true;
    each_named(directory, founding, move_on, &(struct move){ .to = target, .epoch = epoch });
    directory_sync(directory);
    return is_there(target);
}

static void take_away(const char *path, uint64_t epoch, void *context)
{
    (void)epoch, (void)context;
    unlink(path);
}

void spotnik_witness_remove(const char *directory, uint64_t founding)
{
    if (founding & 1)
        each_named(directory, founding, take_away, NULL);
}

/* ---- the thread that answers ---- */

static void *witness_main(void *context)
{
    struct spotnik_discovery *discovery = context;
    struct spotnik_tie tie;
    while (spotnik_runtime_tie_wait(discovery->runtime, &tie))
        spotnik_runtime_tie_tell(discovery->runtime, &tie,
                                 spotnik_witness_take(discovery->spec.directory, tie.founding,
                                                      tie.epoch, tie.self));
    return NULL;
}

int spotnik_witness_start(struct spotnik_discovery *discovery)
{
    spotnik_runtime_tie_close(discovery->runtime, false);
    int rc = spotnik_thread_create(&discovery->witness_thread, witness_main, discovery);
    discovery->witnessing = rc == 0;
    return rc;
}

void spotnik_witness_stop(struct spotnik_discovery *discovery)
{
    if (!discovery->witnessing)
        return;
    spotnik_runtime_tie_close(discovery->runtime, true);
    pthread_join(discovery->witness_thread, NULL);
    discovery->witnessing = false;
}
