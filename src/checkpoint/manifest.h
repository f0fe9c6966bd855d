/* SPDX-License-Identifier: Apache-2.0 */
/* The file that makes a directory of parts a checkpoint. It says what job and step it is, where the
 * data stand, and length and hash of every other file. It is written last, so where it is whole,
 * all is. Bytes only; decides nothing.
 *
 *     {"xxh3":"<16 digits>",<newline>"manifest":<JSON>}<newline>
 *
 * The hash is that of the text of <JSON>, and all around it is fixed: not a single byte can be
 * changed or cut off. */
#ifndef SPOTNIK_CHECKPOINT_MANIFEST_H
#define SPOTNIK_CHECKPOINT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/ledger.h"
#include "checkpoint/layout.h"
#include "transfer/registry.h"

#define SPOTNIK_MANIFEST_NAME "manifest.json"
#define SPOTNIK_MANIFEST_BYTES_MAX ((size_t)16 << 20)
#define SPOTNIK_MANIFEST_FILE_NAME_MAX 95

struct spotnik_manifest_file {
    char name[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1]; /* inside the directory: no slash in it */
    uint64_t bytes, hash;
};

struct spotnik_manifest {
    char job[256];
    uint64_t step;
    uint64_t founding; /* of the job that wrote it */
    uint32_t size;     /* members at that step */
    /* its writers were cut off from the majority, which may have gone on otherwise */
    bool minority;
    struct spotnik_ledger ledger;   /* after `step` */
    struct spotnik_registry schema; /* shapes only */
    uint32_t part_count;
    struct spotnik_manifest_file part[SPOTNIK_PARTS_MAX];
    struct spotnik_manifest_file blobs;
};

/* All zeros is an empty one. Frees the schema. */
void spotnik_manifest_done(struct spotnik_manifest *manifest);

/* The text of `manifest` with the tensors of `registry`. The caller frees *ret_text. Errors:
 * MEMORY, ARGUMENT (a number or a name that JSON cannot hold). */
int spotnik_manifest_write(const struct spotnik_manifest *manifest,
                           const struct spotnik_registry *registry, char **ret_text,
                           size_t *ret_size);

/* Read untrusted bytes into an empty manifest. Errors: PEERS (torn, changed, or not a manifest: the
 * detail says which), VERSION (of another format), MEMORY; the manifest is empty then. */
int spotnik_manifest_read(struct spotnik_manifest *ret, const uint8_t *bytes, size_t size);

#endif
