/* SPDX-License-Identifier: Apache-2.0 */
/* A hash of a part of a result, of another part in each step. It is cheap enough for every step,
 * and looks at every byte once in SPOTNIK_FINGERPRINT_TURNS steps. Members with equal results have
 * equal fingerprints. */
#ifndef SPOTNIK_BASE_FINGERPRINT_H
#define SPOTNIK_BASE_FINGERPRINT_H

#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_FINGERPRINT_TURNS 64
#define SPOTNIK_FINGERPRINT_LEAST 512 /* bytes: a smaller part would not be cheaper */

/* `before`: of the buckets so far in this step; 0: this is the first. `number`: of the bucket. */
uint64_t spotnik_fingerprint_add(uint64_t before, uint32_t number, uint64_t step, const void *data,
                                 size_t bytes);

#endif
