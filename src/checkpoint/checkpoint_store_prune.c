/* SPDX-License-Identifier: Apache-2.0 */
/* Pruning a directory of checkpoints: only files that we made, in directories that we made. A user
 * may have put a link to an archive there, or files of their own beside ours. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "checkpoint/checkpoint_bucket.h"
#include "checkpoint/manifest.h"

static bool is_hex(const char *text, size_t count)
{
    return strspn(text, "0123456789abcdef") >= count;
}

static bool is_digest(const char *text, size_t digits)
{
    return is_hex(text, digits) && !strcmp(text + digits, ".safetensors");
}

/* "part-00001-of-00004-<hash>.safetensors", "blobs-<writer>.safetensors", "manifest.json",
 * ".tmp-<writer>". */
static bool is_ours(const char *name)
{
    unsigned number, count;
    int end = 0;

    if (!strcmp(name, SPOTNIK_MANIFEST_NAME))
        return true;
    if (!strncmp(name, ".tmp-", 5))
        return is_hex(name + 5, 16) && !name[21];
    if (!strncmp(name, "blobs-", 6))
        return is_hex(name + 6, 16) && !strcmp(name + 22, ".safetensors");
    return sscanf(name, "part-%5u-of-%5u-%n", &number, &count, &end) == 2 && end
           && (is_digest(name + end, SPOTNIK_DIGEST_PLAIN)
               || is_digest(name + end, SPOTNIK_DIGEST_SIGNED));
}

static void file_remove(int directory, const char *name)
{
    struct stat facts;

    if (is_ours(name) && fstatat(directory, name, &facts, AT_SYMLINK_NOFOLLOW) == 0
        && S_ISREG(facts.st_mode))
        unlinkat(directory, name, 0);
}

struct removal {
    const char *dir, *entry;
    uint32_t kept; /* files that are none of ours */
};

static int object_remove(void *context, const struct spotnik_object *object)
{
    struct removal *removal = context;

    if (is_ours(object->name))
        spotnik_checkpoint_bucket_delete(removal->dir, removal->entry, object->name);
    else
        removal->kept++;
    return 0;
}

/* The manifest first: what is left of it, should we be killed, is no checkpoint any more. */
static bool objects_remove(const char *dir, const char *entry)
{
    struct removal removal = { .dir = dir, .entry = entry };

    spotnik_checkpoint_bucket_delete(dir, entry, SPOTNIK_MANIFEST_NAME);
    return spotnik_checkpoint_store_files(dir, entry, object_remove, &removal) == 0
           && removal.kept == 0;
}

static void folder_remove(int store, const char *entry)
{
    int fd = openat(store, entry, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *directory = fd < 0 ? NULL : fdopendir(fd);

    if (!directory) {
        if (fd >= 0)
            close(fd);
        return; /* a link, or what is no directory: not made by us */
    }
    file_remove(fd, SPOTNIK_MANIFEST_NAME);
    for (const struct dirent *at; (at = readdir(directory)) != NULL;)
        file_remove(fd, at->d_name);
    closedir(directory);
    unlinkat(store, entry, AT_REMOVEDIR); /* stays where somebody else's file does */
}

static bool entry_remove(const char *dir, int store, const char *entry)
{
    if (spotnik_objects_is_bucket(dir))
        return objects_remove(dir, entry);
    folder_remove(store, entry);
    return faccessat(store, entry, F_OK, AT_SYMLINK_NOFOLLOW) != 0;
}

static bool is_of_ours(const char *dir, const struct spotnik_checkpoint_store_entry *entry,
                       uint64_t founding, uint64_t root)
{
    return !founding || entry->founding == founding
           || spotnik_checkpoint_store_is_of(dir, entry->founding, root);
}

uint32_t spotnik_checkpoint_store_prune(const char *dir, uint64_t founding, uint64_t root,
                                        uint32_t keep)
{
    struct spotnik_checkpoint_store_list list;
    uint32_t complete = 0, removed = 0;
    bool bucket = spotnik_objects_is_bucket(dir);
    int store = bucket ? -1 : open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (store < 0 && !bucket)
        return 0;
    if (spotnik_checkpoint_store_list(dir, &list) == 0) {
        for (uint32_t i = 0; i < list.count; i++) {
            bool whole = list.entry[i].written_s != 0;

            if (!is_of_ours(dir, &list.entry[i], founding, root))
                continue;
            complete += whole;
            if (complete && (whole ? complete > keep : true))
                removed += entry_remove(dir, store, list.entry[i].name);
        }
        spotnik_checkpoint_store_list_done(&list);
    }
    if (store >= 0)
        close(store);
    return removed;
}
