/* SPDX-License-Identifier: Apache-2.0 */
/* Data frames: the header of a chunk between the frame header and its elements. Decides whether a
 * header can be true at all; the core decides where the elements belong (spotnik_core_place()).
 *
 * Data frames carry no tag: hashing megabytes costs more than moving them. Their connection proved
 * the key when it opened. An attacker that can alter its TCP stream later can alter sums; TLS
 * behind the same seam would close that. */
#ifndef SPOTNIK_WIRE_DATA_H
#define SPOTNIK_WIRE_DATA_H

#include <stdint.h>

#include "core/core.h"
#include "wire/frame.h"

#define SPOTNIK_CHUNK_BYTES 48 /* an encoded spotnik_chunk_header */
#define SPOTNIK_DATA_PREFIX_BYTES (SPOTNIK_FRAME_BYTES + SPOTNIK_CHUNK_BYTES)

void spotnik_chunk_encode(const struct spotnik_chunk_header *header,
                          uint8_t ret_bytes[SPOTNIK_CHUNK_BYTES]);

/* 0 or SPOTNIK_ERR_ARGUMENT. */
int spotnik_chunk_decode(const uint8_t bytes[SPOTNIK_CHUNK_BYTES],
                         struct spotnik_chunk_header *ret_header);

/* Everything of a data frame that stands before its elements. */
void spotnik_data_encode(const struct spotnik_chunk_header *header, uint64_t turn,
                         uint32_t element_bytes, uint8_t ret_bytes[SPOTNIK_DATA_PREFIX_BYTES]);

/* The first bytes of the payload of a DATA frame that passed spotnik_frame_decode().
 * *ret_element_bytes: how many bytes of elements follow, a whole number of elements. 0 or
 * SPOTNIK_ERR_ARGUMENT. */
int spotnik_data_decode(const uint8_t bytes[SPOTNIK_CHUNK_BYTES], const struct spotnik_frame *frame,
                        struct spotnik_chunk_header *ret_header, uint32_t *ret_element_bytes);

#endif
