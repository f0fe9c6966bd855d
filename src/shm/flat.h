/* SPDX-License-Identifier: Apache-2.0 */
/* The flat all-reduce: members that can read each other's memory reduce a bucket without passing it
 * on (docs/design/0007-data-path.md). One slice of work at a time, whenever the driver has time for
 * it.
 *
 *     small   put up our input; when all inputs hang there, add up all of it ourselves
 *     large   put up our input; when all inputs hang there, add up our share and put it up; when
 *             all shares hang there, the whole result is held: it lies in the members' memory,
 *             which outlives them
 *
 * Where the job has several hosts, the first member of a host holds
 * its stream to other hosts. It gathers the sums in memory of its own, where they do not change.
 * When the result of all hosts has come, it spreads the result: puts it up whole. The others wait
 * for it. Large buckets come piece by piece (pipeline.c), and their results can be seen before they
 * are whole (show.c).
 *
 * The additions are those of the ring, in its order: element e of segment j starts with rank j.
 * Shares are cut at pages, so that a result can be mapped as one piece (map.h); the order does
 * not depend on them.
 *
 * No system call, no allocation: the driver provides memory, wakes waiters, and maps the memory to
 * read. The same code runs over segments (src/transport) and in the simulator. One thread at a
 * time. */
#ifndef SPOTNIK_SHM_FLAT_H
#define SPOTNIK_SHM_FLAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "reduce/reduce.h"
#include "ring/ring.h"
#include "shm/header.h"

/* A member of the view, by rank: its shm header, at the start of its memory as we see it. */
struct spotnik_flat_peer {
    struct spotnik_shm_header *header; /* ours alone is written */
    uint64_t bytes_max;                /* what can be read of its memory */
};

/* Sizes on which all members must agree. */
struct spotnik_flat_limits {
    size_t small_bytes; /* buckets up to this are small */
    size_t page_bytes;  /* shares are cut at multiples of this, itself a multiple of 8 */
    size_t slice_bytes; /* of the result, per slice of work: a multiple of 8 */
    /* buckets from this on, times the members, go past the caches, which they would only sweep */
    size_t stream_bytes;
};

enum spotnik_flat_phase {
    SPOTNIK_FLAT_IDLE,
    SPOTNIK_FLAT_COPY,   /* our input into our memory */
    SPOTNIK_FLAT_GATHER, /* until all inputs hang there */
    SPOTNIK_FLAT_REDUCE,
    SPOTNIK_FLAT_SPREAD, /* until all shares hang there */
    /* large, one host of several: until all is added up, and with the holder */
    SPOTNIK_FLAT_PIPELINE,
    SPOTNIK_FLAT_SUMMED, /* holder: until the result of all hosts is here */
    SPOTNIK_FLAT_AWAIT,  /* until the holder has put up the result of all hosts */
    SPOTNIK_FLAT_DONE,
    /* an input went away while it was read: the view is over, though we do not know it yet */
    SPOTNIK_FLAT_STALE,
};

enum spotnik_flat_part {
    SPOTNIK_FLAT_ALL,    /* of a whole view */
    SPOTNIK_FLAT_HOLDER, /* of one host of several, as rank 0 */
    SPOTNIK_FLAT_SERVED, /* as any other rank */
};

/* What a bucket is to be reduced with. */
struct spotnik_flat_order {
    enum spotnik_flat_part part;
    uint64_t sequence; /* not 0 */
    uint64_t step;
    uint64_t count, weight;
    uint8_t dtype, op;
    const void *in;
    /* in our memory; equal to `in`: it lies there already. Else bytes for a copy, and not one that
     * a step of the other parity may still read: small buckets have an area per parity */
    void *input_area;
    /* this very input was begun with before, in this step: what stands in the area need not be
     * copied */
    bool again;
    /* large: in our memory, spotnik_flat_share() bytes, or, SERVED, spotnik_flat_pipeline_room();
     * one per parity */
    void *result_area;
    /* small: the result; HOLDER, of any size: the sum of the host (of MEAN without the division) */
    void *out;
    uint32_t hosts;       /* HOLDER, SERVED: of the view, more than one, */
    uint32_t host;        /* the place of ours among them, */
    uint64_t chunk_count; /* and the elements of a chunk of their ring */
    /* HOLDER: in our memory, bytes, at a multiple of page_bytes; one per parity */
    void *whole_area;
};

/* How far a large bucket of one host of several has got in one kind of work. */
struct spotnik_flat_cursor {
    uint64_t chunk; /* the one in work, */
    size_t at;      /* and bytes of it that are done */
    uint32_t pieces;
};

struct spotnik_flat_bucket {
    enum spotnik_flat_phase phase;
    struct spotnik_flat_order order;
    size_t bytes, one;
    size_t begin, end, at; /* bytes: our share; how far the slices have got */
    /* bytes: what of the input no other member reads, so it is not copied */
    size_t gap_begin, gap_end;
    size_t copy_end;     /* bytes: the copy of the input ends here */
    uint64_t weight_sum; /* HOLDER: of all inputs */
    uint32_t seen;       /* of the others, from our successor on, that are ready in this phase */
    struct spotnik_ring ring; /* PIPELINE: of the hosts; only its lengths matter here */
    uint64_t grain;           /* chunks of each segment in a piece */
    uint32_t pieces;
    struct spotnik_flat_cursor copy, add, collect;
    uint64_t shown;        /* final chunks that the holder has shown, or of which we know; */
    uint64_t shown_offset; /* SERVED: where they lie in its memory */
    bool small;
    bool copied; /* the area holds our input, but for the gap */
};

struct spotnik_flat {
    struct spotnik_flat_limits limits;
    const struct spotnik_flat_peer *peer;
    uint32_t rank, size;
    uint32_t active;  /* buckets neither idle nor done */
    uint32_t copying; /* of them in COPY */
    uint32_t last;    /* one past the highest bucket in use */
    uint64_t sealing; /* sequence number to be put up when all inputs are; 0: none */
    /* something was put up: the driver rings our futex word for waiters, and resets it */
    bool rung;
    struct spotnik_reduce_source *source; /* scratch, one per rank */
    struct spotnik_flat_bucket bucket[SPOTNIK_BOARD_BUCKETS];
    struct spotnik_flat_odd {
        uint32_t rank;
        bool has; /* else its step has no such bucket */
        uint8_t dtype, op;
        uint64_t count;
    } odd; /* after MISMATCH: whose bucket is another than ours, and what it has */
};

enum spotnik_flat_verdict {
    SPOTNIK_FLAT_MORE,    /* call again */
    SPOTNIK_FLAT_BLOCKED, /* waits for the members spotnik_flat_awaits() names */
    /* HOLDER: more of the sum is in out; SERVED: more of the result is shown; call again */
    SPOTNIK_FLAT_PART,
    SPOTNIK_FLAT_READY,    /* done now: the whole result is held; HOLDER: the sum of the host is */
    SPOTNIK_FLAT_MISMATCH, /* the programs differ */
};

void spotnik_shm_header_init(struct spotnik_shm_header *header, uint64_t id_high, uint64_t id_low,
                             uint64_t kernels);

/* The members of a new view; nothing may be active. `peer` and `source` (one per member) are
 * borrowed. */
void spotnik_flat_view(struct spotnik_flat *flat, const struct spotnik_flat_peer *peer,
                       struct spotnik_reduce_source *source, uint32_t rank, uint32_t size);

bool spotnik_flat_is_small(const struct spotnik_flat *flat, size_t bytes);

/* To be copied and added up past the caches. */
bool spotnik_flat_is_streamed(const struct spotnik_flat *flat, size_t bytes);

/* The share of a rank in a large bucket: bytes from *ret_begin to *ret_end. */
void spotnik_flat_share(const struct spotnik_flat *flat, size_t bytes, uint32_t rank,
                        size_t *ret_begin, size_t *ret_end);

/* Begin with a bucket. A small one is put up at once. */
void spotnik_flat_start(struct spotnik_flat *flat, uint32_t number,
                        const struct spotnik_flat_order *order);

/* No more buckets follow in this step: say so when all inputs are up. */
void spotnik_flat_seal(struct spotnik_flat *flat, uint64_t sequence);

/* A slice of work on an active bucket. */
enum spotnik_flat_verdict spotnik_flat_run(struct spotnik_flat *flat, uint32_t number);

/* Should others of our host have the processor now, if there is not one for each? */
bool spotnik_flat_is_ahead(const struct spotnik_flat *flat);

/* Bytes for the sums of a SERVED member among `size`. */
size_t spotnik_flat_pipeline_room(uint64_t count, size_t one, uint32_t hosts, uint64_t chunk_count,
                                  uint32_t size);

/* HOLDER: how many chunks of every segment of the ring of hosts are in out; UINT64_MAX: all. */
uint64_t spotnik_flat_collected(const struct spotnik_flat *flat, uint32_t number);

/* HOLDER: number of chunks received of the stream to this host, in order; final ones lie in
 * `result`. Shows them to the others now and then. */
void spotnik_flat_show(struct spotnik_flat *flat, uint32_t number, uint64_t received,
                       const void *result);

/* SERVED: how many final chunks are shown, which elements the one at `index` covers, and the result
 * that they are of. After something was read there: does it still lie there? */
uint64_t spotnik_flat_shown(const struct spotnik_flat *flat, uint32_t number);
struct spotnik_ring_chunk spotnik_flat_shown_chunk(const struct spotnik_flat *flat, uint32_t number,
                                                   uint64_t index);
const void *spotnik_flat_shown_result(const struct spotnik_flat *flat, uint32_t number);
bool spotnik_flat_shown_stands(const struct spotnik_flat *flat, uint32_t number);

/* HOLDER: the result of all hosts, for the others to see. */
void spotnik_flat_spread(struct spotnik_flat *flat, uint32_t number, const void *result);

/* Has everybody put up its share of this large bucket of `step`, as it was started last? After a
 * recovery, and before the next view is set up. Then the whole result is held. */
bool spotnik_flat_stands(const struct spotnik_flat *flat, uint32_t number, uint64_t step);

/* The ranks that a blocked bucket waits for, any of them. Returns how many; 0: none, since the view
 * is over. */
uint32_t spotnik_flat_awaits(const struct spotnik_flat *flat, uint32_t number,
                             uint32_t ret_rank[2]);

/* What a blocked bucket waits for, if that is one sequence number: to hang there as its own does.
 * NULL: more than a sequence number, or nothing. */
const uint64_t *spotnik_flat_awaited_sequence(const struct spotnik_flat *flat, uint32_t number);

/* The step of all buckets in use has been committed: its large inputs are the caller's again. */
void spotnik_flat_commit(struct spotnik_flat *flat);

/* A recovery has begun: take all inputs down and forget what is active. Results stay, for those
 * that hold them. */
void spotnik_flat_cut(struct spotnik_flat *flat);

static inline bool spotnik_flat_is_active(const struct spotnik_flat *flat, uint32_t number)
{
    enum spotnik_flat_phase phase = flat->bucket[number].phase;
    return phase != SPOTNIK_FLAT_IDLE && phase != SPOTNIK_FLAT_DONE && phase != SPOTNIK_FLAT_SUMMED;
}

#endif
