/* SPDX-License-Identifier: Apache-2.0 */
/* Directories of checkpoints: names, order, and which is due. */
#include "checkpoint/checkpoint_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "spotnik/spotnik.h"
#include "checkpoint/manifest.h"

#define SKIPPED "skipped-"
#define MINORITY "minority-"

static int directory_sync(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* some network file systems cannot, and need not */
    int rc = fd < 0 || (fsync(fd) && errno != EINVAL);

    if (fd >= 0)
        close(fd);
    return rc ? spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                     "cannot write the directory %s to the disk: %m", path)
              : 0;
}

static int directory_make(const char *path, const char *parent)
{
    if (mkdir(path, 0700) == 0)
        return directory_sync(parent);
    return errno == EEXIST ? 0 : SPOTNIK_ERR_SYSTEM;
}

int spotnik_checkpoint_store_open(const char *dir)
{
    char parent[PATH_MAX];

    snprintf(parent, sizeof parent, "%s/..", dir);
    if (directory_make(dir, parent) || access(dir, R_OK | W_OK | X_OK))
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "cannot use the checkpoint directory %s: %m; it must be writable for all members", dir);
    return 0;
}

void spotnik_checkpoint_store_entry_name(uint64_t step, uint64_t founding,
                                         char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    snprintf(ret_name, SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1, "step-%012llu-%016llx",
             (unsigned long long)step, (unsigned long long)founding);
}

void spotnik_checkpoint_store_minority_name(uint64_t step, uint64_t digest,
                                            char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    memcpy(ret_name, MINORITY, sizeof MINORITY);
    snprintf(ret_name + strlen(MINORITY), SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1 - strlen(MINORITY),
             "step-%012llu-%016llx", (unsigned long long)step, (unsigned long long)digest);
}

static bool name_parse(const char *name, const char *prefix,
                       struct spotnik_checkpoint_store_entry *ret)
{
    size_t length = strlen(prefix);
    unsigned long long step, founding;

    if (strncmp(name, prefix, length) || strlen(name) > SPOTNIK_CHECKPOINT_STORE_NAME_MAX
        || sscanf(name + length, "step-%llu-%llx", &step, &founding) != 2)
        return false;
    memset(ret, 0, sizeof *ret);
    ret->step = step;
    ret->founding = founding;
    spotnik_checkpoint_store_entry_name(step, founding, ret->name);
    bool ours = !strcmp(ret->name, name + length); /* and no other: it may be deleted one day */

    strcpy(ret->name, name);
    return ours;
}

static int by_age(const void *a, const void *b)
{
    const struct spotnik_checkpoint_store_entry *left = a, *right = b;

    if (left->step != right->step)
        return left->step > right->step ? -1 : 1;
    if (left->written_s != right->written_s)
        return left->written_s > right->written_s ? -1 : 1;
    return strcmp(left->name, right->name);
}

/* One that cannot be looked at is not taken for one that was never completed: a job would begin
 * anew over it, or prune it. */
static int written_find(const char *dir, struct spotnik_checkpoint_store_entry *entry)
{
    char path[PATH_MAX];
    struct stat facts;

    snprintf(path, sizeof path, "%s/%s/" SPOTNIK_MANIFEST_NAME, dir, entry->name);
    if (stat(path, &facts) == 0)
        entry->written_s = facts.st_mtim.tv_sec > 0 ? facts.st_mtim.tv_sec : 1;
    else if (errno != ENOENT && errno != ENOTDIR)
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "cannot look at %s: %m; all members must be able to read the checkpoints (one user, or "
            "a group of their own), and the file server must answer",
            path);
    return 0;
}

static int list_add(struct spotnik_checkpoint_store_list *list, const char *dir,
                    const struct spotnik_checkpoint_store_entry *entry)
{
    struct spotnik_checkpoint_store_entry *grown =
        realloc(list->entry, (list->count + 1) * sizeof *grown);

    if (!grown)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the list of checkpoints");
    list->entry = grown;
    grown[list->count] = *entry;
    return written_find(dir, &grown[list->count++]);
}

static int list(const char *dir, const char *prefix, struct spotnik_checkpoint_store_list *ret)
{
    DIR *directory = opendir(dir);
    struct spotnik_checkpoint_store_entry entry;
    int rc = 0;

    memset(ret, 0, sizeof *ret);
    if (!directory)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot read the checkpoint directory %s: %m", dir);
    const struct dirent *at;

    while (!rc && (errno = 0, at = readdir(directory)) != NULL)
        if (name_parse(at->d_name, prefix, &entry))
            rc = list_add(ret, dir, &entry);
    if (!rc && errno)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                  "the list of the checkpoint directory %s breaks off: %m", dir);
    closedir(directory);
    if (rc)
        spotnik_checkpoint_store_list_done(ret);
    else if (ret->count)
        qsort(ret->entry, ret->count, sizeof *ret->entry, by_age);
    return rc;
}

int spotnik_checkpoint_store_list(const char *dir, struct spotnik_checkpoint_store_list *ret)
{
    return list(dir, "", ret);
}

int spotnik_checkpoint_store_list_minority(const char *dir,
                                           struct spotnik_checkpoint_store_list *ret)
{
    return list(dir, MINORITY, ret);
}

void spotnik_checkpoint_store_list_done(struct spotnik_checkpoint_store_list *list)
{
    free(list->entry);
    memset(list, 0, sizeof *list);
}

int spotnik_checkpoint_store_entry_make(const char *dir, const char *entry)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", dir, entry);
    int rc = directory_make(path, dir);
    if (rc && errno == ENOENT && !spotnik_checkpoint_store_open(dir)) /* somebody has tidied up */
        rc = directory_make(path, dir);
    return rc ? spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make %s: %m", path) : 0;
}

/* ---- what is out of the way ---- */

void spotnik_checkpoint_store_set_aside(const char *dir, const char *entry)
{
    char from[PATH_MAX], to[PATH_MAX];

    snprintf(from, sizeof from, "%s/%s", dir, entry);
    snprintf(to, sizeof to, "%s/" SKIPPED "%s", dir, entry);
    if (rename(from, to) == 0)
        directory_sync(dir);
}

/* An empty file. Another member may have made it before: that is success, too. */
static int empty_make(const char *path, const char *dir, bool *ret_made)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    *ret_made = fd >= 0;
    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot write to the checkpoint directory %s: %m", dir);
    return 0;
}

/* ---- when the next is due ---- */

static void due_name(uint64_t founding, uint64_t step,
                     char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    snprintf(ret_name, SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1, "due-%016llx-%llu",
             (unsigned long long)founding, (unsigned long long)step);
}

/* Nothing but a name of ours: it is removed one day. */
static bool due_parse(const char *name, uint64_t founding, uint64_t *ret_step)
{
    char same[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    unsigned long long of, step;

    if (sscanf(name, "due-%llx-%llu", &of, &step) != 2 || of != founding)
        return false;
    *ret_step = step;
    due_name(of, step, same);
    return !strcmp(same, name);
}

/* The highest step that is due; those of this founding up to `remove_to` are taken away. */
static uint64_t due_walk(const char *dir, uint64_t founding, uint64_t remove_to)
{
    DIR *directory = opendir(dir);
    uint64_t step, latest = 0;
    char path[PATH_MAX];

    if (!directory)
        return 0;
    for (const struct dirent *at; (at = readdir(directory)) != NULL;) {
        if (!due_parse(at->d_name, founding, &step))
            continue;
        latest = step > latest ? step : latest;
        snprintf(path, sizeof path, "%s/%s", dir, at->d_name);
        if (step <= remove_to)
            unlink(path);
    }
    closedir(directory);
    return latest;
}

int spotnik_checkpoint_store_due_set(const char *dir, uint64_t founding, uint64_t step)
{
    char path[PATH_MAX], name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    bool made;

    due_walk(dir, founding, step - 1);
    due_name(founding, step, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return empty_make(path, dir, &made);
}

uint64_t spotnik_checkpoint_store_due(const char *dir, uint64_t founding)
{
    return due_walk(dir, founding, 0);
}

/* ---- what a founding goes back to ---- */

static int mark_make(const char *path, const char *dir)
{
    bool made;
    int rc = empty_make(path, dir, &made);

    return rc == 0 && made ? directory_sync(dir) : rc;
}

static void root_path(const char *dir, uint64_t founding, uint64_t root, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/root-%016llx-of-%016llx", dir, (unsigned long long)root,
             (unsigned long long)founding);
}

void spotnik_checkpoint_store_root_set(const char *dir, uint64_t founding, uint64_t root)
{
    char path[PATH_MAX];

    root_path(dir, founding, root, path);
    (void)mark_make(path, dir);
}

uint64_t spotnik_checkpoint_store_root(const char *dir, uint64_t founding)
{
    DIR *directory = opendir(dir);
    unsigned long long root, of, found = 0;

    if (!directory)
        return 0;
    for (const struct dirent *at; (at = readdir(directory)) != NULL;)
        if (sscanf(at->d_name, "root-%16llx-of-%16llx", &root, &of) == 2 && of == founding)
            found = root;
    closedir(directory);
    return found;
}

bool spotnik_checkpoint_store_is_of(const char *dir, uint64_t founding, uint64_t root)
{
    struct stat facts;
    char path[PATH_MAX];

    root_path(dir, founding, root, path);
    return lstat(path, &facts) == 0;
}
