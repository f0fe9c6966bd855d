/* SPDX-License-Identifier: Apache-2.0 */
/* The route as src/core sees it: its memory, and one switch from event to its file. The table of
 * ways (route.h), and what those ways have in common whose frame is a whole bucket. */
#include "base/assert.h"
#include "route/route.h"

struct route *route_lay_out(struct carver *carver, uint32_t members, uint32_t entries)
{
    struct route scratch, *real = carve(carver, sizeof(*real)), *route = real ? real : &scratch;

    route->holder = carve(carver, members * sizeof(*route->holder));
    route->scratch = carve(carver, 4 * (size_t)members * sizeof(*route->scratch));
    route->consumed = carve(carver, members * sizeof(*route->consumed));
    for (int i = 0; i < 4; i++)
        route->carried[i >> 1][i & 1] = carve(carver, 2 * members * sizeof(uint64_t));
    route->flat.max = entries;
    route->flat.peer = carve(carver, route->flat.max * sizeof(*route->flat.peer));
    for (int i = 0; i < 2; i++)
        route->flat.carried[i] = carve(carver, 2 * members * sizeof(bool));
    return real;
}

bool route_take(struct spotnik_core *core, const struct spotnik_event *event)
{
    switch (event->kind) {
    case SPOTNIK_EVENT_STEP_BEGIN:
        on_step_begin(core);
        return true;
    case SPOTNIK_EVENT_WEIGHT:
        on_weight(core, event->weight);
        return true;
    case SPOTNIK_EVENT_DECLINE:
        on_decline(core);
        return true;
    case SPOTNIK_EVENT_BUCKET_START:
        on_bucket_start(core, &event->start);
        return true;
    case SPOTNIK_EVENT_STEP_SEAL:
        on_step_seal(core);
        return true;
    case SPOTNIK_EVENT_DEAL:
        on_deal(core, &event->deal);
        return true;
    case SPOTNIK_EVENT_CHUNK_DONE:
        on_chunk_done(core, &event->chunk.header);
        return true;
    case SPOTNIK_EVENT_SHARED:
        on_shared(core, &event->shared);
        return true;
    case SPOTNIK_EVENT_FLAT_DONE:
        on_flat_done(core, &event->flat);
        return true;
    case SPOTNIK_EVENT_FLAT_FAILED:
        on_flat_failed(core, &event->failure);
        return true;
    default:
        return false;
    }
}

/* ---- ways ---- */

static const struct way *const ways[WAY_COUNT] = {
    [WAY_RING] = &way_ring,           [WAY_HOST_TREE] = &way_host_tree,
    [WAY_HOST_RING] = &way_host_ring, [WAY_HOST_MEMORY] = &way_host_memory,
    [WAY_MEMORY] = &way_memory,       [WAY_TREE] = &way_tree,
    [WAY_DIRECT] = &way_direct,
};

const struct way *way_of(const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->way < WAY_COUNT);
    return ways[bucket->way];
}

/* The ring takes what no other way does. */
static enum way_kind choose(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
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

/* ---- whole buckets ---- */

void route_whole_next(const struct spotnik_bucket *bucket, uint64_t weight,
                      struct spotnik_transfer *ret)
{
    ret->header.weight = weight;
    ret->header.sharing = bucket->sharing;
    ret->offset = 0;
    ret->count = bucket->count;
}

struct spotnik_placement route_whole_place(const struct spotnik_bucket *bucket, uint32_t from,
                                           const struct spotnik_chunk_header *header)
{
    bool expected =
        header->sequence == spotnik_transaction_small_sequence(bucket, from, bucket->rank);

    if (!expected || !spotnik_transaction_awaits(bucket, from))
        return route_verdict(SPOTNIK_VERDICT_BAD);
    bool result = spotnik_transaction_is_result(bucket, header->sequence);
    return (struct spotnik_placement){ .verdict = SPOTNIK_VERDICT_TAKE,
                                       .kind = result ? SPOTNIK_RING_COPY : SPOTNIK_RING_KEEP,
                                       .count = bucket->count };
}

void route_whole_complete(struct spotnik_core *core, struct spotnik_bucket *bucket,
                          const struct spotnik_chunk_header *header)
{
    core->route->flat.agreed[header->step & 1] = bucket->sharing; /* everybody's word is in it */
    flat_spread(core, header->bucket, bucket, header->step);
}
