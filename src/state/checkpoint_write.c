/* SPDX-License-Identifier: Apache-2.0 */
/* The files of one checkpoint. Every member writes its parts and then waits, in the background, until the
 * checkpoint is complete or given up: so all are free again at the same time, and take the next one
 * together. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/time.h"
#include "state/checkpoint_inside.h"
#include "state/shelf.h"
#include "state/thread.h"

#define WRITE_BYTES ((size_t)8 << 20)
#define PATIENCE_NS (600 * SPOTNIK_S)
#define PATIENCE_VIEW_NS (5 * SPOTNIK_S) /* with a view that has changed since: somebody may be lost */
#define LOOK_MIN_NS (10 * SPOTNIK_MS)
#define LOOK_MAX_NS SPOTNIK_S

static int stopped(void)
{
    return spotnik_error_return(SPOTNIK_ERR_STATE, "this member ended before it was written");
}

/* --- our parts
 * --------------------------------------------------------------------------------------------------- */

static int add(struct spotnik_shelf_file *file, struct spotnik_hash *hash, const uint8_t *bytes, size_t size)
{
    spotnik_hash_add(hash, bytes, size);
    return spotnik_shelf_file_add(file, bytes, size);
}

static int add_tensors(struct spotnik_checkpoint *checkpoint, struct spotnik_shelf_file *file,
                       struct spotnik_hash *hash, const uint8_t *bytes, uint64_t size)
{
    while (size) {
        size_t some = size < WRITE_BYTES ? (size_t)size : WRITE_BYTES;

        if (spotnik_checkpoint_pause(checkpoint, 0)) {
            spotnik_shelf_file_end(file, NULL);
            return stopped();
        }
        int rc = add(file, hash, bytes, some);
        if (rc)
            return rc;
        bytes += some;
        size -= some;
    }
    return 0;
}

static void part_prefix(const struct spotnik_checkpoint *checkpoint, uint32_t number, char ret[32])
{
    snprintf(ret, 32, "part-%05u-of-%05u-", number + 1, checkpoint->part_count);
}

static int write_part(struct spotnik_checkpoint *checkpoint, const char *entry, uint32_t number,
                      const uint8_t *bytes)
{
    const struct spotnik_part *part = &checkpoint->part[number];
    char prefix[32], name[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1];
    struct spotnik_shelf_file file;
    struct spotnik_hash hash;
    int rc = spotnik_shelf_file_begin(&file, checkpoint->dir, entry, checkpoint->slot.member);

    spotnik_hash_begin(&hash);
    if (!rc)
        rc = add(&file, &hash, part->header, part->header_bytes);
    if (!rc)
        rc = add_tensors(checkpoint, &file, &hash, bytes, part->data_bytes);
    if (rc)
        return rc;
    part_prefix(checkpoint, number, prefix);
    snprintf(name, sizeof name, "%s%016llx.safetensors", prefix, (unsigned long long)spotnik_hash_end(&hash));
    return spotnik_shelf_file_end(&file, name);
}

static int write_parts(struct spotnik_checkpoint *checkpoint, const char *entry)
{
    const uint8_t *at = checkpoint->buffer;
    int rc = 0;

    for (uint32_t i = checkpoint->slot.rank; i < checkpoint->part_count && !rc; i += checkpoint->slot.size) {
        rc = write_part(checkpoint, entry, i, at);
        at += checkpoint->part[i].data_bytes;
    }
    return rc;
}

/* --- everybody's parts
 * ------------------------------------------------------------------------------------------- */

static int part_found(struct spotnik_checkpoint *checkpoint, struct spotnik_manifest *manifest,
                      const char *entry, uint32_t number, const char *name)
{
    struct spotnik_manifest_file *file = &manifest->part[number];
    unsigned long long hash = strtoull(name + strlen("part-00000-of-00000-"), NULL, 16);
    char path[PATH_MAX];
    struct stat facts;

    snprintf(path, sizeof path, "%s/%s/%s", checkpoint->dir, entry, name);
    if (strlen(name) > SPOTNIK_MANIFEST_FILE_NAME_MAX || stat(path, &facts))
        return 0; /* not there yet, or no file of ours */
    if (file->name[0] && file->hash != hash)
        return spotnik_error_return(
            SPOTNIK_ERR_MISMATCH,
            "two members wrote different bytes for part %u: their replicas differ, compare "
            "spotnik_state_digest() of all members",
            number + 1);
    snprintf(file->name, sizeof file->name, "%s", name);
    file->hash = hash;
    file->bytes = (uint64_t)facts.st_size;
    if (file->bytes != checkpoint->part[number].header_bytes + checkpoint->part[number].data_bytes)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH, "%s has the wrong size", name);
    return 0;
}

/* Look which parts are there. *ret_all: all of them. */
static int gather(struct spotnik_checkpoint *checkpoint, struct spotnik_manifest *manifest, const char *entry,
                  bool *ret_all)
{
    char path[PATH_MAX], prefix[32];
    unsigned number;
    int rc = 0;

    snprintf(path, sizeof path, "%s/%s", checkpoint->dir, entry);
    DIR *directory = opendir(path);
    if (!directory)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot read %s: %m", path);
    for (const struct dirent *at; !rc && (at = readdir(directory)) != NULL;) {
        if (sscanf(at->d_name, "part-%5u-", &number) != 1 || number < 1 || number > checkpoint->part_count)
            continue;
        part_prefix(checkpoint, number - 1, prefix);
        if (!strncmp(at->d_name, prefix, strlen(prefix)))
            rc = part_found(checkpoint, manifest, entry, number - 1, at->d_name);
    }
    closedir(directory);
    *ret_all = true;
    for (uint32_t i = 0; i < checkpoint->part_count; i++)
        *ret_all &= manifest->part[i].name[0] != 0;
    return rc;
}

/* --- waiting for the others
 * -------------------------------------------------------------------------------------- */

static bool others_went_on(const struct spotnik_checkpoint *checkpoint)
{
    struct spotnik_shelf_list list;
    bool later = false;

    if (spotnik_shelf_list(checkpoint->dir, &list))
        return false;
    for (uint32_t i = 0; i < list.count; i++)
        later |=
            list.entry[i].founding == checkpoint->slot.founding && list.entry[i].step > checkpoint->slot.step;
    spotnik_shelf_list_done(&list);
    return later;
}

struct patience {
    uint64_t begun_ns, until_ns;
};

/* 0: look again. */
static int wait_more(struct spotnik_checkpoint *checkpoint, struct patience *patience)
{
    uint64_t now_ns = spotnik_thread_now_ns();
    uint64_t wait_ns = (now_ns - patience->begun_ns) / 10;

    if (others_went_on(checkpoint))
        return spotnik_error_return(SPOTNIK_ERR_STATE, "the others have gone on to a later one");
    if (now_ns >= patience->until_ns)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "a member was lost, or did not write its part in time");
    pthread_mutex_lock(&checkpoint->lock);
    bool changed = checkpoint->view_epoch != checkpoint->slot.view_epoch;
    pthread_mutex_unlock(&checkpoint->lock);
    if (changed)
        patience->until_ns = spotnik_time_min(patience->until_ns, now_ns + PATIENCE_VIEW_NS);
    wait_ns = wait_ns < LOOK_MIN_NS ? LOOK_MIN_NS : spotnik_time_min(wait_ns, LOOK_MAX_NS);
    return spotnik_checkpoint_pause(checkpoint, wait_ns) ? stopped() : 0;
}

/* Not rank 0: until the manifest is there. */
static int await(struct spotnik_checkpoint *checkpoint, const char *entry)
{
    struct patience patience = { .begun_ns = spotnik_thread_now_ns() };
    int rc = 0;

    patience.until_ns = patience.begun_ns + PATIENCE_NS;
    while (!rc && !spotnik_shelf_has(checkpoint->dir, entry, SPOTNIK_MANIFEST_NAME))
        rc = wait_more(checkpoint, &patience);
    return rc;
}

/* --- rank 0
 * ------------------------------------------------------------------------------------------------------ */

static int write_blobs(struct spotnik_checkpoint *checkpoint, const char *entry,
                       struct spotnik_manifest_file *ret)
{
    const struct spotnik_checkpoint_slot *slot = &checkpoint->slot;

    snprintf(ret->name, sizeof ret->name, "blobs-%016llx.safetensors", (unsigned long long)slot->member);
    ret->bytes = slot->blobs_bytes;
    ret->hash = spotnik_hash_bytes(slot->blobs, slot->blobs_bytes);
    return spotnik_shelf_put(checkpoint->dir, entry, ret->name, slot->member, slot->blobs, slot->blobs_bytes);
}

static int write_manifest(struct spotnik_checkpoint *checkpoint, const char *entry,
                          struct spotnik_manifest *manifest)
{
    const struct spotnik_checkpoint_slot *slot = &checkpoint->slot;
    char *text;
    size_t size;

    snprintf(manifest->job, sizeof manifest->job, "%s", checkpoint->job);
    manifest->step = slot->step;
    manifest->founding = slot->founding;
    manifest->size = slot->size;
    manifest->part_count = checkpoint->part_count;
    spotnik_ledger_copy(&manifest->ledger, &slot->ledger);
    int rc = spotnik_manifest_write(manifest, checkpoint->registry, &text, &size);

    if (rc)
        return rc;
    rc = spotnik_shelf_put(checkpoint->dir, entry, SPOTNIK_MANIFEST_NAME, slot->member, text, size);
    free(text);
    return rc;
}

static int gather_all(struct spotnik_checkpoint *checkpoint, const char *entry,
                      struct spotnik_manifest *manifest)
{
    struct patience patience = { .begun_ns = spotnik_thread_now_ns() };
    bool all = false;
    int rc = gather(checkpoint, manifest, entry, &all);

    patience.until_ns = patience.begun_ns + PATIENCE_NS;
    while (!rc && !all) {
        rc = wait_more(checkpoint, &patience);
        if (!rc)
            rc = gather(checkpoint, manifest, entry, &all);
    }
    return rc;
}

static int complete(struct spotnik_checkpoint *checkpoint, const char *entry)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    uint64_t begun_ns = spotnik_thread_now_ns();
    int rc = manifest ? 0 : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");

    if (!rc && !checkpoint->slot.has_ledger)
        rc = spotnik_error_return(SPOTNIK_ERR_STATE, "this member had come in behind the others");
    if (!rc)
        rc = write_blobs(checkpoint, entry, &manifest->blobs);
    if (!rc)
        rc = gather_all(checkpoint, entry, manifest);
    if (!rc)
        rc = write_manifest(checkpoint, entry, manifest);
    free(manifest);
    if (rc)
        return rc;
    spotnik_shelf_prune(checkpoint->dir, checkpoint->config.keep);
    /* The others see the manifest a little later; be the last to be free again. */
    if (checkpoint->slot.size > 1)
        spotnik_checkpoint_pause(checkpoint, 2 * LOOK_MIN_NS + (spotnik_thread_now_ns() - begun_ns) / 5);
    return 0;
}

int spotnik_checkpoint_write(struct spotnik_checkpoint *checkpoint)
{
    char entry[SPOTNIK_SHELF_NAME_MAX + 1];

    spotnik_shelf_entry_name(checkpoint->slot.step, checkpoint->slot.founding, entry);
    int rc = spotnik_shelf_entry_make(checkpoint->dir, entry);

    if (!rc)
        rc = write_parts(checkpoint, entry);
    if (!rc)
        rc = checkpoint->slot.rank ? await(checkpoint, entry) : complete(checkpoint, entry);
    return rc;
}
