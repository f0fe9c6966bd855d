/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik checkpoint copy: a checkpoint from one folder or bucket to another. Every byte is
 * compared with the manifest on its way, unless a key that is not here has signed it. The manifest
 * comes last: what is there when this is ended is no checkpoint. */
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
#include "checkpoint_copy.h"
#include "spotnik/spotnik.h"

#define AT_ONCE 4 /* files, each of them in memory */

struct copy {
    const char *from, *to, *name;
    const struct spotnik_signer *signer;
    const struct spotnik_manifest *manifest;
    uint64_t writer;
};

static int file_get(const struct copy *copy, uint32_t number,
                    const struct spotnik_manifest_file *file, uint8_t **ret_bytes, size_t *ret_size)
{
    struct spotnik_reading reading = {
        .dir = copy->from, .entry = copy->name, .signer = copy->signer, .manifest = copy->manifest
    };

    if (copy->manifest->state != SPOTNIK_MANIFEST_ANOTHERS)
        return spotnik_reading_file(&reading, number, ret_bytes, ret_size);
    int rc = spotnik_checkpoint_store_get(copy->from, copy->name, file->name, (size_t)file->bytes,
                                          ret_bytes, ret_size);

    if (rc || *ret_size == file->bytes)
        return rc;
    free(*ret_bytes);
    return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is cut short", file->name);
}

/* Parts, then the blobs. */
static int file_copy(void *context, uint32_t number)
{
    const struct copy *copy = context;
    const struct spotnik_manifest *manifest = copy->manifest;
    const struct spotnik_manifest_file *file =
        number < manifest->part_count ? &manifest->part[number] : &manifest->blobs;
    uint8_t *bytes;
    size_t size;
    int rc = file_get(copy, number, file, &bytes, &size);

    if (rc)
        return rc;
    rc = spotnik_checkpoint_store_put(copy->to, copy->name, file->name, copy->writer + number,
                                      bytes, size);
    free(bytes);
    return rc;
}

static int manifest_copy(const struct copy *copy)
{
    uint8_t *bytes;
    size_t size;
    int rc = spotnik_checkpoint_store_get(copy->from, copy->name, SPOTNIK_MANIFEST_NAME,
                                          SPOTNIK_MANIFEST_BYTES_MAX, &bytes, &size);

    if (rc)
        return rc;
    rc = spotnik_checkpoint_store_put(copy->to, copy->name, SPOTNIK_MANIFEST_NAME, copy->writer,
                                      bytes, size);
    free(bytes);
    return rc;
}

static int contents_copy(struct copy *copy)
{
    int rc = spotnik_checkpoint_store_open(copy->to);

    if (!rc)
        rc = spotnik_checkpoint_store_entry_make(copy->to, copy->name);
    if (!rc)
        rc = spotnik_parallel(copy->manifest->part_count + 1, AT_ONCE, file_copy, copy);
    return rc ? rc : manifest_copy(copy);
}

int checkpoint_copy(const char *from, const char *to, const char *name,
                    const struct spotnik_signer *signer, bool *ret_verified)
{
    static const struct spotnik_signer none;
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);
    struct copy copy = { .from = from,
                         .to = to,
                         .name = name,
                         .manifest = manifest,
                         .writer = (uint64_t)getpid() << 32 | (uint64_t)time(NULL) << 8 };
    int rc = manifest ? spotnik_checkpoint_look_at(from, name, signer, manifest)
                      : spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a manifest");

    if (!rc) {
        copy.signer = manifest->state == SPOTNIK_MANIFEST_SIGNED ? signer : &none;
        *ret_verified = manifest->state != SPOTNIK_MANIFEST_ANOTHERS;
        rc = contents_copy(&copy);
        spotnik_manifest_done(manifest);
    }
    free(manifest);
    return rc;
}
