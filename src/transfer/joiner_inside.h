/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by joiner.c (donors, snapshot), fetch.c (pieces) and follow.c (the stream). Not for
 * others. */
#ifndef SPOTNIK_TRANSFER_JOINER_INSIDE_H
#define SPOTNIK_TRANSFER_JOINER_INSIDE_H

#include <pthread.h>

#include "transfer/packet.h"
#include "transfer/joiner.h"
#include "transfer/nearness.h"
#include "transfer/standing.h"

#define SPOTNIK_DONOR_PATIENCE_NS (5 * UINT64_C(1000000000))

/* A connection to one donor. duplex.fd < 0: not in use any more. */
struct spotnik_giver {
    struct spotnik_joiner *joiner;
    struct spotnik_member member;
    struct spotnik_duplex duplex;
    uint64_t step; /* of its snapshot */
    struct spotnik_packet packet;
    pthread_t thread;
    bool started;
};

struct spotnik_joiner {
    struct spotnik_joiner_config config;
    struct spotnik_giver source[SPOTNIK_DONORS_MAX];
    uint32_t source_count;
    struct spotnik_standing answer; /* scratch of _copy: what the donor asked last said */
    uint64_t step;                  /* of the copied state */
    /* the registered memory may no longer be as the program left it */
    bool wrote;
    /* pieces, under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint8_t *piece; /* spotnik_piece_state of each */
    uint64_t piece_count, piece_next, piece_left;
    uint32_t fetching; /* threads at work */
    /* follow */
    pthread_t thread;
    bool following;
    uint64_t entered_by; /* sponsor's index + 1; 0: not asked yet */
    uint64_t next_step;  /* whose result is due */
    struct spotnik_nearness nearness;
    uint64_t replayed, stable; /* the last step that came; the highest that a donor called so */
    bool done, stopping;       /* accessed with __atomic builtins */
};

void spotnik_giver_close(struct spotnik_giver *source);

/* Fetch all pieces of the snapshot at joiner->step from all open sources. 0, PEERS, MEMORY or
 * LEAVING. */
int spotnik_joiner_fetch(struct spotnik_joiner *joiner);

#endif
