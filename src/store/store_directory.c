/* SPDX-License-Identifier: Apache-2.0 */
/* A store that is a folder of a file system which all machines mount. link() makes a name for one
 * process only, and rename() moves a file for one only, on network file systems too. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "spotnik/spotnik.h"
#include "store/inside.h"

struct directory {
    struct spotnik_objects store;
    char path[PATH_MAX - SPOTNIK_OBJECTS_NAME_MAX - 1];
};

static const char *path_of(const struct spotnik_objects *store)
{
    return ((const struct directory *)store)->path;
}

static void path_make(const struct spotnik_objects *store, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%.*s", path_of(store), SPOTNIK_OBJECTS_NAME_MAX, name);
}

static void directory_close(struct spotnik_objects *store)
{
    free(store);
}

/* ---- objects ---- */

static int directory_put(struct spotnik_objects *store, const char *name, uint64_t writer,
                         const void *bytes, size_t size, bool if_absent)
{
    return spotnik_file_put(path_of(store), name, writer, bytes, size, if_absent);
}

static uint64_t version_make(const struct stat *facts)
{
    uint64_t file[4] = { facts->st_ino, (uint64_t)facts->st_mtim.tv_sec,
                         (uint64_t)facts->st_mtim.tv_nsec, (uint64_t)facts->st_size };
    return spotnik_hash_bytes((const char *)file, sizeof file);
}

/* What cannot be opened may still be looked at. */
static int closed_get(const char *path, int error, uint64_t *ret_version)
{
    struct stat facts;
    if (error != ENOENT && lstat(path, &facts) == 0)
        *ret_version = version_make(&facts);
    return -error;
}

static int directory_get(struct spotnik_objects *store, const char *name, void *bytes, size_t size,
                         size_t *ret_size, uint64_t *ret_version)
{
    char path[PATH_MAX];
    struct stat facts;
    *ret_size = 0;
    *ret_version = 0;
    path_make(store, name, path);
    int fd = spotnik_regular_open(path, O_NOFOLLOW);
    if (fd < 0)
        return closed_get(path, errno, ret_version);
    ssize_t got = fstat(fd, &facts) == 0 ? read(fd, bytes, size) : -1;
    int error = got < 0 ? errno : 0;
    close(fd);
    if (error != 0)
        return -error;
    *ret_size = (size_t)got;
    *ret_version = version_make(&facts);
    return 0;
}

static int directory_list(struct spotnik_objects *store,
                          int (*each)(void *context, const char *name), void *context)
{
    DIR *directory = opendir(path_of(store));
    int rc = 0;
    if (directory == NULL)
        return -errno;
    errno = 0;
    for (const struct dirent *at; rc == 0 && (at = readdir(directory)) != NULL; errno = 0)
        rc = each(context, at->d_name);
    rc = rc != 0 ? rc : -errno;
    closedir(directory);
    return rc;
}

static int directory_delete(struct spotnik_objects *store, const char *name)
{
    char path[PATH_MAX];
    path_make(store, name, path);
    return unlink(path) == 0 ? 0 : -errno;
}

static int directory_delete_if(struct spotnik_objects *store, const char *name, uint64_t hash)
{
    char bytes[SPOTNIK_DELETE_IF_MAX];
    size_t size;
    uint64_t version;
    int rc = directory_get(store, name, bytes, sizeof bytes, &size, &version);
    if (rc != 0)
        return rc;
    return spotnik_hash_bytes(bytes, size) == hash ? directory_delete(store, name) : -EEXIST;
}

static bool directory_take(struct spotnik_objects *store, const char *name, uint64_t writer)
{
    char from[PATH_MAX], to[PATH_MAX + 24];
    path_make(store, name, from);
    snprintf(to, sizeof to, "%s/.%s.%016llx", path_of(store), name, (unsigned long long)writer);
    if (rename(from, to) != 0)
        return false;
    unlink(to);
    return true;
}

/* link() and rename() do, wherever they work at all. */
static int directory_check(struct spotnik_objects *store, uint64_t writer)
{
    (void)store, (void)writer;
    return 0;
}

/* A user that may write here may take records away, and put links in their place. */
static bool directory_is_writable_by_all(struct spotnik_objects *store)
{
    struct stat facts;
    return stat(path_of(store), &facts) == 0 && (facts.st_mode & S_IWOTH) != 0;
}

/* ---- registers: an empty file, "<name>.<number>.<text>" ---- */

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

static bool directory_has_registers(struct spotnik_objects *store)
{
    struct statfs facts;
    if (statfs(path_of(store), &facts) != 0)
        return false;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (((unsigned long)facts.f_type & 0xFFFFFFFF) == kinds[i])
            return true;
    return false;
}

static void register_path(const struct spotnik_objects *store, const char *name, uint64_t number,
                          const char *text, char path[PATH_MAX])
{
    char file[SPOTNIK_OBJECTS_NAME_MAX + 1];
    snprintf(file, sizeof file, "%s.%llu.%s", name, (unsigned long long)number, text);
    path_make(store, file, path);
}

static bool is_there(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static void directory_sync(const struct spotnik_objects *store)
{
    int fd = open(path_of(store), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    (void)fsync(fd); /* a machine that dies loses an unwritten name */
    close(fd);
}

static int directory_register_make(struct spotnik_objects *store, const char *name,
                                   const char *text)
{
    char path[PATH_MAX];
    register_path(store, name, 0, text, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (fd < 0)
        return -errno;
    close(fd);
    directory_sync(store);
    return 0;
}

struct walk {
    const struct spotnik_objects *store;
    const char *name;
    const char *to; /* move there what has a smaller number; NULL: remove all */
    uint64_t number;
};

static bool number_parse(const char *file, const char *name, uint64_t *ret_number)
{
    size_t size = strlen(name);
    char *end;
    if (strncmp(file, name, size) != 0 || file[size] != '.')
        return false;
    *ret_number = strtoull(file + size + 1, &end, 10);
    return end > file + size + 1 && *end == '.';
}

/* The result of rename() does not matter: another may be first, or a file server may have done it
 * and lost the answer. Opening the new name shows it. */
static int walk_each(void *context, const char *file)
{
    const struct walk *walk = context;
    char path[PATH_MAX];
    uint64_t number;
    if (!number_parse(file, walk->name, &number))
        return 0;
    path_make(walk->store, file, path);
    if (walk->to == NULL)
        unlink(path);
    else if (number < walk->number)
        (void)!rename(path, walk->to);
    return 0;
}

static bool directory_register_advance(struct spotnik_objects *store, const char *name,
                                       uint64_t number, const char *text)
{
    char target[PATH_MAX];
    struct walk walk = { .store = store, .name = name, .to = target, .number = number };
    register_path(store, name, number, text, target);
    if (is_there(target))
        return true;
    (void)directory_list(store, walk_each, &walk);
    directory_sync(store);
    return is_there(target);
}

static void directory_register_delete(struct spotnik_objects *store, const char *name)
{
    (void)directory_list(store, walk_each, &(struct walk){ .store = store, .name = name });
}

static const struct spotnik_objects_kind kind = {
    .close = directory_close,
    .put = directory_put,
    .get = directory_get,
    .list = directory_list,
    .delete = directory_delete,
    .delete_if = directory_delete_if,
    .take = directory_take,
    .check = directory_check,
    .is_writable_by_all = directory_is_writable_by_all,
    .has_registers = directory_has_registers,
    .register_make = directory_register_make,
    .register_advance = directory_register_advance,
    .register_delete = directory_register_delete,
};

int spotnik_objects_directory_open(const char *path, struct spotnik_objects **ret_store)
{
    struct directory *directory = malloc(sizeof *directory);
    if (directory == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a folder");
    directory->store.kind = &kind;
    int length = snprintf(directory->path, sizeof directory->path, "%s", path);
    if (length < 0 || (size_t)length >= sizeof directory->path) {
        free(directory);
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the path %.60s... is too long", path);
    }
    *ret_store = &directory->store;
    return 0;
}
