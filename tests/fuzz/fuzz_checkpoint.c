/* SPDX-License-Identifier: Apache-2.0 */
/* Manifests of checkpoints, and headers of the files beside them. The digest around a manifest
 * keeps out all accidents, so the input is taken three ways: as a manifest, as what stands inside
 * one under a right digest, and as a file of blobs; with a key and without. What is accepted comes
 * out the same when written and read again, and its tensors can be cut into its parts. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "fuzz.h"
#include "spotnik/spotnik.h"
#include "checkpoint/manifest.h"

#define ENTRY "step-000000000009-1d846378adcc683e"

static const struct spotnik_signer no_key;

static void files_compare(const struct spotnik_manifest_file *a,
                          const struct spotnik_manifest_file *b)
{
    SPOTNIK_ASSERT(!strcmp(a->name, b->name));
    SPOTNIK_ASSERT(a->bytes == b->bytes && !strcmp(a->digest, b->digest));
    SPOTNIK_ASSERT(!strchr(a->name, '/') && a->name[0] != '.');
}

static void again(const struct spotnik_manifest *manifest, const struct spotnik_signer *signer)
{
    struct spotnik_manifest *copy = calloc(1, sizeof *copy);
    char *text = NULL;
    size_t size;

    SPOTNIK_ASSERT(copy);
    int rc = spotnik_manifest_write(manifest, &manifest->schema, signer, ENTRY, &text, &size);
    SPOTNIK_ASSERT(rc == 0);
    rc = spotnik_manifest_read(copy, signer, ENTRY, (const uint8_t *)text, size);
    SPOTNIK_ASSERT(rc == 0);
    SPOTNIK_ASSERT(!strcmp(copy->job, manifest->job) && copy->step == manifest->step);
    SPOTNIK_ASSERT(copy->founding == manifest->founding
                   && copy->part_count == manifest->part_count);
    SPOTNIK_ASSERT(spotnik_ledger_equal(&copy->ledger, &manifest->ledger));
    SPOTNIK_ASSERT(spotnik_ledger_is_valid(&copy->ledger));
    SPOTNIK_ASSERT(spotnik_registry_compare(&copy->schema, &manifest->schema) == 0);
    files_compare(&copy->blobs, &manifest->blobs);
    for (uint32_t i = 0; i < copy->part_count; i++)
        files_compare(&copy->part[i], &manifest->part[i]);
    spotnik_manifest_done(copy);
    free(copy);
    free(text);
}

static void cut(const struct spotnik_manifest *manifest)
{
    struct spotnik_part part;
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < manifest->part_count; i++) {
        int rc = spotnik_part_init(&part, &manifest->schema, manifest->part_count, i);

        SPOTNIK_ASSERT(rc == 0);
        SPOTNIK_ASSERT(part.header_bytes % 8 == 0);
        bytes += part.data_bytes;
        spotnik_part_done(&part);
    }
    SPOTNIK_ASSERT(bytes == manifest->schema.bytes);
}

/* What another key has signed is read, to be shown, and is never written. */
static void as_manifest(const struct spotnik_signer *signer, const uint8_t *data, size_t size)
{
    struct spotnik_manifest *manifest = calloc(1, sizeof *manifest);

    SPOTNIK_ASSERT(manifest);
    if (spotnik_manifest_read(manifest, signer, ENTRY, data, size) == 0) {
        if (manifest->state != SPOTNIK_MANIFEST_ANOTHERS)
            again(manifest, manifest->signer[0] ? signer : &no_key);
        cut(manifest);
    } else {
        SPOTNIK_ASSERT(manifest->schema.count == 0 && manifest->step == 0);
    }
    spotnik_manifest_done(manifest);
    free(manifest);
}

static void under_a_right_digest(const struct spotnik_signer *signer, const uint8_t *data,
                                 size_t size)
{
    char *body = malloc(size + 1), *text = NULL;
    size_t length;

    SPOTNIK_ASSERT(body);
    memcpy(body, data, size);
    body[size] = '\0';
    int rc = spotnik_manifest_frame(signer, ENTRY, body, &text, &length);
    SPOTNIK_ASSERT(rc == 0);
    as_manifest(signer, (const uint8_t *)text, length);
    free(text);
    free(body);
}

static void as_blobs(const uint8_t *data, size_t size)
{
    static struct spotnik_blobs blobs, copy;
    uint8_t *bytes;
    size_t length;

    if (spotnik_blobs_file_read(&blobs, data, size))
        return;
    if (spotnik_blobs_file(&blobs, &bytes, &length) == 0) {
        int rc = spotnik_blobs_file_read(&copy, bytes, length);

        SPOTNIK_ASSERT(rc == 0 && copy.count == blobs.count && copy.bytes == blobs.bytes);
        free(bytes);
    }
    spotnik_blobs_done(&blobs);
    spotnik_blobs_done(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct spotnik_signer signer;
    const uint8_t key[32] = { 1 };
    int rc = signer.has_key ? 0 : spotnik_signer_init(&signer, key);

    SPOTNIK_ASSERT(rc == 0);
    as_manifest(&no_key, data, size);
    as_manifest(&signer, data, size);
    under_a_right_digest(&no_key, data, size);
    under_a_right_digest(&signer, data, size);
    as_blobs(data, size);
    return 0;
}
