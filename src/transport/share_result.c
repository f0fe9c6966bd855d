/* SPDX-License-Identifier: Apache-2.0 */
/* Results in shared memory: where they lie, what a holder shows of them, and their way to the
 * caller. */
#include <string.h>

#include "transport/share.h"

/* The bucket of the running step that is reduced with our host; NULL: none, or not so. */
static const struct spotnik_flat_bucket *hosted(const struct spotnik_share *share, uint32_t number,
                                                uint64_t step)
{
    bool there = share != NULL && share->epoch != 0 && number < share->flat.last
                 && share->flat.bucket[number].order.step == step;
    return there ? &share->flat.bucket[number] : NULL;
}

void spotnik_share_show(struct spotnik_transport *transport, uint32_t number, uint64_t step,
                        uint64_t received)
{
    if (hosted(transport->share, number, step) == NULL)
        return;
    spotnik_flat_show(&transport->share->flat, number, received,
                      transport->bucket[number].spread[step & 1]);
    spotnik_share_ring(transport->share);
}

const void *spotnik_share_shown(const struct spotnik_transport *transport, uint32_t number,
                                uint64_t step)
{
    const struct spotnik_flat_bucket *bucket = hosted(transport->share, number, step);
    bool served = bucket != NULL && bucket->order.part == SPOTNIK_FLAT_SERVED;
    return served ? spotnik_flat_shown_result(&transport->share->flat, number) : NULL;
}

/* Bytes come another way; what was held in shared memory is not the result (it was never
 * committed). */
void spotnik_share_void(struct spotnik_transport *transport, uint32_t bucket, uint64_t step)
{
    if (transport->share != NULL)
        transport->share->shown[bucket][step & 1] = false;
}

const uint8_t *spotnik_share_result(const struct spotnik_transport *transport, uint32_t bucket,
                                    uint64_t step)
{
    const struct spotnik_share *share = transport->share;
    return share != NULL && share->shown[bucket][step & 1] ? share->map[bucket][step & 1].base
                                                           : NULL;
}

/* The others' parts first: should they be gone, what was there stands in the copy that we made for
 * the others. Our own part was not copied, but our own result cannot go. */
void spotnik_transport_memory(const struct spotnik_transport *transport,
                              struct spotnik_memory_status *ret)
{
    const struct spotnik_share *share = transport->share;
    *ret = (struct spotnik_memory_status){ .possible = share != NULL && !share->given_up };
    if (share == NULL)
        return;
    ret->shared = ret->possible && share->epoch != 0;
    ret->small_bytes = share->flat.limits.small_bytes;
    ret->slice_bytes = share->flat.limits.slice_bytes;
    ret->stream_bytes = share->flat.limits.stream_bytes;
}

bool spotnik_transport_sees(const struct spotnik_transport *transport, struct spotnik_id peer)
{
    const struct spotnik_sharer *sharer =
        transport->share != NULL ? spotnik_share_find(transport->share, peer) : NULL;
    return transport->share == NULL || (sharer != NULL && sharer->told);
}

bool spotnik_share_deliver(struct spotnik_transport *transport, uint32_t bucket, uint64_t step,
                           void *data)
{
    struct spotnik_share *share = transport->share;
    const struct spotnik_map *map = &share->map[bucket][step & 1];
    const struct spotnik_shares *shares = &map->shares;
    const uint8_t *copy = share->areas[bucket].large;
    struct spotnik_early *early = transport->bucket[bucket].early;
    size_t begin = spotnik_shares_own_begin(shares), end = spotnik_shares_own_end(shares);
    uint8_t *to = data;
    if (to == NULL)
        return spotnik_shares_stand(shares);
    if (shares->whole && early != NULL && early->step == step)
        spotnik_early_finish(early, to, spotnik_map_shared(map), shares->bytes);
    else
        spotnik_shares_copy(shares, to);
    bool stands = spotnik_shares_stand(shares);
    if (stands) {
        spotnik_shares_copy_own(shares, to);
    } else if (!spotnik_segment_holds(&share->segment, data, shares->bytes)) {
        memcpy(to, copy, begin);
        memcpy(to + end, copy + end, shares->bytes - end);
    }
    return stands;
}
