/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the server: the setting's address, the token, the host name of a request. Pure but for
 * resolving the setting's name. */
#ifndef SPOTNIK_HTTP_GATE_H
#define SPOTNIK_HTTP_GATE_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_gate {
    uint8_t address[16];
    uint16_t port; /* 0: any */
    bool loopback;
    const char *token; /* NULL: none */
};

/* Errors: ARGUMENT; PEERS when a name does not resolve. */
int spotnik_gate_open(const char *where, const char *token, struct spotnik_gate *ret);

/* The headers of a request; NULL where one is missing. */
bool spotnik_gate_admits(const struct spotnik_gate *door, const char *host,
                         const char *authorization);

#endif
