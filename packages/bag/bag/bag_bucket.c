/* SPDX-License-Identifier: Apache-2.0 */
/* See bag_bucket.h. */
#include "bag/bag_bucket.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "spotnik/spotnik.h"
#include "store/store.h"

#define GET_BYTES ((size_t)8 << 20)
#define SCRATCH "spotnik-bag-"

extern char **environ;

bool bag_is_bucket(const struct bag *bag)
{
    return bag->bucket != NULL;
}

const char *bag_why(const struct bag *bag, int rc)
{
    return bag_is_bucket(bag) ? spotnik_objects_why(rc) : strerror(-rc);
}

void bag_mark_name(char object[BAG_OBJECT_MAX], const char *part, const char *name)
{
    snprintf(object, BAG_OBJECT_MAX, "marks/%s.%s", part, name);
}

void bag_tree_name(char object[BAG_OBJECT_MAX], const char *part, const char *name)
{
    snprintf(object, BAG_OBJECT_MAX, "%s/%s.tar", part, name);
}

/* ---- scratch: a process holds a lock on its own for as long as it or its programs live ---- */

static const char *scratch_parent(void)
{
    const char *parent = getenv("TMPDIR");
    return parent != NULL && *parent != '\0' ? parent : "/tmp";
}

static bool is_locked(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) != 0;
}

/* Its process was killed. One that has no "work" in it may be new, and about to be locked. */
static void scratch_remove_dead(int parent, const char *name)
{
    char path[PATH_MAX];
    struct stat facts;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    bag_join(path, scratch_parent(), name);
    if (fstat(fd, &facts) == 0 && facts.st_uid == getuid() && faccessat(fd, "work", F_OK, 0) == 0
        && !is_locked(fd))
        (void)bag_remove(path);
    close(fd);
}

static void scratch_clean(void)
{
    DIR *list = opendir(scratch_parent());
    for (const struct dirent *at; list != NULL && (at = readdir(list)) != NULL;)
        if (strncmp(at->d_name, SCRATCH, sizeof SCRATCH - 1) == 0)
            scratch_remove_dead(dirfd(list), at->d_name);
    if (list != NULL)
        closedir(list);
}

static int scratch_make(struct bag *bag, struct spotnik_fault *fault)
{
    char path[PATH_MAX];
    scratch_clean();
    snprintf(path, sizeof path, "%s/" SCRATCH "XXXXXX", scratch_parent());
    if (strlen(path) >= sizeof bag->folder || mkdtemp(path) == NULL
        || (bag->scratch = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0
        || is_locked(bag->scratch))
        return spotnik_fault_set(fault, "cannot make a folder for the programs in %s (TMPDIR): %s",
                                 scratch_parent(), strerror(errno));
    strcpy(bag->folder, path);
    return 0;
}

int bag_bucket_open(struct bag *bag, const char *url, struct spotnik_fault *fault)
{
    if (strlen(url) >= sizeof bag->url)
        return spotnik_fault_set(fault, "the name of the bucket is too long: %.100s...", url);
    strcpy(bag->url, url);
    if (spotnik_objects_open(url, &bag->bucket) != 0) {
        bag->bucket = NULL;
        return spotnik_fault_set(fault, "%s", spotnik_last_error());
    }
    return scratch_make(bag, fault);
}

void bag_bucket_close(struct bag *bag)
{
    spotnik_objects_close(bag->bucket);
    if (bag->folder[0] != '\0') {
        (void)bag_remove(bag->folder);
        close(bag->scratch);
    }
}

/* The parent's connections stay open: to close them here would end them for the parent, too. */
int bag_bucket_reopen(struct bag *bag)
{
    return spotnik_objects_open(bag->url, &bag->bucket) == 0 ? 0 : -EIO;
}

/* ---- objects ---- */

static int file_get(const struct bag *bag, const char *object, int fd)
{
    char *block = malloc(GET_BYTES);
    size_t got = GET_BYTES;
    int rc = block != NULL ? 0 : -ENOMEM;
    for (uint64_t at = 0; rc == 0 && got == GET_BYTES; at += got) {
        rc = spotnik_objects_get_range(bag->bucket, object, at, block, GET_BYTES, &got);
        if (rc == 0 && pwrite(fd, block, got, (off_t)at) != (ssize_t)got)
            rc = errno != 0 ? -errno : -ENOSPC;
    }
    free(block);
    return rc;
}

/* As a file of that path, whole or not at all. */
static int object_get(const struct bag *bag, const char *object, const char *path)
{
    char hidden[PATH_MAX];
    bag_path(bag, hidden, ".get", NULL);
    int fd = open(hidden, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    int rc = fd >= 0 ? file_get(bag, object, fd) : -errno;
    if (fd >= 0)
        close(fd);
    return rc == 0 && rename(hidden, path) != 0 ? -errno : rc;
}

int bag_bucket_fetch(const struct bag *bag, const char *object)
{
    char path[PATH_MAX];
    bag_path(bag, path, object, NULL);
    return object_get(bag, object, path);
}

struct mapped {
    void *bytes;
    size_t size;
};

static int map(const char *path, struct mapped *ret)
{
    struct stat facts;
    int fd = spotnik_file_open(path);
    int rc = fd < 0 ? fd : fstat(fd, &facts) != 0 ? -errno : 0;
    ret->size = rc == 0 ? (size_t)facts.st_size : 0;
    ret->bytes = NULL;
    if (ret->size > 0) {
        ret->bytes = mmap(NULL, ret->size, PROT_READ, MAP_PRIVATE, fd, 0);
        rc = ret->bytes == MAP_FAILED ? -errno : 0;
    }
    if (fd >= 0)
        close(fd);
    return rc;
}

static void unmap(const struct mapped *mapped)
{
    if (mapped->size > 0 && mapped->bytes != MAP_FAILED)
        munmap(mapped->bytes, mapped->size);
}

int bag_bucket_file_put(const struct bag *bag, const char *path, const char *object)
{
    struct mapped mapped;
    int rc = map(path, &mapped);
    if (rc == 0)
        rc = spotnik_objects_put_if_absent(bag->bucket, object, bag->writer,
                                           mapped.size > 0 ? mapped.bytes : "", mapped.size);
    unmap(&mapped);
    return rc;
}

int bag_bucket_put(const struct bag *bag, const char *object, const char *text, bool exclusive)
{
    return exclusive
               ? spotnik_objects_put_if_absent(bag->bucket, object, bag->writer, text, strlen(text))
               : spotnik_objects_put(bag->bucket, object, bag->writer, text, strlen(text));
}

int bag_bucket_get(const struct bag *bag, const char *object, char *text, size_t text_max,
                   size_t *ret_size)
{
    uint64_t version;
    int rc = spotnik_objects_get(bag->bucket, object, text, text_max, ret_size, &version);
    text[rc == 0 ? *ret_size : 0] = '\0';
    return rc;
}

int bag_bucket_delete(const struct bag *bag, const char *object)
{
    int rc = spotnik_objects_delete(bag->bucket, object);
    return rc == -ENOENT ? 0 : rc;
}

struct walk {
    void (*each)(void *context, const char *name, int64_t written_s);
    void *context;
};

static int walk_one(void *context, const struct spotnik_object *object)
{
    const struct walk *walk = context;
    walk->each(walk->context, object->name, object->written_s);
    return 0;
}

int bag_bucket_walk(const struct bag *bag, const char *prefix,
                    void (*each)(void *context, const char *name, int64_t written_s), void *context)
{
    return spotnik_objects_walk(bag->bucket, prefix, walk_one,
                                &(struct walk){ .each = each, .context = context });
}

/* ---- directories ---- */

/* 0 or -errno. A file that grows meanwhile, for which tar ends with 1, is compared with its hash
 * when it is used. */
static int tar_run(char *const *words)
{
    pid_t pid;
    int status, rc = posix_spawnp(&pid, words[0], NULL, NULL, words, environ);
    if (rc != 0)
        return -rc;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && WEXITSTATUS(status) <= 1 ? 0 : -EIO;
}

static int tar_put(const struct bag *bag, const char *object, const char *file)
{
    struct mapped mapped;
    int rc = map(file, &mapped);
    struct iovec piece = { .iov_base = mapped.bytes, .iov_len = mapped.size };
    if (rc == 0)
        rc = spotnik_objects_put_pieces(bag->bucket, object,
                                        &(struct spotnik_objects_pieces){ .piece = &piece,
                                                                          .count = 1 });
    unmap(&mapped);
    return rc;
}

int bag_bucket_tree_put(const struct bag *bag, const char *object, const char *directory,
                        const char *const *names)
{
    char file[PATH_MAX], hidden[40];
    size_t count = 0;
    while (names[count] != NULL)
        count++;
    const char **words = calloc(count + 8, sizeof *words);
    if (words == NULL)
        return -ENOMEM;
    snprintf(hidden, sizeof hidden, ".put.%ld", (long)getpid());
    bag_path(bag, file, hidden, NULL);
    const char *const begin[] = { "tar", "-cf", file, "-C", directory, "--" };
    memcpy(words, begin, sizeof begin);
    memcpy(words + sizeof begin / sizeof *begin, names, count * sizeof *words);
    int rc = tar_run((char *const *)words);
    rc = rc == 0 ? tar_put(bag, object, file) : rc;
    unlink(file);
    free(words);
    return rc;
}

int bag_bucket_tree_get(const struct bag *bag, const char *object, const char *directory)
{
    char file[PATH_MAX];
    bag_path(bag, file, ".tar", NULL);
    int rc = object_get(bag, object, file);
    const char *const words[] = { "tar", "-xf", file, "-C", directory, NULL };
    rc = rc == 0 ? tar_run((char *const *)(uintptr_t)words) : rc;
    unlink(file);
    return rc;
}
