/* SPDX-License-Identifier: Apache-2.0 */
/* Mutual challenge and response: two processes prove to each other that they hold the job key,
 * before they read any other byte (P10). Decides layouts, transcript and verdict. src/link provides
 * sockets, random nonces and HMAC-SHA-256, so that this part is pure and can be fuzzed.
 *
 *     client                                              server
 *       | HELLO   (160)  purpose, job, nonce, our identity and founding  ->  checks version, job
 *       |    <- ANSWER (192)  the same, and MAC(hello, answer)
 *       | PROOF    (48)  MAC(hello, answer with its MAC)     ->  admitted
 *
 * or, instead of the awaited message, REFUSAL (24) and the end. All messages begin with the same 16
 * bytes in every version: read those, call spotnik_handshake_preamble(), then read the rest.
 * Nothing is allocated, and a stranger can never make a server read more than these fixed sizes.
 * Both nonces are in every MAC, so nothing can be replayed. Each MAC has its own label, so nothing
 * can be sent back to its author. */
#ifndef SPOTNIK_WIRE_HANDSHAKE_H
#define SPOTNIK_WIRE_HANDSHAKE_H

#include <stddef.h>
#include <stdint.h>

#include "member/founding.h"
#include "member/view.h"

#define SPOTNIK_HANDSHAKE_PREAMBLE_BYTES 16
#define SPOTNIK_HANDSHAKE_HELLO_BYTES 160
#define SPOTNIK_HANDSHAKE_ANSWER_BYTES 192
#define SPOTNIK_HANDSHAKE_PROOF_BYTES 48
#define SPOTNIK_HANDSHAKE_REFUSAL_BYTES 24
#define SPOTNIK_HANDSHAKE_BYTES_MAX SPOTNIK_HANDSHAKE_ANSWER_BYTES

#define SPOTNIK_JOB_HASH_BYTES 16
#define SPOTNIK_KEY_BYTES 32
#define SPOTNIK_NONCE_BYTES 32
#define SPOTNIK_MAC_BYTES 32

enum spotnik_handshake_type {
    SPOTNIK_HANDSHAKE_HELLO = 1,
    SPOTNIK_HANDSHAKE_ANSWER,
    SPOTNIK_HANDSHAKE_PROOF,
    SPOTNIK_HANDSHAKE_REFUSAL,
    SPOTNIK_HANDSHAKE_TYPE_COUNT,
};

/* HMAC-SHA-256 of `size` bytes under `key`. */
typedef void spotnik_mac_function(void *context, const uint8_t key[SPOTNIK_KEY_BYTES],
                                  const void *bytes, size_t size,
                                  uint8_t ret_mac[SPOTNIK_MAC_BYTES]);

/* One of the two sides. Fields above the line are filled in by the caller before the first call. */
struct spotnik_handshake {
    spotnik_mac_function *mac;
    void *mac_context;
    uint8_t key[SPOTNIK_KEY_BYTES];
    uint8_t job[SPOTNIK_JOB_HASH_BYTES];
    struct spotnik_member self;
    struct spotnik_presence presence;   /* ours */
    uint8_t nonce[SPOTNIK_NONCE_BYTES]; /* random, fresh for every handshake */
    /* client: what the connection is for, > 0; server: learns it */
    uint8_t purpose;
    uint8_t tls; /* our mode, named in refusals */
    /* --- */
    uint8_t is_server;
    uint8_t hello[SPOTNIK_HANDSHAKE_HELLO_BYTES];
    uint8_t answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES];
    uint16_t peer_version; /* named in refusals and in errors; 0 until a preamble was read */
    uint8_t peer_tls;      /* of a peer that has refused us */
    /* port 0: does not listen. Proven only after the last call returned 0 */
    struct spotnik_member peer;
    struct spotnik_presence peer_presence; /* as proven as that */
};

/* All calls return 0 or: SPOTNIK_ERR_VERSION, _JOB, _KEY; SPOTNIK_ERR_ARGUMENT when the bytes are
 * no such message. After an error send the refusal (except after ERR_ARGUMENT: strangers get no
 * answer) and close. */

/* The first 16 bytes of a message from the peer. *ret_size: bytes of the whole message. A refusal
 * is accepted in place of any message that `expected` names: pass it to
 * spotnik_handshake_refused(). */
int spotnik_handshake_preamble(struct spotnik_handshake *handshake,
                               const uint8_t bytes[SPOTNIK_HANDSHAKE_PREAMBLE_BYTES],
                               enum spotnik_handshake_type expected,
                               enum spotnik_handshake_type *ret_type, size_t *ret_size);

/* Client, in this order. */
void spotnik_handshake_hello(struct spotnik_handshake *handshake,
                             uint8_t ret_hello[SPOTNIK_HANDSHAKE_HELLO_BYTES]);
int spotnik_handshake_prove(struct spotnik_handshake *handshake,
                            const uint8_t answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES],
                            uint8_t ret_proof[SPOTNIK_HANDSHAKE_PROOF_BYTES]);

/* Server, in this order. */
int spotnik_handshake_answer(struct spotnik_handshake *handshake,
                             const uint8_t hello[SPOTNIK_HANDSHAKE_HELLO_BYTES],
                             uint8_t ret_answer[SPOTNIK_HANDSHAKE_ANSWER_BYTES]);
int spotnik_handshake_admit(struct spotnik_handshake *handshake,
                            const uint8_t proof[SPOTNIK_HANDSHAKE_PROOF_BYTES]);

/* After success: the keys of the tags of this connection, one for each direction. */
void spotnik_handshake_keys(const struct spotnik_handshake *handshake,
                            uint8_t ret_send[SPOTNIK_KEY_BYTES],
                            uint8_t ret_receive[SPOTNIK_KEY_BYTES]);

/* Tell the peer why: `error` is SPOTNIK_ERR_VERSION, _JOB or _KEY. */
void spotnik_handshake_refusal(const struct spotnik_handshake *handshake, int error,
                               uint8_t ret_refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES]);

/* Why the peer refused us: the error, never 0; SPOTNIK_ERR_ARGUMENT for nonsense. Refusals are not
 * authenticated: report them, conclude nothing else from them. */
int spotnik_handshake_refused(struct spotnik_handshake *handshake,
                              const uint8_t refusal[SPOTNIK_HANDSHAKE_REFUSAL_BYTES]);

#endif
