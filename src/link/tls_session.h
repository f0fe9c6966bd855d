/* SPDX-License-Identifier: Apache-2.0 */
/* One connection under TLS, as tls.c (bytes) and tls_session.c (who is trusted) see it. */
#ifndef SPOTNIK_LINK_TLS_SESSION_H
#define SPOTNIK_LINK_TLS_SESSION_H

#include <openssl/ssl.h>

#include "link/tls.h"

struct spotnik_tls_session {
    SSL *ssl;
    int fd;
    int flags; /* of the call at hand, for the kernel */
    enum spotnik_tls_mode mode, peer_mode;
    enum spotnik_tls_role role;
    bool differs;                      /* the peer has the other mode: peer_mode */
    bool updates;                      /* a new key is not yet on its way */
    bool heard;                        /* something has been read */
    bool ended;                        /* FIN has come */
    int error;                         /* of the socket; it stays */
    int alert;                         /* that the peer sent; 0: none */
    uint8_t psk[32], observer_psk[32]; /* the latter: of a server */
    size_t promised;                   /* see tls.h */
    uint64_t records;                  /* written under the key at hand */
    char why[SPOTNIK_TLS_TEXT];
};

/* The sender takes a new key after this number of records. A test makes it small. */
extern uint64_t spotnik_tls_key_records;

/* Fills `ssl`. */
int spotnik_tls_session_open(struct spotnik_tls_session *session,
                             const struct spotnik_tls_settings *settings, const uint8_t key[32]);

/* The key that both ends of this connection have, if both hold `key`. */
bool spotnik_tls_session_key(struct spotnik_tls_session *session, const uint8_t key[32],
                             uint8_t ret_key[32]);

/* After OpenSSL gave up: fills `why`, and returns KEY, VERSION, or PEERS. */
int spotnik_tls_session_judge(struct spotnik_tls_session *session);

#endif
