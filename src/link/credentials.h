/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection is for, and what proves that this process may make it. */
#ifndef SPOTNIK_LINK_CREDENTIALS_H
#define SPOTNIK_LINK_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "link/tls.h"

/* Everything needed to prove membership of a job to a peer; shared by control, data and state
 * connections. */
struct spotnik_credentials {
    uint8_t job[16];                        /* hash of the job name */
    uint8_t *key;                           /* 32 bytes (base/secret.h); the owner wipes them */
    const uint8_t *old_key;                 /* the key before: records by it are read; or NULL */
    bool observes;                          /* the latter: STATUS may be asked for, and no more */
    struct spotnik_member self;             /* address and port as others reach us */
    struct spotnik_presence presence;       /* our place in our founding; for outsiders: none */
    const struct spotnik_tls_settings *tls; /* NULL: off. Stays valid */
};

enum spotnik_purpose {
    SPOTNIK_PURPOSE_CONTROL = 1,
    SPOTNIK_PURPOSE_DATA,   /* to our ring successor */
    SPOTNIK_PURPOSE_STATE,  /* joiner -> donor: src/transfer speaks on it */
    SPOTNIK_PURPOSE_STATUS, /* spotnik status: one JSON text, then close. */
    SPOTNIK_PURPOSE_PEERS,  /* src/discovery: one struct spotnik_answer, then close. */
    SPOTNIK_PURPOSE_BACK,   /* the other direction of a link begun with CONTROL */
    SPOTNIK_PURPOSE_SHARE,  /* over a Unix socket only: file descriptors of shared memory */
    /* src/p2p speaks on it; over a Unix socket between members of one host */
    SPOTNIK_PURPOSE_EXCHANGE,
    /* one more connection for the data that another began to carry with DATA */
    SPOTNIK_PURPOSE_ADD_CONNECTION,
    SPOTNIK_PURPOSE_DUMP,    /* spotnik dump: one line of text, then close */
    SPOTNIK_PURPOSE_OBSERVE, /* STATUS, asked for under the observer key */
};

#endif
