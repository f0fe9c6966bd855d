/* SPDX-License-Identifier: Apache-2.0 */
/* HMAC-SHA-256 for handshakes, control frames and checkpoints; seal.h is for bulk. A thin face over
 * OpenSSL; what is signed, and with which key, is decided by its callers. What is signed with the
 * job key begins with a label that nothing else has, so no MAC can serve another purpose: "spotnik "
 * and `answer 1`, `proof  1`, `key c>s1`, `key s>c1` (wire/handshake.c), `share  1`
 * (transport/share.c), `record 1` (discovery/record.c), `checkpoint` (checkpoint/signature.c),
 * `observer` (auth.c). */
#ifndef SPOTNIK_LINK_AUTH_H
#define SPOTNIK_LINK_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_AUTH_BYTES 32

struct spotnik_auth {
    void *context; /* EVP_MAC_CTX; NULL: no key set */
};

struct spotnik_auth_part {
    const void *data;
    size_t size;
};

/* Returns 0 or SPOTNIK_ERR_SYSTEM. */
int spotnik_auth_init(struct spotnik_auth *auth, const uint8_t key[32]);
void spotnik_auth_done(struct spotnik_auth *auth);

/* The MAC of the parts one after the other. False: OpenSSL failed; then `mac` is of no use. */
bool spotnik_auth_mac(struct spotnik_auth *auth, const struct spotnik_auth_part *part, size_t count,
                      uint8_t mac[SPOTNIK_AUTH_BYTES]);

/* The same, piece by piece: _end() is of use if all three returned true. */
bool spotnik_auth_begin(struct spotnik_auth *auth);
bool spotnik_auth_add(struct spotnik_auth *auth, const void *data, size_t size);
bool spotnik_auth_end(struct spotnik_auth *auth, uint8_t mac[SPOTNIK_AUTH_BYTES]);

/* Equal, in a time that does not depend on where they differ? */
bool spotnik_auth_equal(const uint8_t *a, const uint8_t *b, size_t size);

/* One MAC over one piece with a key used once. */
bool spotnik_auth_once(const uint8_t key[32], const void *data, size_t size,
                       uint8_t mac[SPOTNIK_AUTH_BYTES]);

/* The key of those that may only look: the job key cannot be found from it. False: OpenSSL
 * failed. */
bool spotnik_auth_observer_key(const uint8_t key[32], uint8_t ret_key[32]);

/* `size` random bytes from the kernel, fit for keys. */
void spotnik_auth_random(void *out, size_t size);

#endif
