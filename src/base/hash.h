/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3-64: the digest of replicas, and of simulated results. It finds accidents, not forgery; what
 * must withstand an attacker has a MAC, in src/link. A thin face over xxHash, so that its large
 * header is compiled once. */
#ifndef SPOTNIK_BASE_HASH_H
#define SPOTNIK_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Opaque running hash. xxHash wants 64-byte alignment: put it on the stack or in static storage, or
 * take it from aligned_alloc(). */
struct spotnik_hash {
    _Alignas(64) unsigned char opaque[640];
};

uint64_t spotnik_hash_bytes(const void *data, size_t size);

void spotnik_hash_begin(struct spotnik_hash *hash);
void spotnik_hash_add(struct spotnik_hash *hash, const void *data, size_t size);

/* The hash of all that was added: equal to spotnik_hash_bytes() over the same bytes in one piece.
 * May be asked for at any time; more may be added after. */
uint64_t spotnik_hash_end(const struct spotnik_hash *hash);

#endif
