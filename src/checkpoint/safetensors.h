/* SPDX-License-Identifier: Apache-2.0 */
/* The header of a safetensors file, which every framework can read: JSON that names each tensor,
 * its type, shape and place. Writes headers, and reads those of files that hold nothing but named
 * runs of bytes; decides nothing. */
#ifndef SPOTNIK_CHECKPOINT_SAFETENSORS_H
#define SPOTNIK_CHECKPOINT_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <jansson.h>

#define SPOTNIK_SAFETENSORS_METADATA "__metadata__"
#define SPOTNIK_SAFETENSORS_HEADER_MAX ((size_t)16 << 20)

/* "F32" and so on; NULL for an unknown type. */
const char *spotnik_safetensors_dtype(int dtype);

/* The type of that name, 0: none of ours. */
int spotnik_safetensors_dtype_read(const char *name);

/* Describe `count` elements at *at in `header`, and move *at behind them. False: no memory. */
bool spotnik_safetensors_add(json_t *header, const char *name, int dtype, uint64_t count,
                             uint64_t *at);

/* Length and text of `header`, as the file begins. The caller frees *ret_bytes. False: no
 * memory. */
bool spotnik_safetensors_header(const json_t *header, uint8_t **ret_bytes, size_t *ret_size);

/* The header of a file of `size` bytes, NULL when it has none that is whole. The caller gives it
 * back with json_decref(). *ret_data: where the tensors begin. */
json_t *spotnik_safetensors_parse(const uint8_t *bytes, size_t size, size_t *ret_data);

#endif
