/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the caller gets from us for its buckets. It lies in our segment, where members of
 * this host reduce it in place. Where there is no segment it is ordinary memory. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "transport/share.h"

static void *memory_place(struct spotnik_transport *transport, size_t bytes)
{
    spotnik_loop_lock(transport->loop);
    void *memory = spotnik_segment_reserve(&transport->share->segment, bytes);
    spotnik_loop_unlock(transport->loop);
    return memory;
}

/* Without the lock: for large buckets it takes its time, and a recovery may pass meanwhile. */
static void *memory_get(struct spotnik_transport *transport, size_t bytes)
{
    size_t page = SPOTNIK_SEGMENT_PAGE, size = (bytes + page - 1) & ~(page - 1);
    if (transport->share == NULL)
        return size >= bytes ? aligned_alloc(page, size > 0 ? size : page) : NULL;
    void *memory = memory_place(transport, bytes);
    if (memory == NULL || spotnik_segment_fill(&transport->share->segment, memory, bytes))
        return memory;
    spotnik_loop_lock(transport->loop);
    spotnik_segment_give(&transport->share->segment, memory, bytes);
    spotnik_loop_unlock(transport->loop);
    return NULL;
}

static void memory_give(struct spotnik_transport *transport, struct spotnik_owned *owned)
{
    if (transport->share != NULL)
        spotnik_segment_give(&transport->share->segment, owned->memory, owned->bytes);
    else
        free(owned->memory);
    free(owned);
}

void *spotnik_transport_alloc(struct spotnik_transport *transport, size_t bytes)
{
    struct spotnik_owned *owned = calloc(1, sizeof *owned);
    void *memory = owned != NULL ? memory_get(transport, bytes) : NULL;
    if (memory == NULL) {
        free(owned);
        (void)spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %zu bytes of buckets", bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    spotnik_loop_lock(transport->loop);
    *owned = (struct spotnik_owned){ transport->owned, memory, bytes };
    transport->owned = owned;
    spotnik_loop_unlock(transport->loop);
    return memory;
}

void spotnik_transport_unalloc(struct spotnik_transport *transport, void *memory)
{
    spotnik_loop_lock(transport->loop);
    for (struct spotnik_owned **at = &transport->owned; *at != NULL; at = &(*at)->next) {
        struct spotnik_owned *owned = *at;
        if (owned->memory != memory)
            continue;
        *at = owned->next;
        memory_give(transport, owned);
        break;
    }
    spotnik_loop_unlock(transport->loop);
}

void spotnik_owned_release(struct spotnik_transport *transport)
{
    while (transport->owned != NULL) {
        struct spotnik_owned *owned = transport->owned;
        transport->owned = owned->next;
        memory_give(transport, owned);
    }
}
