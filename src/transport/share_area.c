/* SPDX-License-Identifier: Apache-2.0 */
/* Areas of our segment for the inputs and results of buckets. Memory for a large one takes a tenth
 * of a second for 100 MiB. It takes N times as long when N members of the host want it at once, as
 * after a join. No thread may wait for the runtime's lock meanwhile: a recovery passes through this
 * member. So the caller's thread gets it, with the lock given up; the bucket is started when it is
 * there. */
#include "base/dtype.h"
#include "transport/share.h"

/* One area that a bucket needs, and where it is kept. */
struct need {
    uint8_t **at;
    size_t *have;
    size_t bytes;
};

enum { NEEDS_MAX = 3 };

static size_t bytes_of(const struct spotnik_flat_order *order)
{
    return order->count * spotnik_dtype_size((enum spotnik_dtype)order->dtype);
}

/* Room for our share, also when a quarter of the members is lost: then a recovery need not
 * allocate. A member that is alone (the last one of the view, or of its host) has the whole as its
 * share. */
size_t spotnik_area_result_room(const struct spotnik_share *share,
                                const struct spotnik_flat_order *order, size_t bytes)
{
    uint32_t size = share->flat.size, lost = size > 4 ? size / 4 : 1,
             left = size > lost ? size - lost : 1;
    size_t page = SPOTNIK_SEGMENT_PAGE, pages = (bytes + page - 1) / page;
    if (order->part == SPOTNIK_FLAT_SERVED)
        return spotnik_flat_pipeline_room(order->count, bytes / order->count, order->hosts,
                                          order->chunk_count, left);
    return (pages + left - 1) / left * page;
}

/* What a large bucket needs, here or not. */
static uint32_t needs_of(struct spotnik_share *share, uint32_t number,
                         const struct spotnik_flat_order *order, struct need *ret)
{
    struct spotnik_share_areas *areas = &share->areas[number];
    unsigned parity = order->step & 1;
    size_t bytes = bytes_of(order);
    uint32_t count = 0;
    if (order->part == SPOTNIK_FLAT_HOLDER)
        ret[count++] = (struct need){ &areas->whole[parity], &areas->whole_bytes[parity], bytes };
    else
        ret[count++] = (struct need){ &areas->result[parity], &areas->result_bytes[parity],
                                      spotnik_area_result_room(share, order, bytes) };
    if (!spotnik_segment_holds(&share->segment, order->in, bytes))
        ret[count++] = (struct need){ &areas->large, &areas->large_bytes, bytes };
    return count;
}

static bool is_met(const struct need *need)
{
    return *need->at != NULL && *need->have >= need->bytes;
}

/* A page or a few: at once. */
static uint8_t *small_get(struct spotnik_transport *transport, const struct need *need)
{
    if (!is_met(need)) {
        *need->at = spotnik_segment_take(&transport->share->segment, need->bytes);
        *need->have = *need->at != NULL ? need->bytes : 0;
    }
    return *need->at;
}

static void small_find(struct spotnik_transport *transport, uint32_t number,
                       struct spotnik_flat_order *order)
{
    struct spotnik_share_areas *areas = &transport->share->areas[number];
    unsigned parity = order->step & 1;
    size_t bytes = bytes_of(order);
    order->input_area = small_get(transport, &(struct need){ &areas->small[parity],
                                                             &areas->small_bytes[parity], bytes });
    if (order->part != SPOTNIK_FLAT_HOLDER)
        return;
    order->whole_area = small_get(transport, &(struct need){ &areas->whole[parity],
                                                             &areas->whole_bytes[parity], bytes });
    order->out = order->whole_area;
    if (order->whole_area == NULL)
        order->input_area = NULL;
}

bool spotnik_area_find(struct spotnik_transport *transport, uint32_t number,
                       struct spotnik_flat_order *order)
{
    struct spotnik_share *share = transport->share;
    const struct spotnik_share_areas *areas = &share->areas[number];
    struct need need[NEEDS_MAX];
    if (spotnik_flat_is_small(&share->flat, bytes_of(order))) {
        small_find(transport, number, order);
        return true;
    }
    uint32_t count = needs_of(share, number, order, need);
    for (uint32_t i = 0; i < count; i++)
        if (!is_met(&need[i]))
            return false;
    bool held = spotnik_segment_holds(&share->segment, order->in, bytes_of(order));
    order->input_area = held ? (void *)(uintptr_t)order->in : areas->large;
    order->result_area = areas->result[order->step & 1];
    /* the sum is made where the others will read the result */
    if (order->part == SPOTNIK_FLAT_HOLDER)
        order->out = order->whole_area = areas->whole[order->step & 1];
    return true;
}

/* What was there may still be read, so a larger area is a new one. */
static int need_meet(struct spotnik_transport *transport, const struct need *need)
{
    struct spotnik_segment *segment = &transport->share->segment;
    uint8_t *area = spotnik_segment_reserve(segment, need->bytes);
    if (area == NULL)
        return SPOTNIK_ERR_MEMORY;
    spotnik_loop_unlock(transport->loop);
    bool filled = spotnik_segment_fill(segment, area, need->bytes);
    spotnik_loop_lock(transport->loop);
    if (!filled) {
        spotnik_segment_give(segment, area, need->bytes);
        return SPOTNIK_ERR_MEMORY;
    }
    *need->at = area;
    *need->have = need->bytes;
    return 0;
}

int spotnik_area_get(struct spotnik_transport *transport, uint32_t number)
{
    struct need need[NEEDS_MAX];
    uint32_t count = needs_of(transport->share, number, &transport->share->wanted[number], need);
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < count; i++)
        if (!is_met(&need[i]))
            rc = need_meet(transport, &need[i]);
    return rc;
}
