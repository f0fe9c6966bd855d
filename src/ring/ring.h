/* SPDX-License-Identifier: Apache-2.0 */
/* The schedule of a ring all-reduce: which elements chunk number q of a bucket moves, and what is
 * done with them. Pure arithmetic; knows neither members nor memory.
 *
 *     bucket   |---- segment 0 ----|---- segment 1 ----| ... |---- segment N-1 ----|
 *     segment  |chunk 0|chunk 1|..C-1|         all segments have C chunks; trailing ones may be
 *              short or empty
 *     stream predecessor -> successor:  hop 0 chunk 0..C-1, hop 1 chunk 0..C-1, ... hop 2(N-1)-1
 *
 * At hop t rank r sends segment (r - t) mod N. Hops 0..N-2 reduce, hops N-1..2N-3 hand the finished
 * segments round. */
#ifndef SPOTNIK_RING_RING_H
#define SPOTNIK_RING_RING_H

#include <stdbool.h>
#include <stdint.h>

struct spotnik_ring {
    uint32_t size;        /* N >= 1 */
    uint32_t rank;        /* of the member whose view this is */
    uint64_t count;       /* elements in the bucket */
    uint64_t chunk_count; /* elements in a full chunk, >= 1 */
    uint64_t chunks;      /* C: chunks in every segment, >= 1 */
};

enum spotnik_ring_kind {
    SPOTNIK_RING_REDUCE,      /* out = received (op) in, more contributions follow */
    SPOTNIK_RING_REDUCE_LAST, /* the same, and now every contribution is in: finish the mean */
    SPOTNIK_RING_COPY,        /* out = received: a finished segment */
    /* of a small bucket, which does not go round: an input to be added up when all are here */
    SPOTNIK_RING_KEEP,
};

struct spotnik_ring_chunk {
    uint64_t offset; /* elements from the start of the bucket */
    uint64_t count;  /* elements; 0 for the padding of a short segment */
    uint32_t hop;
    enum spotnik_ring_kind kind; /* for the receiver */
};

struct spotnik_ring spotnik_ring_make(uint32_t size, uint32_t rank, uint64_t count,
                                      uint64_t chunk_count);

/* Chunks in the stream from a member to its successor: 2(N-1)C. 0 for a ring of one. */
uint64_t spotnik_ring_total(const struct spotnik_ring *ring);

/* What chunk q of the stream this rank *sends* covers (kind as its successor sees it). q <
 * total. */
struct spotnik_ring_chunk spotnik_ring_sent(const struct spotnik_ring *ring, uint64_t q);

/* What chunk q of the stream this rank *receives* covers. q < total. */
struct spotnik_ring_chunk spotnik_ring_received(const struct spotnik_ring *ring, uint64_t q);

/* May chunk q be sent when `received` chunks have come in? Hop 0 always, hop t after the same chunk
 * of hop t-1. */
bool spotnik_ring_ready(const struct spotnik_ring *ring, uint64_t q, uint64_t received);

/* The elements of chunk `index` < C of a segment, at any hop. */
struct spotnik_ring_chunk spotnik_ring_at(const struct spotnik_ring *ring, uint32_t segment,
                                          uint64_t index);

/* The first segment of the stream this rank sends: its own contribution, sent at hop 0. */
struct spotnik_ring_chunk spotnik_ring_own(const struct spotnik_ring *ring);

#endif
