/* SPDX-License-Identifier: Apache-2.0 */
/* How a replica is cut into the parts of a checkpoint, and what each part looks like as a file in
 * the safetensors format. It is a function of the names, types and counts of the tensors alone. So
 * every member and every later run agrees on it, whatever the membership. Decides neither which
 * member writes a part, nor when.
 *
 *     u64 bytes of header | header: JSON, filled up with blanks to a multiple of 8 | tensors
 *
 * A tensor larger than a part goes over several. Its pieces have its name, and "first:NAME" in the
 * metadata says at which element a piece begins. Within a part wide elements come first, so that
 * all are aligned. */
#ifndef SPOTNIK_CHECKPOINT_LAYOUT_H
#define SPOTNIK_CHECKPOINT_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

#include "transfer/registry.h"

#define SPOTNIK_PARTS_MAX 64
#define SPOTNIK_PART_BYTES_MIN (UINT64_C(16) << 20) /* a smaller replica is one part */

/* Elements [first, first + count) of a tensor. */
struct spotnik_piece {
    uint32_t tensor;
    uint64_t first, count;
};

/* One part: its pieces in the order of the file, and all bytes of the file before the tensors. */
struct spotnik_part {
    uint32_t piece_count;
    struct spotnik_piece *piece;
    uint8_t *header;
    size_t header_bytes;
    uint64_t data_bytes;
};

/* Can these names stand in a checkpoint? 0 or ARGUMENT, with the name. */
int spotnik_layout_check(const struct spotnik_registry *registry);

/* In how many parts this replica is cut: 1 to SPOTNIK_PARTS_MAX. */
uint32_t spotnik_layout_parts(const struct spotnik_registry *registry);

/* Errors: MEMORY. On success the caller owns it until spotnik_part_done(). */
int spotnik_part_init(struct spotnik_part *part, const struct spotnik_registry *registry,
                      uint32_t parts, uint32_t number);
void spotnik_part_done(struct spotnik_part *part);

/* Copy the tensors of the part, `data_bytes` bytes, out of the registered memory: those of `which`.
 */
void spotnik_part_copy_out(const struct spotnik_part *part, struct spotnik_registry *registry,
                           enum spotnik_registry_part which, uint8_t *out);

/* Bytes [offset, offset + size) of the part's tensors into the registered memory. */
void spotnik_part_write_in(const struct spotnik_part *part, struct spotnik_registry *registry,
                           uint64_t offset, const uint8_t *in, size_t size);

/* The blobs as one such file. *ret_bytes is the caller's to free. Errors: MEMORY, ARGUMENT (a name
 * is not UTF-8). */
int spotnik_blobs_file(const struct spotnik_blobs *blobs, uint8_t **ret_bytes, size_t *ret_size);

/* Replace all blobs by those of such a file. Errors: PEERS (not such a file), MEMORY; nothing is
 * changed then. */
int spotnik_blobs_file_read(struct spotnik_blobs *blobs, const uint8_t *bytes, size_t size);

#endif
