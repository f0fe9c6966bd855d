/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that the caller has from us for its buckets: in our segment, where members of this host reduce it in place, or, where
 * there is none, as any other. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "net/share.h"

static void *memory_place(struct spotnik_engine *engine, size_t bytes)
{
    spotnik_engine_lock(engine);
    void *memory = spotnik_owns(engine) ? spotnik_segment_reserve(&engine->share->segment, bytes) : NULL;
    spotnik_engine_unlock(engine);
    return memory;
}

/* Without the lock: for large buckets it takes its time, and a recovery may pass meanwhile. */
static void *memory_get(struct spotnik_engine *engine, size_t bytes)
{
    size_t page = SPOTNIK_SEGMENT_PAGE, size = (bytes + page - 1) & ~(page - 1);
    if (engine->share == NULL)
        return size >= bytes ? aligned_alloc(page, size > 0 ? size : page) : NULL;
    void *memory = memory_place(engine, bytes);
    if (memory == NULL || spotnik_segment_fill(&engine->share->segment, memory, bytes))
        return memory;
    spotnik_engine_lock(engine);
    spotnik_segment_give(&engine->share->segment, memory, bytes);
    spotnik_engine_unlock(engine);
    return NULL;
}

static void memory_give(struct spotnik_engine *engine, struct spotnik_owned *owned)
{
    if (engine->share != NULL)
        spotnik_segment_give(&engine->share->segment, owned->memory, owned->bytes);
    else
        free(owned->memory);
    free(owned);
}

void *spotnik_engine_alloc(struct spotnik_engine *engine, size_t bytes)
{
    struct spotnik_owned *owned = calloc(1, sizeof *owned);
    void *memory = owned != NULL ? memory_get(engine, bytes) : NULL;
    if (memory == NULL) {
        free(owned);
        (void)spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for %zu bytes of buckets", bytes);
        return NULL;
    }
    memset(memory, 0, bytes);
    spotnik_engine_lock(engine);
    *owned = (struct spotnik_owned){ engine->owned, memory, bytes };
    engine->owned = owned;
    spotnik_engine_unlock(engine);
    return memory;
}

void spotnik_engine_unalloc(struct spotnik_engine *engine, void *memory)
{
    spotnik_engine_lock(engine);
    for (struct spotnik_owned **at = &engine->owned; *at != NULL; at = &(*at)->next) {
        struct spotnik_owned *owned = *at;
        if (owned->memory != memory)
            continue;
        *at = owned->next;
        memory_give(engine, owned);
        break;
    }
    spotnik_engine_unlock(engine);
}

void spotnik_owned_release(struct spotnik_engine *engine)
{
    while (engine->owned != NULL) {
        struct spotnik_owned *owned = engine->owned;
        engine->owned = owned->next;
        memory_give(engine, owned);
    }
}
