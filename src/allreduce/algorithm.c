/* SPDX-License-Identifier: Apache-2.0 */
/* The table of algorithms (allreduce.h): which one takes a bucket. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

static const struct algorithm *const algorithms[ALGORITHM_COUNT] = {
    [ALGORITHM_RING] = &algorithm_ring,           [ALGORITHM_HOST_TREE] = &algorithm_host_tree,
    [ALGORITHM_HOST_RING] = &algorithm_host_ring, [ALGORITHM_HOST_MEMORY] = &algorithm_host_memory,
    [ALGORITHM_MEMORY] = &algorithm_memory,       [ALGORITHM_TREE] = &algorithm_tree,
    [ALGORITHM_DIRECT] = &algorithm_direct,
};

const struct algorithm *algorithm_of(const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    SPOTNIK_ASSERT(bucket->algorithm < ALGORITHM_COUNT);
    return algorithms[bucket->algorithm];
}

/* The ring takes what no other algorithm does. */
static enum algorithm_kind choose(const struct spotnik_core *core,
                                  const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    for (uint32_t algorithm = ALGORITHM_RING + 1; algorithm < ALGORITHM_COUNT; algorithm++)
        if (algorithms[algorithm]->takes(core, bucket))
            return (enum algorithm_kind)algorithm;
    return ALGORITHM_RING;
}

void allreduce_start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    bucket->algorithm = (uint8_t)choose(core, bucket);
    algorithms[bucket->algorithm]->start(core, number, bucket);
}
