/* SPDX-License-Identifier: Apache-2.0 */
/* Saves. See saves.h. */
#include "bag/saves.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bag/bag_bucket.h"
#include "base/file.h"

/* ---- in the directory of the program ---- */

static uint64_t changed_ns(const struct stat *facts)
{
    return (uint64_t)facts->st_mtim.tv_sec * 1000000000u + (uint64_t)facts->st_mtim.tv_nsec;
}

/* Of two that were changed at the same time, the one whose name has the higher number. */
static bool is_newer(const struct stat *facts, const char *name, const struct bag_restart *than)
{
    if (than->file[0] == '\0' || changed_ns(facts) != than->changed_ns)
        return than->file[0] == '\0' || changed_ns(facts) > than->changed_ns;
    return strverscmp(name, than->file) > 0;
}

static void newest_find(const char *directory, const char *pattern, struct bag_restart *ret)
{
    struct stat facts;
    DIR *list = opendir(directory);
    memset(ret, 0, sizeof *ret);
    for (const struct dirent *at; list != NULL && (at = readdir(list)) != NULL;) {
        if (fnmatch(pattern, at->d_name, FNM_PERIOD) != 0)
            continue;
        if (fstatat(dirfd(list), at->d_name, &facts, AT_SYMLINK_NOFOLLOW) != 0
            || !S_ISREG(facts.st_mode) || facts.st_size == 0 || !is_newer(&facts, at->d_name, ret))
            continue;
        snprintf(ret->file, sizeof ret->file, "%s", at->d_name);
        ret->inode = facts.st_ino;
        ret->size = (uint64_t)facts.st_size;
        ret->changed_ns = changed_ns(&facts);
    }
    if (list != NULL)
        closedir(list);
}

bool bag_restart_same(const struct bag_restart *a, const struct bag_restart *b)
{
    return strcmp(a->file, b->file) == 0 && a->inode == b->inode && a->size == b->size
           && a->changed_ns == b->changed_ns;
}

/* Is the file still the one that was looked at? */
static bool is_unchanged(const char *path, const struct bag_restart *restart)
{
    struct stat facts;
    return lstat(path, &facts) == 0 && facts.st_ino == restart->inode
           && (uint64_t)facts.st_size == restart->size && changed_ns(&facts) == restart->changed_ns;
}

static bool is_there(const char *directory, const struct bag_restart *restart)
{
    char path[PATH_MAX];
    bag_join(path, directory, restart->file);
    return is_unchanged(path, restart);
}

/* The kernel gives no lease for reading on a file that is open for writing. Network file systems do
 * not say; then the looks alone count. */
static bool is_being_written(const char *directory, const char *file)
{
    char path[PATH_MAX];
    bag_join(path, directory, file);
    int fd = spotnik_file_open(path);
    if (fd < 0)
        return true;
    bool refused = fcntl(fd, F_SETLEASE, F_RDLCK) != 0 && errno == EAGAIN;
    if (!refused)
        fcntl(fd, F_SETLEASE, F_UNLCK);
    close(fd);
    return refused;
}

void bag_restart_look(const char *directory, const char *pattern, uint64_t work_ms,
                      struct bag_restart *restart)
{
    struct bag_restart now;
    if (!restart->is_whole && restart->file[0] != '\0' && is_there(directory, restart)
        && (restart->is_whole = !is_being_written(directory, restart->file)))
        return; /* a program may write one more often than we look */
    newest_find(directory, pattern, &now);
    if (!bag_restart_same(&now, restart)) {
        now.work_ms = work_ms;
        *restart = now;
    }
}

void bag_restart_settle(const char *directory, const char *pattern, uint64_t work_ms,
                        struct bag_restart *restart)
{
    struct bag_restart now;
    newest_find(directory, pattern, &now);
    now.work_ms = bag_restart_same(&now, restart) ? restart->work_ms : work_ms;
    *restart = now;
    restart->is_whole = restart->file[0] != '\0' && !is_being_written(directory, restart->file);
}

/* ---- in the bag ---- */

static bool save_parse(const struct bag_job *job, const char *name, struct bag_save *ret)
{
    size_t length = strlen(job->name);
    int end = 0;
    memset(ret, 0, sizeof *ret);
    if (strncmp(name, job->name, length) != 0 || name[length] != '@'
        || sscanf(name + length, "@%" SCNu32 ".%" SCNu32 ".%" SCNu64 ".%16" SCNx64 "%n",
                  &ret->attempt, &ret->sequence, &ret->work_ms, &ret->hash, &end)
               != 4
        || name[length + (size_t)end] != '\0')
        return false;
    snprintf(ret->name, sizeof ret->name, "%s", name);
    return true;
}

static int save_compare(const struct bag_save *a, const struct bag_save *b)
{
    if (a->attempt != b->attempt)
        return a->attempt < b->attempt ? -1 : 1;
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* NULL: *ret_rc: 0 at the end, or -errno. */
static const struct dirent *entry_next(DIR *list, int *ret_rc)
{
    errno = 0;
    const struct dirent *entry = readdir(list);
    *ret_rc = entry != NULL ? 0 : -errno;
    return entry;
}

/* The one file that is in it. 1, 0 where it is gone or empty, or -errno. */
static int file_find(const struct bag *bag, struct bag_save *save)
{
    char path[PATH_MAX];
    const struct dirent *at;
    bag_path(bag, path, "saves", save->name);
    DIR *list = opendir(path);
    int rc = list != NULL ? 0 : -errno;
    while (list != NULL && save->file[0] == '\0' && (at = entry_next(list, &rc)) != NULL)
        if (strcmp(at->d_name, ".") != 0 && strcmp(at->d_name, "..") != 0
            && strcmp(at->d_name, ".outputs") != 0)
            snprintf(save->file, sizeof save->file, "%s", at->d_name);
    if (list != NULL)
        closedir(list);
    return rc == 0 || rc == -ENOENT ? save->file[0] != '\0' : rc;
}

struct search {
    const struct bag *bag;
    const struct bag_job *job;
    const struct bag_save *before;
    struct bag_save best;
    int rc; /* below 0: one of them could not be looked at */
};

static void search_see(struct search *search, const char *name)
{
    struct bag_save save;
    if (search->rc < 0 || !save_parse(search->job, name, &save)
        || (search->before != NULL && save_compare(&save, search->before) >= 0)
        || (search->best.name[0] != '\0' && save_compare(&save, &search->best) <= 0))
        return;
    search->rc = bag_is_bucket(search->bag) ? 1 : file_find(search->bag, &save);
    if (search->rc > 0)
        search->best = save;
}

/* "SEQ.MS.HASH.tar", behind "saves/JOB@". */
static void search_see_object(void *context, const char *rest, int64_t written_s)
{
    struct search *search = context;
    char name[NAME_MAX + 1];
    size_t length = strlen(rest);
    (void)written_s;
    if (length <= 4 || strcmp(rest + length - 4, ".tar") != 0)
        return;
    snprintf(name, sizeof name, "%s@%.*s", search->job->name, (int)length - 4, rest);
    search_see(search, name);
}

static int saves_walk(const struct bag *bag, const struct bag_job *job,
                      void (*each)(void *context, const char *name, int64_t written_s),
                      void *context)
{
    char prefix[BAG_OBJECT_MAX];
    snprintf(prefix, sizeof prefix, "saves/%s@", job->name);
    return bag_bucket_walk(bag, prefix, each, context);
}

int bag_save_find(const struct bag *bag, const struct bag_job *job, const struct bag_save *before,
                  struct bag_save *ret)
{
    char path[PATH_MAX];
    const struct dirent *at;
    struct search search = { .bag = bag, .job = job, .before = before };
    bag_path(bag, path, "saves", NULL);
    DIR *list = bag_is_bucket(bag) ? NULL : opendir(path);
    int rc = bag_is_bucket(bag) ? saves_walk(bag, job, search_see_object, &search)
             : list == NULL     ? -errno
                                : 0;
    while (list != NULL && search.rc >= 0 && (at = entry_next(list, &rc)) != NULL)
        search_see(&search, at->d_name);
    if (list != NULL)
        closedir(list);
    *ret = search.best;
    rc = search.rc < 0 ? search.rc : rc;
    return rc != 0 ? rc : search.best.name[0] != '\0';
}

/* With the long outputs, which a lost machine has on its own disk. Then it leaves this one. */
static int save_send(struct bag *bag, const struct bag_job *job, uint32_t attempt, const char *name,
                     const struct bag_outputs *outputs)
{
    char object[BAG_OBJECT_MAX], path[PATH_MAX];
    size_t count = outputs != NULL ? outputs->count : 0, used = 1;
    char(*file)[2 * NAME_MAX + 8] = calloc(count + 1, sizeof *file);
    const char **names = calloc(count + 2, sizeof *names);
    int rc = file != NULL && names != NULL ? bag_bucket_reopen(bag) : -ENOMEM;
    if (rc == 0) {
        snprintf(file[0], sizeof file[0], "saves/%s", name);
        names[0] = file[0];
        for (size_t i = 0; i < count; i++)
            if (outputs->file[i].whole == NULL) {
                snprintf(file[used], sizeof file[0], "work/%s@%u/%s", job->name, attempt,
                         outputs->file[i].name);
                names[used] = file[used];
                used++;
            }
        bag_tree_name(object, "saves", name);
        rc = bag_bucket_tree_put(bag, object, bag->folder, names);
    }
    free(file);
    free(names);
    bag_path(bag, path, "saves", name);
    (void)bag_remove(path);
    return rc;
}

int bag_save_make(struct bag *bag, const struct bag_job *job, uint32_t attempt, uint32_t sequence,
                  const struct bag_restart *restart, const struct bag_outputs *outputs)
{
    char name[NAME_MAX + 1], from[PATH_MAX], hidden[PATH_MAX], to[PATH_MAX], work[PATH_MAX];
    uint64_t hash;
    bag_attempt_name(job, attempt, name);
    bag_path(bag, work, "work", name);
    snprintf(name, sizeof name, ".%s@%u.%u.%016" PRIx64, job->name, attempt, sequence, bag->writer);
    bag_path(bag, hidden, "saves", name);
    if (mkdir(hidden, 0700) != 0 && errno != EEXIST)
        return -errno;
    bag_join(from, work, restart->file);
    bag_join(to, hidden, restart->file);
    unlink(to);
    int rc = bag_copy(from, to, &hash);
    if (rc == 0 && !is_unchanged(from, restart))
        rc = -EAGAIN;
    rc = rc == 0 && outputs != NULL ? bag_outputs_put(bag, outputs, work, hidden) : rc;
    snprintf(name, sizeof name, "%s@%u.%u.%" PRIu64 ".%016" PRIx64, job->name, attempt, sequence,
             restart->work_ms, hash);
    bag_path(bag, to, "saves", name);
    if (rc == 0 && rename(hidden, to) != 0)
        rc = -errno;
    if (rc != 0)
        bag_remove(hidden);
    return rc == 0 && bag_is_bucket(bag) ? save_send(bag, job, attempt, name, outputs) : rc;
}

static int file_restore(const char *folder, const struct bag_save *save, const char *directory)
{
    char from[PATH_MAX], to[PATH_MAX];
    uint64_t hash;
    bag_join(from, folder, save->file);
    bag_join(to, directory, save->file);
    int rc = bag_copy(from, to, &hash);
    if (rc != 0 || hash == save->hash)
        return rc;
    unlink(to);
    return -EILSEQ;
}

/* From the bucket to this disk. */
static int save_fetch(const struct bag *bag, struct bag_save *save)
{
    char object[BAG_OBJECT_MAX];
    bag_tree_name(object, "saves", save->name);
    int rc = bag_bucket_tree_get(bag, object, bag->folder);
    if (rc == 0)
        rc = file_find(bag, save);
    return rc == 0 || rc == -EIO ? -EILSEQ : rc > 0 ? 0 : rc;
}

int bag_save_restore(const struct bag *bag, const struct bag_job *job, struct bag_save *save,
                     const char *directory)
{
    char from[PATH_MAX], work[PATH_MAX], name[NAME_MAX + 1];
    int got = bag_is_bucket(bag) ? save_fetch(bag, save) : 0;
    if (got != 0)
        return got;
    bag_path(bag, from, "saves", save->name);
    bag_attempt_name(job, save->attempt, name);
    bag_path(bag, work, "work", name);
    int rc = file_restore(from, save, directory);
    rc = rc == 0 ? bag_outputs_restore(bag, from, work, directory) : rc;
    if (access(from, F_OK) == 0)
        return rc;
    rc = -errno; /* taken away meanwhile: what was read may be a part of it */
    bag_outputs_clear(directory);
    return rc;
}

static void object_remove(const struct bag *bag, const char *name)
{
    char object[BAG_OBJECT_MAX];
    bag_tree_name(object, "saves", name);
    (void)bag_bucket_delete(bag, object);
}

void bag_save_spoil(const struct bag *bag, const struct bag_save *save)
{
    char from[PATH_MAX], to[PATH_MAX];
    bag_path(bag, from, "saves", save->name);
    snprintf(to, sizeof to, "%.*s.bad", PATH_MAX - 8, from);
    (void)!rename(from, to);
    if (bag_is_bucket(bag))
        object_remove(bag, save->name);
}

struct broom {
    struct bag *bag;
    const struct bag_job *job;
    const struct bag_save *before;
};

static void broom_see(const struct broom *broom, const char *name)
{
    struct bag_save save;
    if (!save_parse(broom->job, name, &save)
        || (broom->before != NULL && save_compare(&save, broom->before) >= 0))
        return;
    if (bag_is_bucket(broom->bag))
        object_remove(broom->bag, name);
    else
        (void)bag_take_away(broom->bag, "saves", name);
}

static void broom_see_object(void *context, const char *rest, int64_t written_s)
{
    const struct broom *broom = context;
    char name[NAME_MAX + 1];
    (void)written_s;
    snprintf(name, sizeof name, "%s@%s", broom->job->name, rest);
    name[strlen(name) - (strlen(rest) > 4 ? 4 : 0)] = '\0'; /* ".tar" */
    broom_see(broom, name);
}

void bag_saves_remove(struct bag *bag, const struct bag_job *job, const struct bag_save *before)
{
    char path[PATH_MAX];
    struct broom broom = { .bag = bag, .job = job, .before = before };
    if (bag_is_bucket(bag)) {
        (void)saves_walk(bag, job, broom_see_object, &broom);
        return;
    }
    bag_path(bag, path, "saves", NULL);
    DIR *list = opendir(path);
    for (const struct dirent *at; list != NULL && (at = readdir(list)) != NULL;)
        broom_see(&broom, at->d_name);
    if (list != NULL)
        closedir(list);
}
