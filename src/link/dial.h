/* SPDX-License-Identifier: Apache-2.0 */
/* The blocking client: connect, prove the key, and hand the socket over, or ask and be answered. */
#ifndef SPOTNIK_LINK_DIAL_H
#define SPOTNIK_LINK_DIAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "link/answer.h"
#include "link/credentials.h"
#include "link/duplex.h"

/* [any] Connect to address:port, prove the key both ways, declare the purpose. Blocking, gives up
 * after timeout_ns. On success *ret is a blocking socket with its seals, owned by the caller, and
 * *ret_peer is the answering member; else ret->fd is -1. Errors: SPOTNIK_ERR_PEERS (refused,
 * unreachable, no answer), _KEY, _JOB, _VERSION; spotnik_last_error() has the address. */
int spotnik_net_dial(const struct spotnik_credentials *credentials, const uint8_t address[16],
                     uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                     struct spotnik_duplex *ret, struct spotnik_member *ret_peer);

/* [any] To a member, for an EXCHANGE connection. `fd`: connected to it already; -1: not. Ends with
 * SPOTNIK_ERR_PEERS as soon as `stop_fd` is readable (-1: never), or when another member
 * answers. */
int spotnik_net_reach(const struct spotnik_credentials *credentials,
                      const struct spotnik_member *peer, int fd, uint64_t timeout_ns, int stop_fd,
                      struct spotnik_duplex *ret);

/* [any] Ask the process that listens at address:port. Blocking, half as long again under TLS;
 * errors as spotnik_net_dial(). *ret_refused, if not NULL: its kernel refused the connection, so no
 * process listens there. */
int spotnik_net_ask(const struct spotnik_credentials *credentials, const uint8_t address[16],
                    uint16_t port, uint64_t timeout_ns, struct spotnik_answer *ret_answer,
                    bool *ret_refused);

/* [any] What the process that listens there says to STATUS or DUMP, whole and as it said it: a MAC
 * under the keys of this connection is checked and taken off. *ret_text ends with a NUL behind
 * *ret_size bytes; free() it. Blocking: timeout_ns for the way, as much for the answer; errors
 * as spotnik_net_dial(). */
int spotnik_net_question(const struct spotnik_credentials *credentials, const uint8_t address[16],
                         uint16_t port, enum spotnik_purpose purpose, uint64_t timeout_ns,
                         char **ret_text, size_t *ret_size);

#endif
