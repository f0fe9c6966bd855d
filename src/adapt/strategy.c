/* SPDX-License-Identifier: Apache-2.0 */
/* The list of strategies. */
#include "adapt/strategy.h"

#include <stddef.h>

static const struct spotnik_sync_strategy *const all[] = {
    &spotnik_sync_ssgd,   &spotnik_sync_sma,       &spotnik_sync_easgd, &spotnik_sync_localsgd,
    &spotnik_sync_adpsgd, &spotnik_sync_lookahead, &spotnik_sync_asp,   &spotnik_sync_hogwild,
};

static bool is_same(const char *a, const char *b)
{
    while (*a == *b && *a != 0) {
        a++;
        b++;
    }
    return *a == *b;
}

const struct spotnik_sync_strategy *spotnik_sync_find(const char *name)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is_same(name, all[i]->name))
            return all[i];
    return NULL;
}
