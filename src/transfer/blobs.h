/* SPDX-License-Identifier: Apache-2.0 */
/* Named runs of bytes that belong to a replica beside its tensors. A program keeps them in objects
 * (the state of a scheduler, of a random generator) and hands them to us packed. Their lengths may
 * change between steps. Unlike tensors they need not be the same bytes on every member, since
 * packing the same object twice may give different bytes. So a receiver takes all of them from one
 * donor. Owns copies; decides nothing about when they are read. */
#ifndef SPOTNIK_TRANSFER_BLOBS_H
#define SPOTNIK_TRANSFER_BLOBS_H

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"

#define SPOTNIK_BLOBS_MAX 64
#define SPOTNIK_BLOB_NAME_MAX 255
#define SPOTNIK_BLOBS_BYTES_MAX ((size_t)32 << 20) /* all together: they travel in one packet */

struct spotnik_blob {
    char name[SPOTNIK_BLOB_NAME_MAX + 1];
    uint8_t *bytes;
    size_t size;
};

/* Invariant: `bytes` is the sum of the sizes; names differ. All zeros: empty. */
struct spotnik_blobs {
    uint32_t count;
    size_t bytes;
    struct spotnik_blob blob[SPOTNIK_BLOBS_MAX];
};

void spotnik_blobs_done(struct spotnik_blobs *blobs);

/* Put a copy under `name`, in place of what was there. Errors: ARGUMENT (name, or no bytes given),
 * LIMIT, MEMORY; nothing is changed then. */
int spotnik_blobs_set(struct spotnik_blobs *blobs, const char *name, const void *bytes,
                      size_t size);

/* NULL: no such name. */
const struct spotnik_blob *spotnik_blobs_find(const struct spotnik_blobs *blobs, const char *name);

/* u32 count | per blob: u8 length of name, name, u64 size, bytes. */
size_t spotnik_blobs_packed_size(const struct spotnik_blobs *blobs);
void spotnik_blobs_write(const struct spotnik_blobs *blobs, struct spotnik_writer *writer);

/* Replace all by what the reader holds. Errors: PEERS (not such bytes), MEMORY; nothing is changed
 * then. */
int spotnik_blobs_read(struct spotnik_blobs *blobs, struct spotnik_reader *reader);

#endif
