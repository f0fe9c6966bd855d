/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik checkpoint adopt: a checkpoint under another key, in its place. The bytes that are
 * verified are those that are signed: each file is read into memory once more for it. New parts
 * stand beside the old ones until the new manifest has taken the place of the old one. */
#include "checkpoint_adopt.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/checkpoint_store.h"
#include "checkpoint/reading.h"
#include "checkpoint/resume.h"
#include "spotnik/spotnik.h"

#define AT_ONCE 4 /* files, each of them in memory */

struct adoption {
    const char *dir, *name;
    const struct spotnik_signer *from, *to;
    struct spotnik_manifest *before, *after; /* they share the tensors */
    uint64_t writer;
};

static int file_write(const struct adoption *adoption, uint32_t number, const char *role,
                      const uint8_t *bytes, size_t size)
{
    bool is_part = number < adoption->after->part_count;
    struct spotnik_manifest_file *file =
        is_part ? &adoption->after->part[number] : &adoption->after->blobs;
    int rc = spotnik_signature_make(adoption->to, adoption->name, role, bytes, size, file->digest);

    if (rc || !is_part) /* the blobs keep their name, and so their file */
        return rc;
    spotnik_manifest_name(role, file->digest, file->name);
    return spotnik_checkpoint_store_put(adoption->dir, adoption->name, file->name,
                                        adoption->writer + number, bytes, size);
}

static int file_adopt(void *context, uint32_t number)
{
    const struct adoption *adoption = context;
    char role[SPOTNIK_MANIFEST_ROLE];
    uint8_t *bytes;
    size_t size;
    struct spotnik_reading reading = { .dir = adoption->dir,
                                       .entry = adoption->name,
                                       .signer = adoption->from,
                                       .manifest = adoption->before };
    int rc = spotnik_reading_file(&reading, number, &bytes, &size);

    if (rc)
        return rc;
    spotnik_manifest_role(number, adoption->after->part_count, role);
    rc = file_write(adoption, number, role, bytes, size);
    free(bytes);
    return rc;
}

static int manifest_write(const struct adoption *adoption)
{
    char *text;
    size_t size;
    int rc = spotnik_manifest_write(adoption->after, &adoption->after->schema, adoption->to,
                                    adoption->name, &text, &size);

    if (rc)
        return rc;
    rc = spotnik_checkpoint_store_replace(adoption->dir, adoption->name, SPOTNIK_MANIFEST_NAME,
                                          adoption->writer, text, size);
    free(text);
    return rc;
}

static void old_remove(const struct adoption *adoption)
{
    for (uint32_t i = 0; i < adoption->before->part_count; i++)
        if (strcmp(adoption->before->part[i].name, adoption->after->part[i].name))
            spotnik_checkpoint_store_remove(adoption->dir, adoption->name,
                                            adoption->before->part[i].name);
}

/* An unsigned manifest may have been put under another name, and that name is signed. */
static int name_check(const char *name, const struct spotnik_manifest *manifest)
{
    char own[SPOTNIK_CHECKPOINT_STORE_NAME_MAX + 1];
    size_t length = sizeof own;

    if (manifest->minority) {
        spotnik_checkpoint_store_minority_name(manifest->step, 0, own);
        length = strlen(own) - 16; /* of which state it is, the manifest does not say */
    } else {
        spotnik_checkpoint_store_entry_name(manifest->step, manifest->founding, own);
    }
    return !strncmp(own, name, length)
               ? 0
               : spotnik_error_return(SPOTNIK_ERR_CHECKPOINT,
                                      "by its manifest its name is %s: rename it, if it is that",
                                      own);
}

static int adopt(struct adoption *adoption)
{
    int rc =
        spotnik_checkpoint_verify(adoption->dir, adoption->name, adoption->from, adoption->before);

    if (rc)
        return rc;
    *adoption->after = *adoption->before;
    rc = name_check(adoption->name, adoption->before);
    if (!rc)
        rc = spotnik_parallel(adoption->before->part_count + 1, AT_ONCE, file_adopt, adoption);
    if (!rc)
        rc = manifest_write(adoption);
    if (!rc)
        old_remove(adoption);
    spotnik_manifest_done(adoption->before);
    return rc;
}

/* By what it can be verified. */
static int from_find(struct adoption *adoption, const struct spotnik_signer *old)
{
    static const struct spotnik_signer none;
    struct spotnik_manifest *manifest = adoption->before;
    char signer[SPOTNIK_SIGNER_NAME];
    int rc = spotnik_checkpoint_look_at(adoption->dir, adoption->name, adoption->to, manifest);

    if (rc)
        return rc;
    enum spotnik_manifest_state state = manifest->state;

    memcpy(signer, manifest->signer, sizeof signer);
    spotnik_manifest_done(manifest);
    adoption->from = state == SPOTNIK_MANIFEST_ANOTHERS ? old
                     : state == SPOTNIK_MANIFEST_SIGNED ? adoption->to
                                                        : &none;
    if (state == SPOTNIK_MANIFEST_SIGNED && !strcmp(signer, adoption->to->name))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "it is signed by this key already");
    if (state == SPOTNIK_MANIFEST_ANOTHERS && !old->has_key)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT,
                                    "key %s has signed it: give the file of that key as "
                                    "--old-key-file",
                                    signer);
    return 0;
}

int checkpoint_adopt(const char *dir, const char *name, const struct spotnik_signer *signer,
                     const struct spotnik_signer *old)
{
    struct spotnik_manifest *manifest = calloc(2, sizeof *manifest);
    struct adoption adoption = { .dir = dir,
                                 .name = name,
                                 .to = signer,
                                 .before = manifest,
                                 .after = manifest ? manifest + 1 : NULL,
                                 .writer = (uint64_t)getpid() << 32 | (uint64_t)time(NULL) << 8 };
    int rc = manifest ? from_find(&adoption, old)
                      : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");

    if (!rc)
        rc = adopt(&adoption);
    free(manifest);
    return rc;
}
