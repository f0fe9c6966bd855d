/* SPDX-License-Identifier: Apache-2.0 */
/* GHASH, the hash of GCM and GMAC (NIST SP 800-38D), over bytes in pieces. Only for processors
 * with VPCLMULQDQ and AVX2; seal.c leaves all others to OpenSSL. No branch and no address depends
 * on the key or on the bytes. */
#ifndef SPOTNIK_LINK_GHASH_H
#define SPOTNIK_LINK_GHASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_GHASH_BYTES 16
#define SPOTNIK_GHASH_POWERS 16 /* blocks that one reduction is for */

/* The caller wipes it: it holds the hash key. */
struct spotnik_ghash {
    /* H^16 to H^1, each times x, and in each lower half the XOR of its halves (Karatsuba) */
    uint64_t powers[SPOTNIK_GHASH_POWERS][2], sums[SPOTNIK_GHASH_POWERS][2];
    uint64_t hash[2];
    uint64_t bytes;
    uint8_t rest[SPOTNIK_GHASH_BYTES]; /* the last bytes % 16 of them */
};

/* False also where SPOTNIK_CPU names "scalar". Does not change while the process runs. */
bool spotnik_ghash_is_supported(void);

/* `key`: zeros encrypted by the block cipher. */
void spotnik_ghash_init(struct spotnik_ghash *ghash, const uint8_t key[SPOTNIK_GHASH_BYTES]);

/* One message, as additional data of GCM with no ciphertext: begin, add pieces, end. */
void spotnik_ghash_begin(struct spotnik_ghash *ghash);
void spotnik_ghash_add(struct spotnik_ghash *ghash, const void *bytes, size_t size);
void spotnik_ghash_end(struct spotnik_ghash *ghash, uint8_t ret_hash[SPOTNIK_GHASH_BYTES]);

#endif
