/* SPDX-License-Identifier: Apache-2.0 */
/* The files of one checkpoint, read and compared with its manifest. Decides nothing: see
 * resume.h. */
#ifndef SPOTNIK_CHECKPOINT_READING_H
#define SPOTNIK_CHECKPOINT_READING_H

#include "checkpoint/manifest.h"

struct spotnik_reading {
    const char *dir, *entry;
    const struct spotnik_signer *signer;
    const struct spotnik_manifest *manifest;
    struct spotnik_registry *into; /* the tensors of parts go there; NULL: only look */
};

/* Errors of all: PEERS (damaged or altered: the detail says what), SYSTEM, MEMORY. */
int spotnik_reading_parts(const struct spotnik_reading *reading);
int spotnik_reading_blobs(const struct spotnik_reading *reading, struct spotnik_blobs *into);
int spotnik_reading_verify(const struct spotnik_reading *reading); /* all files */

/* File `number` (at part_count the blobs) as a whole, if it is as the manifest says. The caller
 * frees *ret_bytes. */
int spotnik_reading_file(const struct spotnik_reading *reading, uint32_t number,
                         uint8_t **ret_bytes, size_t *ret_size);

#endif
