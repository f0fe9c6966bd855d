/* SPDX-License-Identifier: Apache-2.0 */
/* By what the files of a checkpoint are judged: XXH3-64 without a key, which finds accidents, and
 * HMAC-SHA-256 with one, which finds forgeries. The MAC covers what the file is, beside its bytes:
 * the entry it stands in and its role there. So no file counts in another place. Decides nothing
 * about files; which key a job has is the API's (api/key.h). */
#ifndef SPOTNIK_CHECKPOINT_SIGNATURE_H
#define SPOTNIK_CHECKPOINT_SIGNATURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash.h"
#include "link/auth.h"

#define SPOTNIK_DIGEST_PLAIN 16U  /* hex digits of XXH3-64, */
#define SPOTNIK_DIGEST_SIGNED 32U /* and of a MAC: 128 of its bits */
#define SPOTNIK_DIGEST_TEXT (SPOTNIK_DIGEST_SIGNED + 1)
#define SPOTNIK_SIGNER_NAME 17

/* Keys of one job key. All zeros: nothing is signed. */
struct spotnik_signer {
    bool has_key;
    uint8_t key[32];
    char name[SPOTNIK_SIGNER_NAME]; /* 16 hex digits that name the key, and tell nothing of it */
    /* of the key before it was rotated: it signs nothing, and what it has signed still counts.
     * NULL: there is none. Its owner is that of this one */
    const struct spotnik_signer *old;
};

/* 0 or SYSTEM. */
int spotnik_signer_init(struct spotnik_signer *ret, const uint8_t job_key[32]);
void spotnik_signer_done(struct spotnik_signer *signer); /* wipes it */

/* The one of the two that has this name, or `signer`. */
const struct spotnik_signer *spotnik_signer_named(const struct spotnik_signer *signer,
                                                  const char *name);

/* Hex digits of a digest by this signer. */
size_t spotnik_signer_digits(const struct spotnik_signer *signer);

struct spotnik_signature {
    struct spotnik_hash hash;
    struct spotnik_auth auth; /* with a key */
    bool failed;
};

/* `role`: of the file in its entry. 0, and _end() must follow; or SYSTEM. */
int spotnik_signature_begin(struct spotnik_signature *signature,
                            const struct spotnik_signer *signer, const char *entry,
                            const char *role);
void spotnik_signature_add(struct spotnik_signature *signature, const void *data, size_t size);
/* 0 or SYSTEM, and *ret_digest is "", which is equal to no digest. */
int spotnik_signature_end(struct spotnik_signature *signature,
                          char ret_digest[SPOTNIK_DIGEST_TEXT]);

/* Digest a whole file at once. 0 or SYSTEM. */
int spotnik_signature_make(const struct spotnik_signer *signer, const char *entry, const char *role,
                           const void *data, size_t size, char ret_digest[SPOTNIK_DIGEST_TEXT]);

/* `text` is that many hex digits, and no more. */
bool spotnik_digest_is(const char *text, size_t digits);

/* The digests are one, and are not "". */
bool spotnik_digest_equal(const char *a, const char *b);

#endif
