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
#include "checkpoint/checkpoint_bucket.h"
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

    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_open(dir);
    snprintf(parent, sizeof parent, "%s/..", dir);
    if (directory_make(dir, parent) || access(dir, R_OK | W_OK | X_OK))
        return spotnik_error_return(
            SPOTNIK_ERR_SYSTEM,
            "cannot use the checkpoint directory %s: %m; it must be writable for all members", dir);
    return 0;
}

/* ---- names ---- */

static void size_find(DIR *directory, struct spotnik_object *object)
{
    struct stat facts;

    if (fstatat(dirfd(directory), object->name, &facts, AT_SYMLINK_NOFOLLOW) == 0
        && S_ISREG(facts.st_mode))
        object->size = (uint64_t)facts.st_size;
}

/* Names in the folder `path` that begin with `prefix`, without it. */
static int folder_walk(const char *path, const char *prefix,
                       int (*each)(void *context, const struct spotnik_object *object),
                       void *context)
{
    DIR *directory = opendir(path);
    size_t length = strlen(prefix);
    const struct dirent *at;
    int rc = 0;

    if (!directory)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot read the checkpoint directory %s: %m", path);
    while (!rc && (errno = 0, at = readdir(directory)) != NULL) {
        struct spotnik_object object = { .name = at->d_name, .size = UINT64_MAX };

        if (strncmp(at->d_name, prefix, length))
            continue;
        size_find(directory, &object);
        object.name += length;
        rc = each(context, &object);
    }
    if (!rc && errno)
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                  "the list of the checkpoint directory %s breaks off: %m", path);
    closedir(directory);
    return rc;
}

static int walk(const char *dir, const char *prefix,
                int (*each)(void *context, const struct spotnik_object *object), void *context)
{
    return spotnik_objects_is_bucket(dir)
               ? spotnik_checkpoint_bucket_walk(dir, prefix, each, context)
               : folder_walk(dir, prefix, each, context);
}

int spotnik_checkpoint_store_files(const char *dir, const char *entry,
                                   int (*each)(void *context, const struct spotnik_object *file),
                                   void *context)
{
    char path[PATH_MAX];

    if (spotnik_objects_is_bucket(dir)) {
        snprintf(path, sizeof path, "%s/", entry);
        return spotnik_checkpoint_bucket_walk(dir, path, each, context);
    }
    snprintf(path, sizeof path, "%s/%s", dir, entry);
    return folder_walk(path, "", each, context);
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
static int written_find(const char *dir, struct spotnik_checkpoint_store_entry *entry,
                        bool *ret_aside)
{
    char path[PATH_MAX];
    struct stat facts;

    *ret_aside = false; /* its name says it in a folder */
    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_written(dir, entry->name, &entry->written_s, ret_aside);
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

struct listing {
    const char *dir, *prefix;
    struct spotnik_checkpoint_store_list *list;
};

static int list_add(void *context, const struct spotnik_object *object)
{
    const struct listing *listing = context;
    struct spotnik_checkpoint_store_list *list = listing->list;
    struct spotnik_checkpoint_store_entry entry;
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 2];
    bool aside;

    snprintf(name, sizeof name, "%s", object->name);
    name[strcspn(name, "/")] = '\0'; /* so a bucket ends the names of folders */
    if (!name_parse(name, listing->prefix, &entry))
        return 0;
    int rc = written_find(listing->dir, &entry, &aside);

    if (rc || aside)
        return rc;
    struct spotnik_checkpoint_store_entry *grown =
        realloc(list->entry, (list->count + 1) * sizeof *grown);

    if (!grown)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the list of checkpoints");
    list->entry = grown;
    grown[list->count++] = entry;
    return 0;
}

static int list(const char *dir, const char *prefix, struct spotnik_checkpoint_store_list *ret)
{
    memset(ret, 0, sizeof *ret);
    int rc =
        walk(dir, "", list_add, &(struct listing){ .dir = dir, .prefix = prefix, .list = ret });

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

    if (spotnik_objects_is_bucket(dir))
        return 0; /* it has no folders */
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

    if (spotnik_objects_is_bucket(dir)) {
        spotnik_checkpoint_bucket_set_aside(dir, entry);
        return;
    }
    snprintf(from, sizeof from, "%s/%s", dir, entry);
    snprintf(to, sizeof to, "%s/" SKIPPED "%s", dir, entry);
    if (rename(from, to) == 0)
        directory_sync(dir);
}

/* An empty file of that name. Another member may have made it before: that is success, too. */
static int mark_make(const char *dir, const char *name)
{
    char path[PATH_MAX];

    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_mark(dir, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

    if (fd >= 0)
        close(fd);
    else if (errno != EEXIST)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot write to the checkpoint directory %s: %m", dir);
    return 0;
}

static void mark_remove(const char *dir, const char *name)
{
    char path[PATH_MAX];

    if (spotnik_objects_is_bucket(dir)) {
        spotnik_checkpoint_bucket_delete(dir, NULL, name);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", dir, name);
    unlink(path);
}

/* ---- when the next is due ---- */

struct due {
    const char *dir, *prefix;
    uint64_t latest, remove_to;
};

static int due_note(void *context, const struct spotnik_object *object)
{
    struct due *due = context;
    char *end, name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1], same[24];
    uint64_t step = strtoull(object->name, &end, 10);

    snprintf(same, sizeof same, "%llu", (unsigned long long)step);
    if (strcmp(same, object->name)) /* no name of ours: it would be removed one day */
        return 0;
    due->latest = step > due->latest ? step : due->latest;
    snprintf(name, sizeof name, "%s%s", due->prefix, same);
    if (step <= due->remove_to)
        mark_remove(due->dir, name);
    return 0;
}

/* The highest step that is due; those of this founding up to `remove_to` are taken away. */
static uint64_t due_walk(const char *dir, uint64_t founding, uint64_t remove_to)
{
    char prefix[40];
    struct due due = { .dir = dir, .prefix = prefix, .remove_to = remove_to };

    snprintf(prefix, sizeof prefix, "due-%016llx-", (unsigned long long)founding);
    (void)walk(dir, prefix, due_note, &due);
    return due.latest;
}

int spotnik_checkpoint_store_due_set(const char *dir, uint64_t founding, uint64_t step)
{
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    due_walk(dir, founding, step - 1);
    snprintf(name, sizeof name, "due-%016llx-%llu", (unsigned long long)founding,
             (unsigned long long)step);
    return mark_make(dir, name);
}

uint64_t spotnik_checkpoint_store_due(const char *dir, uint64_t founding)
{
    return due_walk(dir, founding, 0);
}

/* ---- what a founding goes back to ---- */

static void root_name(uint64_t founding, uint64_t root,
                      char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    snprintf(name, SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1, "root-%016llx-of-%016llx",
             (unsigned long long)root, (unsigned long long)founding);
}

void spotnik_checkpoint_store_root_set(const char *dir, uint64_t founding, uint64_t root)
{
    char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    root_name(founding, root, name);
    if (mark_make(dir, name) == 0 && !spotnik_objects_is_bucket(dir))
        (void)directory_sync(dir);
}

struct root {
    uint64_t founding, root;
};

static int root_note(void *context, const struct spotnik_object *object)
{
    struct root *of = context;
    unsigned long long root, founding;

    if (sscanf(object->name, "%16llx-of-%16llx", &root, &founding) == 2 && founding == of->founding)
        of->root = root;
    return 0;
}

uint64_t spotnik_checkpoint_store_root(const char *dir, uint64_t founding)
{
    struct root root = { .founding = founding };

    (void)walk(dir, "root-", root_note, &root);
    return root.root;
}

bool spotnik_checkpoint_store_is_of(const char *dir, uint64_t founding, uint64_t root)
{
    struct stat facts;
    char path[PATH_MAX], name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    root_name(founding, root, name);
    if (spotnik_objects_is_bucket(dir))
        return spotnik_checkpoint_bucket_has(dir, NULL, name);
    snprintf(path, sizeof path, "%s/%s", dir, name);
    return lstat(path, &facts) == 0;
}
