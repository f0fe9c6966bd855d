/* SPDX-License-Identifier: Apache-2.0 */
/* The shm header of a member, for the members that share its memory. It lies at the start of the
 * member's segment. Only its owner can write it; all others can only read. So a stopped, excluded
 * or dying member changes only its own memory.
 *
 * A sequence number names one step of one view. A slot's sequence number says to which step the
 * bytes at its offset belong; 0: to none. The owner takes a sequence number down before it changes
 * the bytes and puts one up after. A reader checks the sequence number before and after it reads:
 * if it still hangs there, the bytes read in between belong to it. Members of another epoch have
 * other sequence numbers, so nothing they do is mistaken for ours.
 *
 * Decides only this order of loads and stores; flat.h decides the readers. */
#ifndef SPOTNIK_SHM_HEADER_H
#define SPOTNIK_SHM_HEADER_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_BOARD_MAGIC UINT64_C(0x6472616f426b6e53)
#define SPOTNIK_BOARD_VERSION 4
#define SPOTNIK_BOARD_BUCKETS 258 /* those of the core */

/* One bucket, in the steps of one parity. */
struct spotnik_shm_header_slot {
    uint64_t input; /* sequence number: our input lies at input_offset */
    /* sequence number: our share of the result lies at result_offset; of a holder: some of the
     * result of all hosts in whole[] */
    uint64_t result;
    uint64_t input_offset, result_offset; /* from the start of the segment */
    uint64_t count, weight;
    uint8_t dtype, op, spare[6];
    /* pipelined (pipeline.c): how many pieces of them lie there so far; of a holder: final chunks
     * (show.c) */
    uint32_t inputs, results;
};

/* The result of all hosts, in the memory of the one that holds the stream of its host. */
struct spotnik_shm_header_whole {
    uint64_t sequence, offset;
};

struct spotnik_shm_header {
    uint64_t magic, version;
    uint64_t id_high, id_low; /* member_id of the owner */
    /* hash of its instruction tier: members that add the same inputs must add alike */
    uint64_t kernels;
    uint8_t spare[24];
    uint64_t sealed; /* sequence number of the last step whose buckets have all been put up */
    uint8_t spare_sealed[56];
    uint32_t futex; /* futex: rung after a sequence number while somebody waits */
    uint8_t spare_bell[60];
    uint32_t waiting; /* 1: the owner sleeps on the futex word of somebody, or is about to */
    uint8_t spare_waiting[60];
    struct spotnik_shm_header_slot slot[SPOTNIK_BOARD_BUCKETS][2];
    struct spotnik_shm_header_whole whole[SPOTNIK_BOARD_BUCKETS][2];
};

/* 0 when the numbers do not fit: such a step goes round the ring. */
static inline uint64_t spotnik_shm_header_sequence(uint64_t epoch, uint64_t step)
{
    return epoch >> 24 == 0 && step >> 40 == 0 ? epoch << 40 | step : 0;
}

static inline uint64_t spotnik_shm_header_epoch_of(uint64_t sequence)
{
    return sequence >> 40;
}

/* Pieces of what a sequence number names; put up after they are written, and set back only while
 * the sequence number is down. */
static inline void spotnik_shm_header_count_up(uint32_t *pieces, uint32_t value)
{
    __atomic_store_n(pieces, value, __ATOMIC_RELEASE);
}

static inline uint32_t spotnik_shm_header_counted(const uint32_t *pieces)
{
    return __atomic_load_n(pieces, __ATOMIC_ACQUIRE);
}

/* A reader that sees the sequence number can read all earlier writes. */
static inline void spotnik_shm_header_put_up(uint64_t *sequence, uint64_t value)
{
    __atomic_store_n(sequence, value, __ATOMIC_RELEASE);
}

/* A reader that sees the sequence number before and after has read none of the later writes. */
static inline void spotnik_shm_header_take_down(uint64_t *sequence)
{
    __atomic_store_n(sequence, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Several at once: what costs is the fence. */
static inline void spotnik_shm_header_take_down_all(uint64_t *const *sequence, int count)
{
    for (int i = 0; i < count; i++)
        __atomic_store_n(sequence[i], 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

static inline bool spotnik_shm_header_hangs(const uint64_t *sequence, uint64_t value)
{
    return __atomic_load_n(sequence, __ATOMIC_ACQUIRE) == value;
}

/* After reading what the sequence number names. */
static inline bool spotnik_shm_header_still_hangs(const uint64_t *sequence, uint64_t value)
{
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(sequence, __ATOMIC_RELAXED) == value;
}

#endif
