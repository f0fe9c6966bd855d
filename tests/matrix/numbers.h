/* SPDX-License-Identifier: Apache-2.0 */
/* What members put into buckets: numbers that follow from a key, a member and a place, so that
 * nobody need keep them. */
#ifndef TESTS_MATRIX_NUMBERS_H
#define TESTS_MATRIX_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spotnik/spotnik.h"

enum numbers_kind {
    /* whatever the order of additions, nothing is rounded (of MEAN: but for the last division) */
    NUMBERS_EXACT,
    NUMBERS_ROUNDING, /* every addition rounds, so its bits tell the order */
    /* the same on all members: a mean that is carried on as a mean rounds nothing */
    NUMBERS_EQUAL,
    /* as ROUNDING, with infinities, zeros, the least, the greatest, and what is not a number */
    NUMBERS_SPECIAL,
    NUMBERS_KINDS
};

struct numbers {
    enum spotnik_dtype dtype; /* Q8: F32 that travel so */
    enum spotnik_op op;
    enum numbers_kind kind;
    uint64_t key;
    uint32_t members; /* how many there may be, for what must stay exact */
};

uint64_t numbers_mix(uint64_t x);

/* Elements [from, from + count) of member `who`, as the caller of a plain all-reduce holds them;
 * Q8: as F32. */
void numbers_make(const struct numbers *numbers, uint32_t who, uint64_t from, size_t count,
                  void *out);

/* The same for F16 and BF16 before they are narrowed: what the caller of a compressed all-reduce
 * holds. */
void numbers_make_wide(const struct numbers *numbers, uint32_t who, uint64_t from, size_t count,
                       float *out);

/* Q8: the result of all members in `who` (each once, weight irrelevant). */
void numbers_q8_expect(const struct numbers *numbers, const uint32_t *who, uint32_t members,
                       uint64_t from, size_t count, float *out);

/* The test's own conversions, to nearest even. */
float numbers_from_f16(uint16_t half);
float numbers_from_bf16(uint16_t half);
uint16_t numbers_to_f16(float value);
uint16_t numbers_to_bf16(float value);

#endif
