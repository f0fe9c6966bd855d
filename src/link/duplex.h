/* SPDX-License-Identifier: Apache-2.0 */
/* A connection after its handshake, for a thread that reads and writes on it: the descriptor, and
 * the seals of both directions. They are bare where TLS does their work, and where the connection
 * does not leave the host (Unix sockets). The holder of the struct owns what is in it, and may move
 * it by copying. */
#ifndef SPOTNIK_LINK_DUPLEX_H
#define SPOTNIK_LINK_DUPLEX_H

#include "link/seal.h"
#include "link/tls.h"
#include "wire/handshake.h"

struct spotnik_duplex {
    int fd; /* -1: closed */
    struct spotnik_seal send, receive;
    uint64_t sent, received; /* numbers of the next tags */
};

/* Both directions bare. */
struct spotnik_duplex spotnik_duplex_bare(int fd);

/* By the keys of a handshake that has succeeded. 0; SYSTEM, and `fd` is still the caller's. */
int spotnik_duplex_init(struct spotnik_duplex *duplex, int fd,
                        const struct spotnik_handshake *handshake);

/* Closes the descriptor. Does nothing to a closed one. */
void spotnik_duplex_close(struct spotnik_duplex *duplex);

bool spotnik_duplex_is_local(const struct spotnik_duplex *duplex);

/* The descriptor alone, for an owner that has tags of its own or needs none. */
int spotnik_duplex_release(struct spotnik_duplex *duplex);

#endif
