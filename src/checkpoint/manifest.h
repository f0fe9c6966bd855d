/* SPDX-License-Identifier: Apache-2.0 */
/* The file that makes a directory of parts a checkpoint. It says what job and step it is, where the
 * data stand, and length and hash of every other file. It is written last, so where it is whole,
 * all is. What makes the file itself whole, and whose it is, stands around the JSON
 * (manifest_frame.h). Bytes only; decides nothing. */
#ifndef SPOTNIK_CHECKPOINT_MANIFEST_H
#define SPOTNIK_CHECKPOINT_MANIFEST_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/ledger.h"
#include "checkpoint/layout.h"
#include "checkpoint/manifest_frame.h"
#include "transfer/registry.h"

#define SPOTNIK_MANIFEST_NAME "manifest.json"
#define SPOTNIK_MANIFEST_BYTES_MAX ((size_t)16 << 20)
#define SPOTNIK_MANIFEST_FILE_NAME_MAX 95
#define SPOTNIK_MANIFEST_ROLE 32

struct spotnik_manifest_file {
    char name[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1]; /* inside the directory: no slash in it */
    uint64_t bytes;
    char digest[SPOTNIK_DIGEST_TEXT];
};

struct spotnik_manifest {
    enum spotnik_manifest_state state; /* as it was read */
    char signer[SPOTNIK_SIGNER_NAME];  /* the name of the key; "": unsigned */
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

/* The role of file `number` in its entry, which begins its name: a part; at `parts` the blobs. */
void spotnik_manifest_role(uint32_t number, uint32_t parts, char ret[SPOTNIK_MANIFEST_ROLE]);

/* The name of a file: "<role><digest>.safetensors". */
void spotnik_manifest_name(const char *role, const char *digest,
                           char ret[SPOTNIK_MANIFEST_FILE_NAME_MAX + 1]);

/* The text of `manifest` with the tensors of `registry`, for checkpoint `entry`, signed by `signer`
 * if it has a key. The caller frees *ret_text. Errors: MEMORY, SYSTEM, ARGUMENT (a number or a name
 * that JSON cannot hold). */
int spotnik_manifest_write(const struct spotnik_manifest *manifest,
                           const struct spotnik_registry *registry,
                           const struct spotnik_signer *signer, const char *entry, char **ret_text,
                           size_t *ret_size);

/* Read untrusted bytes into an empty manifest. It is verified as far as `signer` can: whether a job
 * may use it is in ret->state. Errors: PEERS (torn, changed, or not a manifest: the detail says
 * which), VERSION (of another format), MEMORY, SYSTEM; the manifest is empty then. */
int spotnik_manifest_read(struct spotnik_manifest *ret, const struct spotnik_signer *signer,
                          const char *entry, const uint8_t *bytes, size_t size);

#endif
