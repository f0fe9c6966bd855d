/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives of a step that are all-reduces underneath (docs/design/0007-data-path.md): what
 * each bucket becomes after the commit. Decides whose bytes go where; the runtime moves, adds and
 * commits them.
 *
 * Bytes travel as sums of U8 in which all but one source are zero: exact for every type. The
 * census, a bucket of one bit per share, names the contributors: they are the same for every bucket
 * of the step. Its number is 255, which earlier releases expect; where the caller has used that one
 * in the step, it is one beyond the caller's. So it starts with the commit, when the caller's are
 * known. Everything belongs to the caller's thread. */
#ifndef SPOTNIK_API_COLLECTIVE_H
#define SPOTNIK_API_COLLECTIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "spotnik/spotnik.h"

#define SPOTNIK_CENSUS_SHARES 1024
#define SPOTNIK_CENSUS_WORDS (SPOTNIK_CENSUS_SHARES / 64)

enum spotnik_collective_kind {
    SPOTNIK_COLLECTIVE_NONE, /* a plain all-reduce, or nothing */
    SPOTNIK_COLLECTIVE_BROADCAST,
    SPOTNIK_COLLECTIVE_ALLGATHER,
    SPOTNIK_COLLECTIVE_REDUCE_SCATTER,
    SPOTNIK_COLLECTIVE_COMPRESSED, /* an all-reduce of F32 that travels as something shorter */
};

/* The collective that runs in one bucket. */
struct spotnik_collective {
    enum spotnik_collective_kind kind;
    void *data;           /* the caller's: where results go */
    size_t count, one;    /* elements as the caller counts them; bytes of each */
    uint32_t root, slots; /* broadcast; all-gather */
    spotnik_range *part;  /* reduce-scatter: NULL or the caller's */
    /* all-gather: a row per slot, zero but for [dirty_at, dirty_at + dirty_bytes). The runtime's */
    uint8_t *table;
    size_t table_bytes, dirty_at, dirty_bytes;
    uint8_t *narrowed; /* compressed: what travels. The runtime's */
    size_t narrowed_bytes;
    enum spotnik_dtype wire;
};

struct spotnik_collectives {
    bool counted;                           /* the running step has a census */
    uint32_t number;                        /* of its bucket; 0: not started yet */
    uint32_t share, shares;                 /* ours, of how many; both 0 in a replay */
    uint64_t census[SPOTNIK_CENSUS_WORDS];  /* our bit */
    uint64_t present[SPOTNIK_CENSUS_WORDS]; /* everybody's, of the step committed last */
    /* the contribution of members without data. Owned by the runtime */
    const void *zeros;
    size_t zeros_bytes;
    uint32_t rootless; /* 1 + a bucket whose root was lost in the step committed last; 0: none */
    struct spotnik_collective of[256]; /* by the caller's bucket */
};

/* The collectives of a job, made with the first; NULL: no memory. */
struct spotnik_collectives *spotnik_collectives_of(spotnik_job *job);

/* A step was begun; NULL: this job has had no collectives yet. */
void spotnik_collectives_begin(struct spotnik_collectives *all);

/* The caller starts no more buckets; may be called again for the same step. NULL is allowed. */
int spotnik_collectives_seal(spotnik_job *job, struct spotnik_collectives *all);

/* The step was committed: copy what the caller is to have. NULL is allowed. */
void spotnik_collectives_deliver(struct spotnik_collectives *all, uint32_t bucket_count,
                                 const struct spotnik_bucket_result *result);

/* After that: 0, or ROOT. */
int spotnik_collectives_outcome(const struct spotnik_collectives *all);

/* Bit of a share in a census. */
static inline bool spotnik_census_has(const uint64_t *census, uint32_t share)
{
    return census[share / 64] >> (share % 64) & 1;
}

uint32_t spotnik_census_count(const uint64_t *census, uint32_t below);

/* Part `index` of `parts` of `count` elements, as even as can be, the longer ones first. */
spotnik_range spotnik_part_of(size_t count, uint32_t index, uint32_t parts);

#endif
