/* SPDX-License-Identifier: Apache-2.0 */
/* TLS 1.3 below what passes between members, by OpenSSL. A connection is named by its descriptor,
 * so its owners hand it on as one without TLS. Where no TLS has begun, all calls are those of the
 * kernel. They keep its meaning: a short read means that nothing more is there, errno tells why a
 * call failed, and 0 is FIN.
 *
 * The proof of a death rests on what a kernel says of the connection (docs/design/0004). So there
 * are no tickets, which would lie unread, and no close_notify. Bytes count as sent only when the
 * kernel has their whole record.
 *
 * One thread at a time uses a connection. */
#ifndef SPOTNIK_LINK_TLS_H
#define SPOTNIK_LINK_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct msghdr;

enum spotnik_tls_mode {
    SPOTNIK_TLS_OFF,
    SPOTNIK_TLS_PSK,  /* both sides hold the job key */
    SPOTNIK_TLS_CERT, /* and each shows a certificate */
};

struct spotnik_tls_settings {
    enum spotnik_tls_mode mode;
    const char *folder; /* of tls.crt, tls.key and ca.crt, for CERT */
    bool bare_inside;   /* connections that do not leave this host have no TLS */
};

/* "has SPOTNIK_TLS=psk, and this process ...": to put after the name of a peer. */
#define SPOTNIK_TLS_TEXT 160
void spotnik_tls_differs_text(unsigned peer_mode, unsigned own_mode,
                              char ret_text[SPOTNIK_TLS_TEXT]);

/* SPOTNIK_TLS of the environment, which is read once. It stays valid. Not set: PSK between hosts.
 * ARGUMENT: it is no mode. */
int spotnik_tls_settings_read(const struct spotnik_tls_settings **ret);

enum spotnik_tls_role {
    SPOTNIK_TLS_CLIENT,
    SPOTNIK_TLS_SERVER,
    SPOTNIK_TLS_OBSERVER, /* a client with the observer key */
};

/* Begin on a connected socket of TCP. `key`: the job's, or of an OBSERVER its own. 0; SYSTEM,
 * ARGUMENT (a file of CERT). */
int spotnik_tls_begin(int fd, const struct spotnik_tls_settings *settings, const uint8_t key[32],
                      enum spotnik_tls_role role);

/* Go on as far as the socket allows. 0: done, and `ret_key` is a key that only both ends of this
 * connection have who also hold `key`. 1: call again. Else PEERS (the connection ended), KEY (its
 * reason is in spotnik_tls_why()), VERSION: the other has another mode of TLS. */
int spotnik_tls_shake(int fd, const uint8_t key[32], uint8_t ret_key[32]);

/* After that: the key that both ends have who also hold `key`. 0; SYSTEM. */
int spotnik_tls_key(int fd, const uint8_t key[32], uint8_t ret_key[32]);

/* TLS has read something on it. */
bool spotnik_tls_is_heard(int fd);

/* Why the last call failed: to put after a name of the peer. Valid until the connection closes.
 * NULL: TLS knows nothing about it. */
const char *spotnik_tls_why(int fd);

bool spotnik_tls_is_on(int fd);

ssize_t spotnik_tls_sendmsg(int fd, const struct msghdr *message, int flags);
ssize_t spotnik_tls_send(int fd, const void *bytes, size_t size, int flags);
ssize_t spotnik_tls_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t spotnik_tls_recv(int fd, void *bytes, size_t size, int flags);

/* Bytes of the next call of send that have been encrypted: they cannot be taken back. */
size_t spotnik_tls_promised(int fd);

/* There is something to read, which no poll() shows. */
bool spotnik_tls_has_input(int fd);

/* Forget the connection; and close the descriptor. */
void spotnik_tls_end(int fd);
void spotnik_tls_close(int fd);

#endif
