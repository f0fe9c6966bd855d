/* SPDX-License-Identifier: Apache-2.0 */
/* See reading.h. */
#include "checkpoint/reading.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/parallel.h"
#include "checkpoint/checkpoint_store.h"
#include "spotnik/spotnik.h"

#define READ_BYTES ((size_t)4 << 20)
#define DOWNLOADS 8 /* parts that are read from a bucket at once */

/* ---- one part, read from beginning to end ---- */

struct scan {
    const struct spotnik_part *part;
    struct spotnik_registry *into; /* NULL: only look */
    uint64_t at;                   /* bytes of the file behind us */
    struct spotnik_signature signature;
};

/* The next bytes of the file. False: they are not what the layout says. */
static bool scan_bytes(void *context, const uint8_t *bytes, size_t size)
{
    struct scan *scan = context;
    uint64_t header = scan->part->header_bytes, all = header + scan->part->data_bytes;

    if (size > all - scan->at)
        return false;
    spotnik_signature_add(&scan->signature, bytes, size);
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

/* Is what was read as long as it is to be, and by the digest the same? */
static int file_judge(const struct spotnik_manifest_file *file, uint64_t bytes, const char *digest)
{
    if (bytes != file->bytes)
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "%s has %llu bytes of %llu", file->name,
                                    (unsigned long long)bytes, (unsigned long long)file->bytes);
    if (!spotnik_digest_equal(digest, file->digest))
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "%s is damaged or altered: its hash is not that of its "
                                    "manifest",
                                    file->name);
    return 0;
}

/* The key that signed the manifest has signed its files. */
static const struct spotnik_signer *signer_of(const struct spotnik_reading *reading)
{
    return spotnik_signer_named(reading->signer, reading->manifest->signer);
}

static int scan_file(const struct spotnik_reading *reading, uint32_t number, struct scan *scan,
                     uint8_t *buffer)
{
    const struct spotnik_manifest_file *file = &reading->manifest->part[number];
    struct spotnik_checkpoint_store_reader reader = {
        .buffer = buffer, .size = READ_BYTES, .take = scan_bytes, .context = scan
    };
    char role[SPOTNIK_MANIFEST_ROLE], digest[SPOTNIK_DIGEST_TEXT];

    spotnik_manifest_role(number, reading->manifest->part_count, role);
    int rc = spotnik_signature_begin(&scan->signature, signer_of(reading), reading->entry, role);

    if (rc)
        return rc;
    rc = spotnik_checkpoint_store_read(reading->dir, reading->entry, file->name, &reader);
    int ended = spotnik_signature_end(&scan->signature, digest);

    rc = rc ? rc : ended;
    return rc ? rc : file_judge(file, scan->at, digest);
}

static int part_read(const struct spotnik_reading *reading, uint32_t number, uint8_t *buffer)
{
    const struct spotnik_manifest *manifest = reading->manifest;
    struct spotnik_part part;
    int rc = spotnik_part_init(&part, &manifest->schema, manifest->part_count, number);

    if (rc)
        return rc;
    struct scan scan = { .part = &part, .into = reading->into };

    rc = scan_file(reading, number, &scan, buffer);
    if (!rc && scan.at != part.header_bytes + part.data_bytes)
        rc = spotnik_error_return(SPOTNIK_ERR_PEERS, "%s has another length than its tensors",
                                  manifest->part[number].name);
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

int spotnik_reading_parts(const struct spotnik_reading *reading)
{
    return spotnik_parallel(reading->manifest->part_count,
                            spotnik_objects_is_bucket(reading->dir) ? DOWNLOADS : 1, part_read_one,
                            (void *)(uintptr_t)reading);
}

/* ---- the blobs, and all of it ---- */

int spotnik_reading_file(const struct spotnik_reading *reading, uint32_t number,
                         uint8_t **ret_bytes, size_t *ret_size)
{
    const struct spotnik_manifest *manifest = reading->manifest;
    bool is_part = number < manifest->part_count;
    const struct spotnik_manifest_file *file = is_part ? &manifest->part[number] : &manifest->blobs;
    char role[SPOTNIK_MANIFEST_ROLE], digest[SPOTNIK_DIGEST_TEXT];
    int rc = spotnik_checkpoint_store_get(reading->dir, reading->entry, file->name,
                                          (size_t)file->bytes, ret_bytes, ret_size);

    if (rc)
        return rc;
    spotnik_manifest_role(number, manifest->part_count, role);
    rc = spotnik_signature_make(signer_of(reading), reading->entry, role, *ret_bytes, *ret_size,
                                digest);
    rc = rc ? rc : file_judge(file, *ret_size, digest);
    if (rc)
        free(*ret_bytes);
    return rc;
}

int spotnik_reading_blobs(const struct spotnik_reading *reading, struct spotnik_blobs *into)
{
    const struct spotnik_manifest *manifest = reading->manifest;
    uint8_t *bytes;
    size_t size;
    int rc = manifest->blobs.bytes > 2 * SPOTNIK_BLOBS_BYTES_MAX
                 ? spotnik_error_return(SPOTNIK_ERR_PEERS, "%s is longer than such a file can be",
                                        manifest->blobs.name)
                 : spotnik_reading_file(reading, manifest->part_count, &bytes, &size);

    if (rc)
        return rc;
    rc = spotnik_blobs_file_read(into, bytes, size);
    free(bytes);
    return rc;
}

int spotnik_reading_verify(const struct spotnik_reading *reading)
{
    struct spotnik_blobs *scratch = calloc(1, sizeof *scratch);
    int rc = scratch ? spotnik_reading_blobs(reading, scratch) : SPOTNIK_ERR_MEMORY;

    if (scratch)
        spotnik_blobs_done(scratch);
    free(scratch);
    return rc ? rc : spotnik_reading_parts(reading);
}
