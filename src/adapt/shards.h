/* SPDX-License-Identifier: Apache-2.0 */
/* The placement of the shared parameter store of ASP: ranges of bytes over the members of the view,
 * each held by several. Decides the holders of each range and, after a view change, the member from
 * which each new holder takes it. It is a function of the two views, so all members compute the
 * same. Moves nothing. */
#ifndef SPOTNIK_ADAPT_SHARDS_H
#define SPOTNIK_ADAPT_SHARDS_H

#include <stdbool.h>
#include <stdint.h>

#define SPOTNIK_SHARD_NOBODY UINT32_MAX

struct spotnik_shards {
    uint64_t bytes;  /* of the whole model */
    uint32_t align;  /* ranges begin at multiples of this many bytes: an element, a cache line */
    uint32_t size;   /* members of the view: as many ranges */
    uint32_t copies; /* holders of each range, >= 1; no more than there are members */
};

struct spotnik_shard {
    uint64_t begin, end; /* bytes */
};

struct spotnik_shards spotnik_shards_make(uint64_t bytes, uint32_t align, uint32_t size,
                                          uint32_t copies);

/* Range number i, 0 <= i < size: nearly equal, together everything, without overlap. May be
 * empty. */
struct spotnik_shard spotnik_shards_range(const struct spotnik_shards *shards, uint32_t i);

/* Which range a byte lies in. byte < bytes. */
uint32_t spotnik_shards_of(const struct spotnik_shards *shards, uint64_t byte);

/* Rank of a holder of range i; copy 0 is the primary, the others stand after it in the ring. copy <
 * copies. */
uint32_t spotnik_shards_holder(const struct spotnik_shards *shards, uint32_t i, uint32_t copy);
bool spotnik_shards_holds(const struct spotnik_shards *shards, uint32_t rank, uint32_t i);

/* After a view change: where does `to`, a rank of the new view, find the bytes from `begin` on that
 * it holds from now on? *ret_end is the end of the piece that lies in one range of either view.
 * Returns a rank of the new view, or `to` itself where it has held them before.
 * SPOTNIK_SHARD_NOBODY: all old holders are lost. `now[r]` is the rank in the new view of rank r of
 * the old one, or SPOTNIK_SHARD_NOBODY. Receivers are spread over the holders. */
uint32_t spotnik_shards_source(const struct spotnik_shards *old, const struct spotnik_shards *new,
                               const uint32_t *now, uint32_t to, uint64_t begin, uint64_t *ret_end);

#endif
