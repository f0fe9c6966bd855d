/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping shares side by side: mremap() of nothing makes another mapping of the same shared
 * pages. */
#include "shm/map.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "base/assert.h"
#include "base/error.h"
#include "shm/segment.h"
#include "spotnik/spotnik.h"

static size_t whole_pages(size_t bytes)
{
    return (bytes + SPOTNIK_SEGMENT_PAGE - 1) & ~(size_t)(SPOTNIK_SEGMENT_PAGE - 1);
}

static bool is_same_place(const struct spotnik_share_place *a, const struct spotnik_share_place *b)
{
    return a->header == b->header && a->offset == b->offset && a->begin == b->begin
           && a->end == b->end;
}

/* The same pages at the same places as the last time? Then there is nothing to map. */
static bool is_mapped(const struct spotnik_map *map, const struct spotnik_shares *now)
{
    const struct spotnik_shares *last = &map->shares;
    if (map->base == NULL || map->bytes != now->bytes || last->size != now->size
        || last->whole != now->whole)
        return false;
    for (uint32_t rank = 0; rank < now->size; rank++)
        if (!is_same_place(&now->place[rank], &last->place[rank]))
            return false;
    return true;
}

static int space_get(struct spotnik_map *map, size_t bytes)
{
    /* all old shares at once: each alone would cost a flush */
    if (map->base != NULL && map->reserved >= bytes)
        return mmap(map->base, map->reserved, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
                    0) == MAP_FAILED
                   ? SPOTNIK_ERR_SYSTEM
                   : 0;
    if (map->base != NULL)
        munmap(map->base, map->reserved);
    size_t pages = whole_pages(bytes);
    void *base = mmap(NULL, pages, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    map->base = base == MAP_FAILED ? NULL : base;
    map->reserved = base == MAP_FAILED ? 0 : pages;
    return map->base != NULL ? 0 : SPOTNIK_ERR_SYSTEM;
}

static int share_map(const struct spotnik_map *map, const struct spotnik_flat *flat, uint32_t rank)
{
    const struct spotnik_share_place *place = &map->shares.place[rank];
    if (place->begin == place->end)
        return 0;
    size_t pages = whole_pages(place->end - place->begin);
    if (place->offset % SPOTNIK_SEGMENT_PAGE != 0 || place->offset > flat->peer[rank].bytes_max
        || pages > flat->peer[rank].bytes_max - place->offset)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a member's share of a result lies outside its memory");
    void *got = mremap((uint8_t *)place->header + place->offset, 0, pages,
                       MREMAP_MAYMOVE | MREMAP_FIXED, map->base + place->begin);
    if (got == MAP_FAILED)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map a result: %m");
    if (rank == flat->rank)
        mprotect(got, pages, PROT_READ); /* theirs we have to read only */
    return 0;
}

static int shares_map(struct spotnik_map *map, const struct spotnik_flat *flat)
{
    int rc = space_get(map, map->shares.bytes);
    for (uint32_t rank = 0; rc == 0 && rank < map->shares.size; rank++)
        rc = share_map(map, flat, rank);
    map->bytes = rc == 0 ? map->shares.bytes : 0;
    return rc;
}

/* Places are found in the second half of the array, and compared with those that are mapped, in the
 * first. */
static int places_get(struct spotnik_map *map, uint32_t size)
{
    if (map->places_max >= size)
        return 0;
    struct spotnik_share_place *place = realloc(map->shares.place, 2 * size * sizeof *place);
    if (place == NULL)
        return SPOTNIK_ERR_MEMORY;
    map->shares.place = place;
    map->places_max = size;
    return 0;
}

int spotnik_map_show(struct spotnik_map *map, const struct spotnik_flat *flat, uint32_t number)
{
    struct spotnik_shares *shares = &map->shares;
    if (places_get(map, spotnik_shares_count(flat, number)) != 0)
        return SPOTNIK_ERR_MEMORY;
    struct spotnik_shares now = { .place = shares->place + map->places_max };
    spotnik_shares_find(&now, flat, number);
    bool mapped = is_mapped(map, &now);
    for (uint32_t rank = 0; rank < now.size; rank++)
        shares->place[rank] = now.place[rank];
    now.place = shares->place;
    *shares = now;
    return mapped ? 0 : shares_map(map, flat);
}

const uint8_t *spotnik_map_shared(const struct spotnik_map *map)
{
    SPOTNIK_ASSERT(map->shares.whole);
    return spotnik_share_data(&map->shares.place[0]);
}

void spotnik_map_free(struct spotnik_map *map)
{
    if (map->base != NULL)
        munmap(map->base, map->reserved);
    free(map->shares.place);
    *map = (struct spotnik_map){ .base = NULL };
}
