/* SPDX-License-Identifier: Apache-2.0 */
/* Outputs beside restart files. See outputs.h. In a save they are a directory, with a list and one
 * file for each short output:
 *
 *     .outputs/list    a line for each: BYTES HASH MODE SHORT NAME
 *     .outputs/3       the content of the one in line 3, when it is short */
#include "bag/outputs.h"

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

#include "base/file.h"
#include "base/hash.h"

#define SHORT_MAX 65536
#define SHORT_SUM_MAX (16u << 20) /* of all of them; then short ones count as long */
#define TAIL 4096                 /* of a long one: a new write changes this */
#define PART ".outputs"
#define LINE_MAX_BYTES (NAME_MAX + 80)

static bool is_restart(const struct bag *bag, const char *name)
{
    return bag->terms.restart != NULL && fnmatch(bag->terms.restart, name, FNM_PERIOD) == 0;
}

bool bag_output_is_loose(const struct bag *bag, const char *name)
{
    for (char *const *pattern = bag->terms.loose; *pattern != NULL; pattern++)
        if (fnmatch(*pattern, name, FNM_PERIOD) == 0)
            return true;
    return false;
}

bool bag_outputs_bind(const struct bag *bag, const struct bag_outputs *outputs)
{
    for (size_t i = 0; i < outputs->count; i++)
        if (!bag_output_is_loose(bag, outputs->file[i].name))
            return true;
    return false;
}

/* ---- taking ---- */

/* A program can set the time of its contents (touch), and not this one. */
static uint64_t changed_ns(const struct stat *facts)
{
    return (uint64_t)facts->st_ctim.tv_sec * 1000000000u + (uint64_t)facts->st_ctim.tv_nsec;
}

static int tail_hash(int fd, uint64_t bytes, uint64_t *ret)
{
    char tail[TAIL];
    size_t size = bytes < TAIL ? (size_t)bytes : TAIL;
    if (pread(fd, tail, size, (off_t)(bytes - size)) != (ssize_t)size)
        return -EAGAIN;
    *ret = spotnik_hash_bytes(tail, size);
    return 0;
}

static int content_take(int fd, struct bag_output *output, size_t *room)
{
    if (output->bytes > SHORT_MAX || output->bytes > *room)
        return tail_hash(fd, output->bytes, &output->hash);
    output->whole = malloc(output->bytes + 1);
    if (output->whole == NULL
        || pread(fd, output->whole, output->bytes, 0) != (ssize_t)output->bytes)
        return -EAGAIN;
    output->hash = spotnik_hash_bytes(output->whole, output->bytes);
    *room -= output->bytes;
    return 0;
}

static struct bag_output *output_add(struct bag_outputs *outputs)
{
    if (outputs->count == outputs->capacity) {
        size_t capacity = 2 * outputs->capacity + 8;
        struct bag_output *grown = realloc(outputs->file, capacity * sizeof *grown);
        if (grown == NULL)
            return NULL;
        outputs->file = grown;
        outputs->capacity = capacity;
    }
    struct bag_output *output = &outputs->file[outputs->count++];
    memset(output, 0, sizeof *output);
    return output;
}

/* A file that is opened to be written anew shows its length of 0 for some milliseconds before the
 * kernel tells of the change, and before its time is a later one. All of that happens under the
 * lock of the file, which this takes. So whatever was read here has been told when it returns. Seen
 * on ext4, xfs, btrfs, tmpfs and overlayfs. */
static void changes_wait(int fd)
{
    (void)lseek(fd, 0, SEEK_HOLE);
}

/* Inputs are links, and no outputs; directories are left out. By the open directory: were its path
 * followed again, a mount that is lost meanwhile would make every file look removed. */
static int one_take(struct bag_outputs *outputs, int directory, const char *name, size_t *room)
{
    struct stat facts;
    if (fstatat(directory, name, &facts, AT_SYMLINK_NOFOLLOW) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(facts.st_mode))
        return 0;
    struct bag_output *output = strchr(name, '\n') == NULL ? output_add(outputs) : NULL;
    int fd = output != NULL ? spotnik_file_open_in(directory, name) : -ENOMEM;
    if (fd < 0)
        return fd;
    strcpy(output->name, name);
    output->bytes = (uint64_t)facts.st_size;
    output->mode = facts.st_mode & 0777;
    output->changed_ns = changed_ns(&facts);
    int rc = content_take(fd, output, room);
    changes_wait(fd);
    close(fd);
    return rc;
}

struct bag_outputs *bag_outputs_take(const struct bag *bag, const char *directory)
{
    struct bag_outputs *outputs = calloc(1, sizeof *outputs);
    DIR *list = opendir(directory);
    size_t room = SHORT_SUM_MAX;
    int rc = outputs != NULL && list != NULL ? 0 : -1;
    if (outputs != NULL)
        outputs->owners = 1;
    const struct dirent *at;
    while (rc == 0 && (errno = 0, at = readdir(list)) != NULL)
        rc = is_restart(bag, at->d_name) ? 0 : one_take(outputs, dirfd(list), at->d_name, &room);
    if (rc == 0 && errno != 0)
        rc = -errno; /* a list that breaks off is none */
    if (list != NULL)
        closedir(list);
    if (rc == 0)
        return outputs;
    bag_outputs_drop(outputs);
    return NULL;
}

const char *bag_outputs_later(const struct bag *bag, const struct bag_outputs *outputs,
                              const char *directory, const char *restart)
{
    char path[PATH_MAX];
    struct stat facts;
    bag_join(path, directory, restart);
    if (lstat(path, &facts) != 0)
        return restart;
    for (size_t i = 0; i < outputs->count; i++)
        if (outputs->file[i].changed_ns > changed_ns(&facts)
            && !bag_output_is_loose(bag, outputs->file[i].name))
            return outputs->file[i].name;
    return NULL;
}

struct bag_outputs *bag_outputs_share(struct bag_outputs *outputs)
{
    if (outputs != NULL)
        outputs->owners++;
    return outputs;
}

void bag_outputs_drop(struct bag_outputs *outputs)
{
    if (outputs == NULL || --outputs->owners > 0)
        return;
    for (size_t i = 0; i < outputs->count; i++)
        free(outputs->file[i].whole);
    free(outputs->file);
    free(outputs);
}

/* ---- into a save ---- */

/* Is what it held at that moment still there? Then let it reach the disk: its machine may
 * vanish. */
static int long_keep(const struct bag_output *output, const char *work)
{
    char path[PATH_MAX];
    uint64_t hash = 0;
    bag_join(path, work, output->name);
    int fd = spotnik_file_open(path);
    if (fd < 0)
        return -EAGAIN;
    int rc = fsync(fd) == 0 ? tail_hash(fd, output->bytes, &hash) : -errno;
    close(fd);
    return rc != 0 || hash == output->hash ? rc : -EAGAIN;
}

static int short_put(const struct bag_output *output, const char *directory, size_t number)
{
    char name[24];
    snprintf(name, sizeof name, "%zu", number);
    return spotnik_file_put(directory, name, 1, output->whole, output->bytes, false);
}

static char *list_format(const struct bag_outputs *outputs, size_t *ret_size)
{
    char *text = malloc(outputs->count * LINE_MAX_BYTES + 1);
    *ret_size = 0;
    for (size_t i = 0; text != NULL && i < outputs->count; i++) {
        const struct bag_output *output = &outputs->file[i];
        *ret_size +=
            (size_t)snprintf(text + *ret_size, LINE_MAX_BYTES,
                             "%" PRIu64 " %016" PRIx64 " %o %d %s\n", output->bytes, output->hash,
                             output->mode, output->whole != NULL, output->name);
    }
    return text;
}

int bag_outputs_put(const struct bag *bag, const struct bag_outputs *outputs, const char *work,
                    const char *save)
{
    char directory[PATH_MAX];
    size_t size;
    bag_join(directory, save, PART);
    if (outputs->count == 0)
        return 0;
    int rc = mkdir(directory, 0700) == 0 || errno == EEXIST ? 0 : -errno;
    for (size_t i = 0; rc == 0 && i < outputs->count; i++) {
        const struct bag_output *output = &outputs->file[i];
        rc = output->whole != NULL ? short_put(output, directory, i + 1) : long_keep(output, work);
        if (rc == -EAGAIN && bag_output_is_loose(bag, output->name))
            rc = 0;
    }
    char *text = rc == 0 ? list_format(outputs, &size) : NULL;
    if (rc == 0)
        rc = text != NULL ? spotnik_file_put(directory, "list", 1, text, size, false) : -ENOMEM;
    free(text);
    return rc;
}

/* ---- and out of it ---- */

/* Copied, and then compared: the owner of the old directory may still write there. */
static int one_restore(const struct bag_output *output, bool is_short, const char *from,
                       const char *to)
{
    uint64_t hash = 0;
    int rc = bag_copy_start(from, to, output->bytes, is_short ? &hash : NULL);
    int fd = rc == 0 ? spotnik_file_open(to) : -1;
    if (fd >= 0 && !is_short && tail_hash(fd, output->bytes, &hash) != 0)
        hash = ~output->hash;
    if (fd >= 0)
        close(fd);
    if (rc == 0 && hash == output->hash && chmod(to, output->mode) == 0)
        return 0;
    unlink(to);
    return rc == 0 || rc == -ENOENT || rc == -ENODATA ? -EILSEQ : rc;
}

static int line_restore(const struct bag *bag, char *line, size_t number, const char *parts,
                        const char *work, const char *directory)
{
    struct bag_output output;
    char from[PATH_MAX], to[PATH_MAX], name[24];
    int is_short, at = 0;
    line[strcspn(line, "\n")] = '\0';
    if (sscanf(line, "%" SCNu64 " %" SCNx64 " %o %d %n", &output.bytes, &output.hash, &output.mode,
               &is_short, &at)
            != 4
        || at == 0 || line[at] == '\0' || strchr(line + at, '/') != NULL)
        return -EILSEQ;
    snprintf(name, sizeof name, "%zu", number);
    bag_join(from, is_short ? parts : work, is_short ? name : line + at);
    bag_join(to, directory, line + at);
    int rc = one_restore(&output, is_short, from, to);
    return rc == -EILSEQ && bag_output_is_loose(bag, line + at) ? 0 : rc;
}

void bag_outputs_clear(const char *directory)
{
    char path[PATH_MAX];
    struct stat facts;
    DIR *list = opendir(directory);
    for (const struct dirent *at; list != NULL && (at = readdir(list)) != NULL;) {
        bag_join(path, directory, at->d_name);
        if (lstat(path, &facts) == 0 && S_ISREG(facts.st_mode))
            unlink(path);
    }
    if (list != NULL)
        closedir(list);
}

/* Has this save outputs? Asked of the open directory, as above. */
static int part_find(const char *save, bool *ret)
{
    int fd = open(save, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *ret = fd >= 0 && faccessat(fd, PART, F_OK, 0) == 0;
    int rc = fd < 0 || (!*ret && errno != ENOENT) ? -errno : 0;
    if (fd >= 0)
        close(fd);
    return rc;
}

int bag_outputs_restore(const struct bag *bag, const char *save, const char *work,
                        const char *directory)
{
    char parts[PATH_MAX], path[PATH_MAX], line[LINE_MAX_BYTES];
    bag_join(parts, save, PART);
    bag_join(path, parts, "list");
    bool are_there;
    int rc = part_find(save, &are_there);
    if (rc != 0 || !are_there)
        return rc;
    FILE *list = fopen(path, "re");
    rc = list != NULL ? 0 : errno == ENOENT ? -EILSEQ : -errno;
    for (size_t number = 1; rc == 0 && fgets(line, sizeof line, list) != NULL; number++)
        rc = line_restore(bag, line, number, parts, work, directory);
    if (list != NULL)
        fclose(list);
    if (rc != 0)
        bag_outputs_clear(directory);
    return rc;
}
