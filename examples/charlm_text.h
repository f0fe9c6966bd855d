/* SPDX-License-Identifier: Apache-2.0 */
/* The text charlm trains on, and the order in which a pass over it visits the samples. Decides
 * neither which member gets which sample (the job's ledger does) nor what a sample is (batch_fill()
 * in charlm.c does). */
#ifndef CHARLM_TEXT_H
#define CHARLM_TEXT_H

#include <stddef.h>
#include <stdint.h>

enum { TEXT_BYTES_MAX = 2 << 20 };

struct text {
    uint8_t *bytes;
    size_t length;
};

/* Append a file. Returns 0, or an errno. What goes beyond TEXT_BYTES_MAX is left out. */
int text_append(struct text *text, const char *path);

/* Text that a development machine already has: the sources of Python's standard library, else the
 * headers of C. */
void text_find(struct text *text);

void text_free(struct text *text);

/* A number that differs when the text differs: members that read different texts must not train
 * together. */
int64_t text_hash(const struct text *text);

/* One number per call, from a counter: equal seeds give equal numbers on every machine
 * (splitmix64). */
uint64_t mix(uint64_t z);

/* Sample i of n in the order that `seed` stands for: a permutation of [0, n). */
uint64_t shuffled(uint64_t i, uint64_t n, uint64_t seed);

#endif
