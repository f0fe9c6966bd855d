/* SPDX-License-Identifier: Apache-2.0 */
/* The files of one checkpoint. Every member writes its parts. Rank 0 writes the manifest when all
 * of them are there, and the others see by it that the checkpoint is complete. Nothing here
 * waits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/checkpoint_inside.h"
#include "checkpoint/checkpoint_store.h"

#define UPLOADS 4 /* parts at once, each in up to four requests */

/* The name of `work`. */
static void entry_name(const struct spotnik_checkpoint *checkpoint,
                       char ret_name[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1])
{
    const struct spotnik_checkpoint_slot *work = &checkpoint->work;

    if (work->minority)
        spotnik_checkpoint_store_minority_name(work->step, work->digest, ret_name);
    else
        spotnik_checkpoint_store_entry_name(work->step, work->founding, ret_name);
}

/* ---- our parts ---- */

static bool is_stopping(void *context)
{
    return spotnik_checkpoint_is_stopping(context);
}

static int part_digest(const struct spotnik_checkpoint *checkpoint, const char *entry,
                       const char *role, const struct iovec piece[2],
                       char ret_digest[SPOTNIK_DIGEST_TEXT])
{
    struct spotnik_signature signature;
    int rc = spotnik_signature_begin(&signature, &checkpoint->config.signer, entry, role);

    if (rc)
        return rc;
    for (int i = 0; i < 2; i++)
        spotnik_signature_add(&signature, piece[i].iov_base, piece[i].iov_len);
    return spotnik_signature_end(&signature, ret_digest);
}

/* Its digest is a part of its name, so it comes first. */
static int write_part(struct spotnik_checkpoint *checkpoint, const char *entry, uint32_t number,
                      uint8_t *bytes)
{
    const struct spotnik_part *part = &checkpoint->part[number];
    char role[SPOTNIK_MANIFEST_ROLE], name[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1];
    char digest[SPOTNIK_DIGEST_TEXT];
    struct iovec piece[] = { { .iov_base = part->header, .iov_len = part->header_bytes },
                             { .iov_base = bytes, .iov_len = part->data_bytes } };
    struct spotnik_objects_pieces pieces = {
        .piece = piece, .count = 2, .is_stopped = is_stopping, .context = checkpoint
    };

    spotnik_manifest_role(number, checkpoint->part_count, role);
    int rc = part_digest(checkpoint, entry, role, piece, digest);

    if (rc)
        return rc;
    spotnik_manifest_name(role, digest, name);
    return spotnik_checkpoint_store_write(checkpoint->dir, entry, name, checkpoint->work.member,
                                          &pieces);
}

struct parts {
    struct spotnik_checkpoint *checkpoint;
    const char *entry;
};

static int write_own(void *context, uint32_t number)
{
    struct parts *parts = context;
    struct spotnik_checkpoint *checkpoint = parts->checkpoint;
    uint8_t *at = checkpoint->buffer;
    uint32_t part = checkpoint->work.rank;

    for (; number > 0; number--, part += checkpoint->work.size)
        at += checkpoint->part[part].data_bytes;
    return write_part(checkpoint, parts->entry, part, at);
}

/* A bucket is faster for several connections; a disk is not for several files. */
static uint32_t at_once(const struct spotnik_checkpoint *checkpoint)
{
    return spotnik_objects_is_bucket(checkpoint->dir) ? UPLOADS : 1;
}

static int write_parts(struct spotnik_checkpoint *checkpoint, const char *entry)
{
    const struct spotnik_checkpoint_slot *work = &checkpoint->work;
    struct parts parts = { .checkpoint = checkpoint, .entry = entry };
    uint32_t own = work->rank < checkpoint->part_count
                       ? (checkpoint->part_count - work->rank - 1) / work->size + 1
                       : 0;

    return spotnik_parallel(own, at_once(checkpoint), write_own, &parts);
}

/* ---- everybody's parts ---- */

struct gathering {
    struct spotnik_checkpoint *checkpoint;
    struct spotnik_manifest *manifest;
};

/* "<role><digest>.safetensors", of a digest as ours are. False: none of ours. */
static bool digest_find(const struct spotnik_checkpoint *checkpoint, const char *role,
                        const char *name, char ret_digest[SPOTNIK_DIGEST_TEXT])
{
    size_t digits = spotnik_signer_digits(&checkpoint->config.signer), length = strlen(role);
    char again[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1];

    if (strncmp(name, role, length) != 0)
        return false;
    snprintf(ret_digest, SPOTNIK_DIGEST_TEXT, "%.*s", (int)digits, name + length);
    spotnik_manifest_name(role, ret_digest, again);
    return spotnik_digest_is(ret_digest, digits) && !strcmp(again, name);
}

static int part_found(struct gathering *gathering, uint32_t number, const char *digest,
                      const struct spotnik_object *object)
{
    struct spotnik_manifest_file *file = &gathering->manifest->part[number];
    const struct spotnik_part *part = &gathering->checkpoint->part[number];

    if (file->name[0] && strcmp(file->digest, digest))
        return spotnik_error_return(
            SPOTNIK_ERR_MISMATCH,
            "two members wrote different bytes for part %u: their replicas differ, compare "
            "spotnik_state_digest() of all members",
            number + 1);
    snprintf(file->name, sizeof file->name, "%s", object->name);
    snprintf(file->digest, sizeof file->digest, "%s", digest);
    file->bytes = object->size;
    if (file->bytes != part->header_bytes + part->data_bytes)
        return spotnik_error_return(SPOTNIK_ERR_MISMATCH, "%s has the wrong size", object->name);
    return 0;
}

static int gather_one(void *context, const struct spotnik_object *object)
{
    struct gathering *gathering = context;
    uint32_t parts = gathering->checkpoint->part_count;
    char role[SPOTNIK_MANIFEST_ROLE], digest[SPOTNIK_DIGEST_TEXT];
    unsigned number;

    if (sscanf(object->name, "part-%5u-", &number) != 1 || number < 1 || number > parts
        || object->size == UINT64_MAX)
        return 0; /* not there yet, or no file of ours */
    spotnik_manifest_role(number - 1, parts, role);
    return digest_find(gathering->checkpoint, role, object->name, digest)
               ? part_found(gathering, number - 1, digest, object)
               : 0;
}

/* Look which parts are there. *ret_all: all of them. */
static int gather(struct spotnik_checkpoint *checkpoint, struct spotnik_manifest *manifest,
                  const char *entry, bool *ret_all)
{
    struct gathering gathering = { .checkpoint = checkpoint, .manifest = manifest };
    int rc = spotnik_checkpoint_store_files(checkpoint->dir, entry, gather_one, &gathering);

    *ret_all = true;
    for (uint32_t i = 0; i < checkpoint->part_count; i++)
        *ret_all &= manifest->part[i].name[0] != 0;
    return rc;
}

void spotnik_checkpoint_missing(struct spotnik_checkpoint *checkpoint, char *text, size_t size)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    uint32_t missing = 0, first = 0;
    bool all = false;

    snprintf(text, size, "the next one came before the parts of all members were there");
    entry_name(checkpoint, entry);
    if (manifest && !gather(checkpoint, manifest, entry, &all))
        for (uint32_t i = checkpoint->part_count; i > 0; i--)
            if (!manifest->part[i - 1].name[0]) {
                missing++;
                first = i - 1;
            }
    if (missing)
        snprintf(text, size,
                 "when the next one came, %u of %u parts were missing, part %u first: it was for "
                 "rank %u of "
                 "%u to write",
                 missing, checkpoint->part_count, first + 1, first % checkpoint->work.size,
                 checkpoint->work.size);
    free(manifest);
}

/* ---- rank 0 ---- */

static int write_blobs(struct spotnik_checkpoint *checkpoint, const char *entry)
{
    struct spotnik_checkpoint_slot *work = &checkpoint->work;
    struct spotnik_manifest_file *file = &work->blobs_file;
    char role[SPOTNIK_MANIFEST_ROLE];

    spotnik_manifest_role(checkpoint->part_count, checkpoint->part_count, role);
    snprintf(file->name, sizeof file->name, "%s%016llx.safetensors", role,
             (unsigned long long)work->member);
    file->bytes = work->blobs_bytes;
    int rc = spotnik_signature_make(&checkpoint->config.signer, entry, role, work->blobs,
                                    work->blobs_bytes, file->digest);

    return rc ? rc
              : spotnik_checkpoint_store_put(checkpoint->dir, entry, file->name, work->member,
                                             work->blobs, work->blobs_bytes);
}

static int write_manifest(struct spotnik_checkpoint *checkpoint, const char *entry,
                          struct spotnik_manifest *manifest)
{
    const struct spotnik_checkpoint_slot *work = &checkpoint->work;
    char *text;
    size_t size;

    SPOTNIK_ASSERT(manifest);
    snprintf(manifest->job, sizeof manifest->job, "%s", checkpoint->job);
    manifest->step = work->step;
    manifest->founding = work->founding;
    manifest->size = work->size;
    manifest->minority = work->minority;
    manifest->part_count = checkpoint->part_count;
    manifest->blobs = work->blobs_file;
    spotnik_ledger_copy(&manifest->ledger, &work->ledger);
    int rc = spotnik_manifest_write(manifest, checkpoint->registry, &checkpoint->config.signer,
                                    entry, &text, &size);

    if (rc)
        return rc;
    rc = spotnik_checkpoint_store_put(checkpoint->dir, entry, SPOTNIK_MANIFEST_NAME, work->member,
                                      text, size);
    free(text);
    return rc;
}

/* Those before them, of our lineage. Not for a minority: its state takes the place of none. */
static uint32_t prune(struct spotnik_checkpoint *checkpoint, uint32_t keep)
{
    if (checkpoint->work.minority)
        return 0;
    struct spotnik_founding founding = spotnik_runtime_past(checkpoint->runtime);
    uint64_t ours = checkpoint->work.founding,
             root = spotnik_checkpoint_store_root(checkpoint->dir, ours);

    if (!root) {
        root = founding.id == ours ? founding.root : ours;
        spotnik_checkpoint_store_root_set(checkpoint->dir, ours, root);
    }
    return spotnik_checkpoint_store_prune(checkpoint->dir, ours, root, keep);
}

static bool may_publish(const struct spotnik_checkpoint *checkpoint)
{
    return checkpoint->work.minority || !checkpoint->config.may_publish
           || checkpoint->config.may_publish(checkpoint->config.context);
}

/* On a full disk the newest complete checkpoint is worth more than those before it: make room. A
 * lineage that was replaced must not: what it would remove may be of the one that goes on. False:
 * that is not what is wrong, or nothing could be removed. */
static bool make_room(struct spotnik_checkpoint *checkpoint)
{
    bool full = errno == ENOSPC || errno == EDQUOT;
    uint32_t removed = full && may_publish(checkpoint) ? prune(checkpoint, 1) : 0;

    if (!removed)
        return false;
    pthread_mutex_lock(&checkpoint->lock);
    snprintf(checkpoint->info.message, sizeof checkpoint->info.message,
             "the disk under %.300s is full: %u older checkpoints were removed to make room for "
             "the one after step %llu",
             checkpoint->dir, removed, (unsigned long long)checkpoint->work.step);
    pthread_mutex_unlock(&checkpoint->lock);
    return true;
}

static int complete(struct spotnik_checkpoint *checkpoint, const char *entry, bool *ret_complete)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    bool all = false;
    int rc = manifest ? gather(checkpoint, manifest, entry, &all)
                      : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");

    if (!rc && all && !may_publish(checkpoint))
        rc = spotnik_error_return(SPOTNIK_ERR_LINEAGE,
                                  "the job was founded again without this lineage");
    errno = 0;
    if (!rc && all)
        rc = write_manifest(checkpoint, entry, manifest);
    if (rc && make_room(checkpoint))
        rc = write_manifest(checkpoint, entry, manifest);
    free(manifest);
    if (rc || !all)
        return rc;
    prune(checkpoint, checkpoint->config.keep);
    *ret_complete = true;
    return 0;
}

/* ---- for the thread ---- */

int spotnik_checkpoint_look(struct spotnik_checkpoint *checkpoint, bool *ret_complete)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    entry_name(checkpoint, entry);
    if (checkpoint->work.rank == 0)
        return complete(checkpoint, entry, ret_complete);
    *ret_complete = spotnik_checkpoint_store_has(checkpoint->dir, entry, SPOTNIK_MANIFEST_NAME);
    return *ret_complete || errno != EIO ? 0 : SPOTNIK_ERR_SYSTEM;
}

static int write_all(struct spotnik_checkpoint *checkpoint)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    entry_name(checkpoint, entry);
    int rc = spotnik_checkpoint_store_entry_make(checkpoint->dir, entry);

    if (!rc)
        rc = write_parts(checkpoint, entry);
    if (rc || checkpoint->work.rank)
        return rc;
    if (!checkpoint->work.has_ledger)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "rank 0, this member, had come in behind the others");
    return write_blobs(checkpoint, entry);
}

int spotnik_checkpoint_write(struct spotnik_checkpoint *checkpoint)
{
    errno = 0;
    int rc = write_all(checkpoint);

    return rc && make_room(checkpoint) ? write_all(checkpoint) : rc;
}

/* ---- a member that leaves last ---- */

/* Our own parts first: members that leave together share the work. Then whatever is missing by
 * then; two members that write one part write the same file. */
static int write_missing(struct spotnik_checkpoint *checkpoint, const char *entry,
                         struct spotnik_manifest *manifest, uint32_t number)
{
    bool all = false;
    int rc = gather(checkpoint, manifest, entry, &all);

    if (rc || manifest->part[number].name[0])
        return rc;
    spotnik_part_copy_out(&checkpoint->part[number], checkpoint->registry, SPOTNIK_REGISTRY_ALL,
                          checkpoint->buffer);
    if (spotnik_registry_is_failed(checkpoint->registry))
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, SPOTNIK_CHECKPOINT_UNREAD);
    return write_part(checkpoint, entry, number, checkpoint->buffer);
}

static int write_every_part(struct spotnik_checkpoint *checkpoint, const char *entry)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    const struct spotnik_checkpoint_slot *work = &checkpoint->work;
    int rc = manifest ? 0 : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");

    for (int others = 0; others < 2; others++)
        for (uint32_t i = 0; i < checkpoint->part_count && !rc; i++)
            if ((i % work->size == work->rank) != others)
                rc = write_missing(checkpoint, entry, manifest, i);
    free(manifest);
    return rc;
}

int spotnik_checkpoint_write_whole(struct spotnik_checkpoint *checkpoint, bool *ret_complete)
{
    char entry[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];

    entry_name(checkpoint, entry);
    *ret_complete = spotnik_checkpoint_store_has(checkpoint->dir, entry, SPOTNIK_MANIFEST_NAME);
    if (*ret_complete)
        return 0;
    int rc = spotnik_checkpoint_store_entry_make(checkpoint->dir, entry);

    if (!rc)
        rc = write_every_part(checkpoint, entry);
    if (!rc)
        rc = write_blobs(checkpoint, entry);
    return rc ? rc : complete(checkpoint, entry, ret_complete);
}
