/* SPDX-License-Identifier: Apache-2.0 */
/* From a directory of checkpoints back into memory: which one is the newest that is whole, and
 * loading it. A checkpoint is used only after every byte of it was read and agreed with its
 * manifest. One that is not whole is named, and passed over for an older one. Writes nothing but
 * the registered state, and the names of damaged checkpoints. */
#ifndef SPOTNIK_CHECKPOINT_RESUME_H
#define SPOTNIK_CHECKPOINT_RESUME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "checkpoint/manifest.h"
#include "transfer/registry.h"

struct spotnik_resume {
    uint64_t step;     /* 0: there is no checkpoint, the job begins */
    uint64_t founding; /* that wrote it */
    struct spotnik_ledger ledger;
    char name[96];     /* of the checkpoint */
    char message[512]; /* what was passed over, and why; "" when nothing was */
};

/* The manifest of checkpoint `entry`, verified as far as `signer` can: ret->state. `ret` must be
 * empty. Errors as _verify(), but for CHECKPOINT. */
int spotnik_checkpoint_look_at(const char *dir, const char *entry,
                               const struct spotnik_signer *signer, struct spotnik_manifest *ret);

/* The same, for a job with this signer: CHECKPOINT if it must not use it. */
int spotnik_checkpoint_manifest(const char *dir, const char *entry,
                                const struct spotnik_signer *signer, struct spotnik_manifest *ret);

/* Read checkpoint `entry` of `dir` as a whole and compare it with its manifest. `ret` must be
 * empty; it holds the manifest on success. Errors: PEERS (torn, damaged or altered: the detail says
 * what), CHECKPOINT (another key signed it, or none where `signer` has one, or it has none: the
 * detail says what to do), VERSION, SYSTEM, MEMORY. */
int spotnik_checkpoint_verify(const char *dir, const char *entry,
                              const struct spotnik_signer *signer, struct spotnik_manifest *ret);

/* Load the newest whole checkpoint of `job` into the registered state and the blobs. ret->step 0:
 * the directory holds none, and nothing was changed. Errors: CHECKPOINT (it is another job's,
 * another model's or not signed as ours are, or all are damaged: the detail says), SYSTEM, MEMORY;
 * the registered state must not be used then. */
int spotnik_checkpoint_load(const char *dir, const char *job, const struct spotnik_signer *signer,
                            struct spotnik_registry *registry, struct spotnik_resume *ret);

/* Load the checkpoint that the folder `path` is, an absolute path, whatever job wrote it. Errors:
 * CHECKPOINT (it is another model's, not signed as ours are, or damaged), SYSTEM, MEMORY; as
 * above. */
int spotnik_checkpoint_load_from(const char *path, const struct spotnik_signer *signer,
                                 struct spotnik_registry *registry, struct spotnik_resume *ret);

/* The manifest of the checkpoint that the folder `path` is. `ret` must be empty. Errors as
 * spotnik_checkpoint_manifest(). */
int spotnik_checkpoint_manifest_at(const char *path, const struct spotnik_signer *signer,
                                   struct spotnik_manifest *ret);

#endif
