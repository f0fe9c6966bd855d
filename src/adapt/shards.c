/* SPDX-License-Identifier: Apache-2.0 */
/* Ranges, holders and moves of the sharded store; the rules are in shards.h. */
#include "adapt/shards.h"

#include "base/assert.h"

struct spotnik_shards spotnik_shards_make(uint64_t bytes, uint32_t align, uint32_t size,
                                          uint32_t copies)
{
    SPOTNIK_ASSERT(size >= 1 && align >= 1 && copies >= 1);
    return (struct spotnik_shards){ bytes, align, size, copies < size ? copies : size };
}

/* units * i / size without overflow, in whole units of `align`; the last unit may be short. */
static uint64_t edge(const struct spotnik_shards *shards, uint32_t i)
{
    uint64_t units = shards->bytes / shards->align + (shards->bytes % shards->align != 0);
    uint64_t at = units / shards->size * i + units % shards->size * i / shards->size;

    return i == shards->size ? shards->bytes : at * shards->align;
}

struct spotnik_shard spotnik_shards_range(const struct spotnik_shards *shards, uint32_t i)
{
    SPOTNIK_ASSERT(i < shards->size);
    return (struct spotnik_shard){ edge(shards, i), edge(shards, i + 1) };
}

uint32_t spotnik_shards_of(const struct spotnik_shards *shards, uint64_t byte)
{
    uint32_t low = 0, high = shards->size;

    SPOTNIK_ASSERT(byte < shards->bytes);
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (edge(shards, middle) <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

uint32_t spotnik_shards_holder(const struct spotnik_shards *shards, uint32_t i, uint32_t copy)
{
    SPOTNIK_ASSERT(i < shards->size && copy < shards->copies);
    return (i + copy) % shards->size;
}

bool spotnik_shards_holds(const struct spotnik_shards *shards, uint32_t rank, uint32_t i)
{
    SPOTNIK_ASSERT(rank < shards->size);
    return (rank + shards->size - i) % shards->size < shards->copies;
}

static uint32_t old_rank(const struct spotnik_shards *old, const uint32_t *now, uint32_t rank)
{
    for (uint32_t r = 0; r < old->size; r++)
        if (now[r] == rank)
            return r;
    return SPOTNIK_SHARD_NOBODY;
}

uint32_t spotnik_shards_source(const struct spotnik_shards *old, const struct spotnik_shards *new,
                               const uint32_t *now, uint32_t to, uint64_t begin, uint64_t *ret_end)
{
    uint32_t was = spotnik_shards_of(old, begin), is = spotnik_shards_of(new, begin);
    uint64_t old_end = spotnik_shards_range(old, was).end,
             new_end = spotnik_shards_range(new, is).end;
    uint32_t self = old_rank(old, now, to);

    *ret_end = old_end < new_end ? old_end : new_end;
    if (self != SPOTNIK_SHARD_NOBODY && spotnik_shards_holds(old, self, was))
        return to;
    for (uint32_t i = 0; i < old->copies; i++) {
        uint32_t from = now[spotnik_shards_holder(old, was, (to + i) % old->copies)];
        if (from != SPOTNIK_SHARD_NOBODY)
            return from;
    }
    return SPOTNIK_SHARD_NOBODY;
}
