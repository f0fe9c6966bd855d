/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames: the header of a chunk between the frame header and its elements. Decides whether a
 * header can be true at all; the core decides where the elements belong (spotnik_core_place()).
 *
 *     0        24       72                88               104
 *     | frame  | chunk  | tag of elements | tag of all that | elements ...
 *     | header | header |                 | stands before it |
 *
 * The second tag is checked before any of these bytes is believed, the first one before any of the
 * elements counts (link/seal.h). Elements of a frame that was cut short, which no member counts,
 * have none. This file knows the places of tags only. */
#ifndef SPOTNIK_WIRE_DATA_H
#define SPOTNIK_WIRE_DATA_H

#include <stdint.h>

#include "core/core.h"
#include "wire/frame.h"

#define SPOTNIK_CHUNK_BYTES 48 /* an encoded spotnik_chunk_header */
#define SPOTNIK_DATA_TAG_BYTES 16
#define SPOTNIK_DATA_ELEMENTS_TAG_AT (SPOTNIK_FRAME_BYTES + SPOTNIK_CHUNK_BYTES)
#define SPOTNIK_DATA_TAG_AT (SPOTNIK_DATA_ELEMENTS_TAG_AT + SPOTNIK_DATA_TAG_BYTES)
#define SPOTNIK_DATA_PREFIX_BYTES (SPOTNIK_DATA_TAG_AT + SPOTNIK_DATA_TAG_BYTES)
/* of the payload of a frame, what stands before its elements */
#define SPOTNIK_DATA_HEAD_BYTES (SPOTNIK_DATA_PREFIX_BYTES - SPOTNIK_FRAME_BYTES)

void spotnik_chunk_encode(const struct spotnik_chunk_header *header,
                          uint8_t ret_bytes[SPOTNIK_CHUNK_BYTES]);

/* 0 or SPOTNIK_ERR_ARGUMENT. */
int spotnik_chunk_decode(const uint8_t bytes[SPOTNIK_CHUNK_BYTES],
                         struct spotnik_chunk_header *ret_header);

/* Everything of a data frame that stands before its elements. Both tags are zero: the caller puts
 * them at their places. */
void spotnik_data_encode(const struct spotnik_chunk_header *header, uint64_t turn,
                         uint32_t element_bytes, uint8_t ret_bytes[SPOTNIK_DATA_PREFIX_BYTES]);

/* The first bytes of the payload of a DATA frame that passed spotnik_frame_decode().
 * *ret_element_bytes: how many bytes of elements follow, a whole number of elements. 0 or
 * SPOTNIK_ERR_ARGUMENT. */
int spotnik_data_decode(const uint8_t bytes[SPOTNIK_CHUNK_BYTES], const struct spotnik_frame *frame,
                        struct spotnik_chunk_header *ret_header, uint32_t *ret_element_bytes);

#endif
