/* SPDX-License-Identifier: Apache-2.0 */
/* Where in the code something changes with the size of a bucket: each border by name, in bytes. */
#ifndef TESTS_MATRIX_LIMITS_H
#define TESTS_MATRIX_LIMITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a border depends on, beside constants. */
struct limits_place {
    uint32_t members, hosts;
    uint32_t host_members;                                     /* the most on one host */
    uint32_t chunk_bytes;                                      /* of a frame */
    size_t small_bytes, slice_bytes, stream_bytes, page_bytes; /* as a runtime says */
};

enum { LIMITS_NEAR = 3 }; /* one element below, there, one above */

/* How many borders there are, and the name of each. */
uint32_t limits_count(void);
const char *limits_name(uint32_t border);

/* Elements of `one` bytes at a border (`near` 0: one less, 1: just there, 2: one more). */
uint64_t limits_elements(const struct limits_place *place, uint32_t border, uint32_t near,
                         size_t one);

#endif
