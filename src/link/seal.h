/* SPDX-License-Identifier: Apache-2.0 */
/* Tags of what passes behind the handshake in bulk: GMAC with AES-128. One seal is one direction of
 * one connection. Its key comes by HKDF from the key that the handshake gave that direction, so no
 * two connections share one.
 *
 * A tag has a number, which is its nonce, is not sent, and must never be used twice for bytes that
 * leave the process: GMAC under a repeated nonce gives its key away. Callers count what they send
 * and what they read. So a message that is altered, made up, repeated, left out or moved does not
 * verify. The receiver then closes the connection, as if it had broken. */
#ifndef SPOTNIK_LINK_SEAL_H
#define SPOTNIK_LINK_SEAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SPOTNIK_SEAL_BYTES 16

struct spotnik_seal {
    void *context; /* see seal.c */
    /* The connection does not leave the host: nothing is computed, and every tag is good. */
    bool bare;
    bool failed; /* OpenSSL has, in the message at hand: no receiver takes its tag */
};

/* `key`: of a direction, by spotnik_handshake_keys(). 0 or SPOTNIK_ERR_SYSTEM. */
int spotnik_seal_init(struct spotnik_seal *seal, const uint8_t key[32]);
void spotnik_seal_done(struct spotnik_seal *seal);

/* One message: begin, add any number of pieces, then end or check. Allocates nothing. */
void spotnik_seal_begin(struct spotnik_seal *seal, uint64_t number);
void spotnik_seal_add(struct spotnik_seal *seal, const void *bytes, size_t size);
void spotnik_seal_end(struct spotnik_seal *seal, uint8_t ret_tag[SPOTNIK_SEAL_BYTES]);

/* End, and compare. False: close the connection; the failure has been counted. */
bool spotnik_seal_check(struct spotnik_seal *seal, const uint8_t tag[SPOTNIK_SEAL_BYTES]);

/* A message in one piece. */
void spotnik_seal_make(struct spotnik_seal *seal, uint64_t number, const void *bytes, size_t size,
                       uint8_t ret_tag[SPOTNIK_SEAL_BYTES]);
bool spotnik_seal_verify(struct spotnik_seal *seal, uint64_t number, const void *bytes, size_t size,
                         const uint8_t tag[SPOTNIK_SEAL_BYTES]);

/* What did not verify on any connection of this process, and to note one more. */
uint64_t spotnik_seal_failures(void);
void spotnik_seal_failure_note(void);

#endif
