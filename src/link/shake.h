/* SPDX-License-Identifier: Apache-2.0 */
/* Driving a handshake (wire/handshake.h) over a socket, piece by piece as bytes come and go. It
 * reads exactly the bytes of the handshake, so that the first frame stays in the socket. How long
 * it may take is the caller's business. Where credentials name a mode of TLS, and the socket is no
 * Unix socket, TLS comes first. The handshake runs inside it, under a key that is bound to this
 * connection of TLS. */
#ifndef SPOTNIK_LINK_SHAKE_H
#define SPOTNIK_LINK_SHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/credentials.h"
#include "wire/handshake.h"

/* What names a connection: drawn by its server, known to both sides after the handshake. */
#define SPOTNIK_SHAKE_NAME_BYTES (SPOTNIK_NONCE_BYTES / 2)

/* The handshake waits for the socket. */
#define SPOTNIK_SHAKE_AGAIN 1

enum spotnik_shake_tls {
    SPOTNIK_SHAKE_TLS_UNKNOWN,
    SPOTNIK_SHAKE_TLS_BEGUN,
    SPOTNIK_SHAKE_TLS_DONE,
    SPOTNIK_SHAKE_PLAIN,
    SPOTNIK_SHAKE_REFUSAL_ONLY, /* plain, although we want TLS: nothing else is believed */
};

enum spotnik_shake_state {
    SPOTNIK_SHAKE_READ_HELLO,  /* server */
    SPOTNIK_SHAKE_READ_ANSWER, /* client */
    SPOTNIK_SHAKE_READ_PROOF,  /* server */
    SPOTNIK_SHAKE_LAST_WRITE,  /* client: the proof is on its way */
    SPOTNIK_SHAKE_DONE,
    SPOTNIK_SHAKE_FAILED,
};

struct spotnik_shake {
    enum spotnik_shake_state state;
    enum spotnik_shake_tls tls;
    const struct spotnik_tls_settings *settings;
    bool mac_failed;
    bool from_peer; /* the failure is what the peer said of us, not what we found */
    size_t in_have, in_want, out_at, out_size;
    uint8_t in[SPOTNIK_HANDSHAKE_BYTES_MAX], out[SPOTNIK_HANDSHAKE_BYTES_MAX];
    struct spotnik_handshake wire;
    bool observes;            /* client: by the observer key */
    uint8_t observer_key[32]; /* server */
    char why[160];            /* what TLS found; else empty */
};

void spotnik_shake_init_client(struct spotnik_shake *shake,
                               const struct spotnik_credentials *credentials,
                               enum spotnik_purpose purpose);
void spotnik_shake_init_server(struct spotnik_shake *shake,
                               const struct spotnik_credentials *credentials);

/* Client of a connection that answers another one, on which it was the server: the first half of
 * its nonce names that one. */
void spotnik_shake_init_back(struct spotnik_shake *shake,
                             const struct spotnik_credentials *credentials,
                             const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);

/* Client of one that is added to another one, of which it was the client, too. */
void spotnik_shake_init_add_connection(struct spotnik_shake *shake,
                                       const struct spotnik_credentials *credentials,
                                       const uint8_t name[SPOTNIK_SHAKE_NAME_BYTES]);

/* After success: the name of this connection; and, on the server of one that answers or is added to
 * another, the name of that. */
void spotnik_shake_name(const struct spotnik_shake *shake,
                        uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES]);
void spotnik_shake_answers(const struct spotnik_shake *shake,
                           uint8_t ret_name[SPOTNIK_SHAKE_NAME_BYTES]);

/* Go on as far as the socket allows (non-blocking, or blocking with timeouts set). 0: proven both
 * ways, shake->wire.peer is the answering member. SPOTNIK_SHAKE_AGAIN: call again when the socket
 * is ready. Else the error: VERSION, JOB, KEY; ARGUMENT for unauthenticated peers; PEERS when the
 * connection ended. We have told the peer why, as far as that needed no wait. */
int spotnik_shake_run(struct spotnik_shake *shake, int fd);

/* After SPOTNIK_SHAKE_AGAIN: it waits for room, not for bytes. */
bool spotnik_shake_is_writing(const struct spotnik_shake *shake);

#define SPOTNIK_SHAKE_TEXT 160

/* "has another job key", ...: to put after the name of the peer. Returns `ret_text`. */
const char *spotnik_shake_text(const struct spotnik_shake *shake, int error,
                               char ret_text[SPOTNIK_SHAKE_TEXT]);

/* Wipe the keys. */
void spotnik_shake_done(struct spotnik_shake *shake);

#endif
