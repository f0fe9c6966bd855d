/* SPDX-License-Identifier: Apache-2.0 */
/* The result of a large bucket as one piece of memory: the members' shares, which lie in their
 * segments, mapped one behind the other. The mapping keeps the pages, whatever becomes of their
 * owners. */
#ifndef SPOTNIK_SHM_MAP_H
#define SPOTNIK_SHM_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shm/shares.h"

struct spotnik_map {
    uint8_t *base;   /* NULL: none */
    size_t bytes;    /* that are mapped as they should be; 0: none */
    size_t reserved; /* bytes of address space at base */
    struct spotnik_shares shares;
    uint32_t places_max; /* of shares.place */
};

/* Show the result of a bucket that is READY. 0, SPOTNIK_ERR_MEMORY, _PEERS or _SYSTEM. */
int spotnik_map_show(struct spotnik_map *map, const struct spotnik_flat *flat, uint32_t number);

/* The whole result, where it lies in its holder's memory: of a map that shows one
 * (`shares.whole`). */
const uint8_t *spotnik_map_shared(const struct spotnik_map *map);

void spotnik_map_free(struct spotnik_map *map);

#endif
