/* SPDX-License-Identifier: Apache-2.0 */
/* What is on its way in a small world: one record after the other in world.wire. Order counts
 * between records of the same pair and class only: control links and data connections overtake each
 * other. */
#ifndef SPOTNIK_MODEL_QUEUE_H
#define SPOTNIK_MODEL_QUEUE_H

#include "world.h"

enum item_kind { ITEM_NONE, ITEM_MESSAGE, ITEM_END, ITEM_FRAME };

/* Room for a record of `size` bytes, at the end. */
unsigned char *queue_put(uint32_t from, uint32_t to, enum item_kind kind, size_t size);

/* The link ends, with this proof, after all that was said on it. */
void queue_end(uint32_t from, uint32_t to, enum spotnik_proof proof);

void queue_frame(uint32_t from, uint32_t to, const struct spotnik_chunk_header *header,
                 uint64_t value);

bool queue_has(uint32_t from, uint32_t to, bool control);

/* The next record of the control link, or of the data connection, out of the queue. */
enum item_kind queue_take(uint32_t from, uint32_t to, bool control, unsigned char *ret_bytes,
                          size_t *ret_size);

/* The next frame; it stays. False: there is none. */
bool queue_frame_next(uint32_t from, uint32_t to, struct spotnik_chunk_header *ret_header,
                      uint64_t *ret_value);
void queue_frame_drop(uint32_t from, uint32_t to);

/* All that `from` has on its way to `to` is lost. */
void queue_clear(uint32_t from, uint32_t to);

uint64_t queue_hash(void);

#endif
