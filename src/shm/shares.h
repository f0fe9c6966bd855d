/* SPDX-License-Identifier: Apache-2.0 */
/* Where the result of a large bucket lies: every member's share in that member's memory. A served
 * member finds the whole of it in the memory of its holder instead. Decides which bytes a member
 * copies out, and whether they still were the result. Loads and stores only; map.c maps the
 * shares, and the simulator reads them through this very code. */
#ifndef SPOTNIK_SHM_SHARES_H
#define SPOTNIK_SHM_SHARES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/flat.h"

/* Bytes [begin, end) of the result lie at `offset` of the memory behind `shm header`. */
struct spotnik_share_place {
    const struct spotnik_shm_header *header;
    uint64_t offset;
    size_t begin, end;
};

struct spotnik_shares {
    uint64_t sequence;
    uint32_t number, parity;
    uint32_t size; /* places */
    uint32_t own;  /* which of them is ours; `size`: none */
    bool whole;    /* the result of all hosts, as their holder has put it up */
    bool streamed; /* it is copied past the caches */
    size_t bytes;
    struct spotnik_share_place *place; /* by rank; the caller's memory */
};

/* How many places the result of a bucket has. */
uint32_t spotnik_shares_count(const struct spotnik_flat *flat, uint32_t number);

/* Fill in the places of a bucket that is READY. `shares->place` has room for spotnik_shares_count()
 * of them. */
void spotnik_shares_find(struct spotnik_shares *shares, const struct spotnik_flat *flat,
                         uint32_t number);

/* Copy the shares of all other members to their places in `to`, which has `bytes` bytes. */
void spotnik_shares_copy(const struct spotnik_shares *shares, uint8_t *to);

/* Copy our own share. */
void spotnik_shares_copy_own(const struct spotnik_shares *shares, uint8_t *to);

/* Is what lies there still that result? A member asks after it has copied. The shm headers must be
 * mapped. */
bool spotnik_shares_stand(const struct spotnik_shares *shares);

static inline const uint8_t *spotnik_share_data(const struct spotnik_share_place *place)
{
    return (const uint8_t *)place->header + place->offset;
}

/* Our share; empty when we have none. */
static inline size_t spotnik_shares_own_begin(const struct spotnik_shares *shares)
{
    return shares->own < shares->size ? shares->place[shares->own].begin : shares->bytes;
}

static inline size_t spotnik_shares_own_end(const struct spotnik_shares *shares)
{
    return shares->own < shares->size ? shares->place[shares->own].end : shares->bytes;
}

#endif
