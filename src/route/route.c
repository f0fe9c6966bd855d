/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ways (route.h): which one takes a bucket. */
#include "base/assert.h"
#include "route/route.h"

static const struct way *const ways[WAY_COUNT] = {
    [WAY_RING] = &way_ring,           [WAY_HOST_TREE] = &way_host_tree,
    [WAY_HOST_RING] = &way_host_ring, [WAY_HOST_MEMORY] = &way_host_memory,
    [WAY_MEMORY] = &way_memory,       [WAY_TREE] = &way_tree,
    [WAY_DIRECT] = &way_direct,
};

const struct way *way_of(const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    SPOTNIK_ASSERT(bucket->way < WAY_COUNT);
    return ways[bucket->way];
}

/* The ring takes what no other way does. */
static enum way_kind choose(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    for (uint32_t way = WAY_RING + 1; way < WAY_COUNT; way++)
        if (ways[way]->takes(core, bucket))
            return (enum way_kind)way;
    return WAY_RING;
}

void route_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    bucket->way = (uint8_t)choose(core, bucket);
    ways[bucket->way]->start(core, number, bucket);
}
