/* SPDX-License-Identifier: Apache-2.0 */
/* Verifying and loading checkpoints. */
#include "checkpoint/resume.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/parallel.h"
#include "spotnik/spotnik.h"
#include "checkpoint/checkpoint_store.h"

#define READ_BYTES ((size_t)4 << 20)
#define DOWNLOADS 8 /* parts that are read from a bucket at once */

/* ---- one part, read from beginning to end ---- */

struct scan {
    const struct spotnik_part *part;
    struct spotnik_registry *into; /* NULL: only look */
    uint64_t at;                   /* bytes of the file behind us */
    struct spotnik_hash hash;
};

/* The next bytes of the file. False: they are not what the layout says. */
static bool scan_bytes(void *context, const uint8_t *bytes, size_t size)
{
    struct scan *scan = context;
    uint64_t header = scan->part->header_bytes, all = header + scan->part->data_bytes;

    if (size > all - scan->at)
        return false;
    spotnik_hash_add(&scan->hash, bytes, size);
    if (scan->at < header) {
        size_t some = header - scan->at < size ? (size_t)(header - scan->at) : size;

        if (memcmp(bytes, scan->part->header + scan->at, some))
            return false;
        scan->at += some;
        bytes += some;
        size -= some;
    }
    if (scan->into && size)
        spotnik_part_write_in(scan->part, scan->into, scan->at - header, bytes, size);
    scan->at += size;
    return true;
}

struct reading {
    const char *dir, *entry;
    const struct spotnik_manifest *manifest;
    struct spotnik_registry *into; /* its tensors go there; NULL: only look */
};

static int part_read(const struct reading *reading, uint32_t number, uint8_t *buffer)
{
    const struct spotnik_manifest *manifest = reading->manifest;
    const struct spotnik_manifest_file *file = &manifest->part[number];
    struct spotnik_part part;
    int rc = spotnik_part_init(&part, &manifest->schema, manifest->part_count, number);

    if (rc)
        return rc;
    struct scan scan = { .part = &part, .into = reading->into };
    struct spotnik_checkpoint_store_reader reader = {
        .buffer = buffer, .size = READ_BYTES, .take = scan_bytes, .context = &scan
    };
    spotnik_hash_begin(&scan.hash);
    rc = spotnik_checkpoint_store_read(reading->dir, reading->entry, file->name, &reader);
    if (!rc && (scan.at != file->bytes || scan.at != part.header_bytes + part.data_bytes))
        rc = spotnik_error_return(SPOTNIK_ERR_PEERS, "%s has %llu bytes of %llu", file->name,
                                  (unsigned long long)scan.at, (unsigned long long)file->bytes);
    if (!rc && spotnik_hash_end(&scan.hash) != file->hash)
        rc =
            spotnik_error_return(SPOTNIK_ERR_PEERS,
                                 "%s is damaged: its hash is not that of its manifest", file->name);
    spotnik_part_done(&part);
    return rc;
}

static int part_read_one(void *context, uint32_t number)
{
    uint8_t *buffer = malloc(READ_BYTES);
    int rc = buffer ? part_read(context, number, buffer)
                    : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory to read a checkpoint");

    free(buffer);
    return rc;
}

static int parts_read(const char *dir, const char *entry, const struct spotnik_manifest *manifest,
                      struct spotnik_registry *into)
{
    struct reading reading = { .dir = dir, .entry = entry, .manifest = manifest, .into = into };

    return spotnik_parallel(manifest->part_count, spotnik_objects_is_bucket(dir) ? DOWNLOADS : 1,
                            part_read_one, &reading);
}

/* ---- the blobs, and all of it ---- */

static int blobs_read(const char *dir, const char *entry, const struct spotnik_manifest *manifest,
                      struct spotnik_blobs *into)
{
    const struct spotnik_manifest_file *file = &manifest->blobs;
    uint8_t *bytes;
    size_t size;
    int rc = spotnik_checkpoint_store_get(dir, entry, file->name, 2 * SPOTNIK_BLOBS_BYTES_MAX,
                                          &bytes, &size);

    if (rc)
        return rc;
    if (size != file->bytes || spotnik_hash_bytes(bytes, size) != file->hash)
        rc = spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is damaged or cut short", file->name);
    else
        rc = spotnik_blobs_file_read(into, bytes, size);
    free(bytes);
    return rc;
}

int spotnik_checkpoint_manifest(const char *dir, const char *entry, struct spotnik_manifest *ret)
{
    uint8_t *bytes;
    size_t size;

    if (!spotnik_checkpoint_store_has(dir, entry, SPOTNIK_MANIFEST_NAME)
        && (errno == ENOENT || errno == ENOTDIR)) /* else reading it says what is wrong */
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "it has no manifest, so it was never completed");
    int rc = spotnik_checkpoint_store_get(dir, entry, SPOTNIK_MANIFEST_NAME,
                                          SPOTNIK_MANIFEST_BYTES_MAX, &bytes, &size);

    if (rc)
        return rc;
    rc = spotnik_manifest_read(ret, bytes, size);
    free(bytes);
    return rc;
}

static int contents_verify(const char *dir, const char *entry,
                           const struct spotnik_manifest *manifest)
{
    struct spotnik_blobs *scratch = calloc(1, sizeof *scratch);
    int rc = scratch ? blobs_read(dir, entry, manifest, scratch) : SPOTNIK_ERR_MEMORY;

    if (scratch)
        spotnik_blobs_done(scratch);
    free(scratch);
    return rc ? rc : parts_read(dir, entry, manifest, NULL);
}

int spotnik_checkpoint_verify(const char *dir, const char *entry, struct spotnik_manifest *ret)
{
    int rc = spotnik_checkpoint_manifest(dir, entry, ret);

    if (!rc)
        rc = contents_verify(dir, entry, ret);
    if (rc)
        spotnik_manifest_done(ret);
    return rc;
}

/* ---- loading ---- */

static bool is_damage(int rc)
{
    return rc == SPOTNIK_ERR_PEERS || rc == SPOTNIK_ERR_VERSION;
}

static void say(struct spotnik_resume *resume, const char *entry)
{
    size_t have = strlen(resume->message);

    snprintf(resume->message + have, sizeof resume->message - have,
             "%scheckpoint %s was left out: %s", have ? "; " : "", entry, spotnik_last_error());
}

/* Is it ours? Asked before its gigabytes are read. `job` NULL: its user has said so. */
static int belongs(const struct spotnik_manifest *manifest, const char *dir, const char *job,
                   const struct spotnik_registry *registry)
{
    if (job && strcmp(manifest->job, job))
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "%s holds checkpoints of job \"%s\", this is job \"%s\": give each job its own "
            "checkpoint directory",
            dir, manifest->job, job);
    if (spotnik_registry_compare(registry, &manifest->schema)) {
        char why[300];

        snprintf(why, sizeof why, "%s", spotnik_last_error());
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "the checkpoint in %s is of another model: %s. Start the program that wrote it, or "
            "give this one another directory",
            dir, why);
    }
    return 0;
}

static int take(const char *dir, const struct spotnik_checkpoint_store_entry *entry,
                struct spotnik_manifest *manifest, struct spotnik_registry *registry,
                struct spotnik_resume *ret)
{
    int rc = parts_read(dir, entry->name, manifest, registry);

    if (!rc)
        rc = blobs_read(dir, entry->name, manifest, &registry->blobs);
    if (!rc && spotnik_registry_is_failed(registry))
        rc = spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                  "the program could not take over the state that was loaded");
    if (rc)
        return rc;
    ret->step = manifest->step;
    ret->founding = manifest->founding;
    spotnik_ledger_copy(&ret->ledger, &manifest->ledger);
    snprintf(ret->name, sizeof ret->name, "%s", entry->name);
    return 0;
}

static int try_entry(const char *dir, const char *job,
                     const struct spotnik_checkpoint_store_entry *entry,
                     struct spotnik_registry *registry, struct spotnik_resume *ret)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    int rc =
        manifest ? spotnik_checkpoint_manifest(dir, entry->name, manifest) : SPOTNIK_ERR_MEMORY;

    if (!rc)
        rc = belongs(manifest, dir, job, registry);
    /* A bucket is read once: what turns out damaged is loaded over by an older checkpoint, or is an
     * error, after which the state is not used. */
    if (!rc && !spotnik_objects_is_bucket(dir))
        rc = contents_verify(dir, entry->name, manifest);
    if (!rc)
        rc = take(dir, entry, manifest, registry, ret);
    if (manifest)
        spotnik_manifest_done(manifest);
    free(manifest);
    return rc;
}

/* Those newer than the one loaded belong to a past that did not happen: never again to be taken for
 * the newest. */
static void set_aside(const char *dir, const struct spotnik_checkpoint_store_list *list,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (list->entry[i].written_s)
            spotnik_checkpoint_store_set_aside(dir, list->entry[i].name);
}

static int load_newest(const char *dir, const char *job,
                       const struct spotnik_checkpoint_store_list *list,
                       struct spotnik_registry *registry, struct spotnik_resume *ret)
{
    uint32_t damaged = 0;

    for (uint32_t i = 0; i < list->count; i++) {
        int rc = try_entry(dir, job, &list->entry[i], registry, ret);

        if (!rc)
            set_aside(dir, list, i);
        if (!is_damage(rc))
            return rc;
        damaged += list->entry[i].written_s != 0;
        say(ret, list->entry[i].name);
    }
    if (damaged)
        return spotnik_error_return(
            SPOTNIK_ERR_CHECKPOINT,
            "no checkpoint in %s can be used, and a job does not start from scratch over one that "
            "was complete; move them away if you want that. %s",
            dir, ret->message);
    return 0;
}

int spotnik_checkpoint_load(const char *dir, const char *job, struct spotnik_registry *registry,
                            struct spotnik_resume *ret)
{
    struct spotnik_checkpoint_store_list list;

    memset(ret, 0, sizeof *ret);
    int rc = spotnik_checkpoint_store_list(dir, &list);
    if (rc)
        return rc;
    rc = load_newest(dir, job, &list, registry, ret);
    spotnik_checkpoint_store_list_done(&list);
    return rc;
}

/* ---- one that was named ---- */

/* The folder that `path` is in, and its own name. False: it is no name of a checkpoint. */
static bool split(const char *path, char dir[PATH_MAX],
                  char name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    const char *slash = strrchr(path, '/');
    size_t length = slash ? (size_t)(slash - path) : 0;

    if (!slash || length >= PATH_MAX || strlen(slash + 1) > SPOTNIK_CHECKPOINT_STORE_NAME_MAX)
        return false;
    snprintf(dir, PATH_MAX, "%.*s", (int)length, path);
    strcpy(name, slash + 1);
    return true;
}

int spotnik_checkpoint_manifest_at(const char *path, struct spotnik_manifest *ret)
{
    char dir[PATH_MAX], name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    if (!split(path, dir, name))
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "it has no name of a checkpoint");
    return spotnik_checkpoint_manifest(dir, name, ret);
}

int spotnik_checkpoint_load_from(const char *path, struct spotnik_registry *registry,
                                 struct spotnik_resume *ret)
{
    char dir[PATH_MAX], why[300];
    struct spotnik_checkpoint_store_entry entry = { .step = 0 };

    memset(ret, 0, sizeof *ret);
    int rc = split(path, dir, entry.name)
                 ? try_entry(dir, NULL, &entry, registry, ret)
                 : spotnik_error_return(SPOTNIK_ERR_PEERS, "it has no name of a checkpoint");

    snprintf(why, sizeof why, "%s", rc ? spotnik_last_error() : "");
    return is_damage(rc) ? spotnik_error_return(SPOTNIK_ERR_CHECKPOINT,
                                                "the checkpoint %s cannot be used: %s", path, why)
                         : rc;
}
