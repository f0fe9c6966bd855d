/* SPDX-License-Identifier: Apache-2.0 */
/* See hash.h. xxHash is compiled into this file: no library to link, no symbol of it in ours. */
#include "base/hash.h"

#include <assert.h> /* xxhash.h 0.8.1 uses static_assert without including it */

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(sizeof(XXH3_state_t) <= sizeof(struct spotnik_hash),
               "the opaque state holds that of xxHash");
_Static_assert(_Alignof(XXH3_state_t) <= _Alignof(struct spotnik_hash),
               "and is aligned as xxHash wants it");

uint64_t spotnik_hash_bytes(const void *data, size_t size)
{
    return XXH3_64bits(data, size);
}

void spotnik_hash_begin(struct spotnik_hash *hash)
{
    XXH3_64bits_reset((XXH3_state_t *)(void *)hash);
}

void spotnik_hash_add(struct spotnik_hash *hash, const void *data, size_t size)
{
    /* xxHash takes NULL for an error even where there is nothing to read. */
    if (size > 0)
        XXH3_64bits_update((XXH3_state_t *)(void *)hash, data, size);
}

uint64_t spotnik_hash_end(const struct spotnik_hash *hash)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)hash);
}
