/* SPDX-License-Identifier: Apache-2.0 */
/* The list of strategies, and the vector operations they share. */
#include "adapt/strategy.h"

#include <stddef.h>
#include <string.h>

#include "base/assert.h"
#include "adapt/agreed.h"

static const struct spotnik_sync_strategy *const all[] = {
    &spotnik_sync_ssgd,      &spotnik_sync_sma,    &spotnik_sync_easgd,
    &spotnik_sync_localsgd,  &spotnik_sync_adpsgd, &spotnik_sync_adpsgd_symmetric,
    &spotnik_sync_lookahead, &spotnik_sync_asp,    &spotnik_sync_hogwild,
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

void spotnik_sync_enter(const struct spotnik_sync_strategy *strategy,
                        struct spotnik_sync_replica *replica,
                        const struct spotnik_sync_primitives *use)
{
    replica->options = strategy->options;
    spotnik_sync_copy(replica->centre, replica->model, replica->count);
    if (strategy->enter)
        strategy->enter(replica, use);
}

void spotnik_sync_copy(float *to, const float *from, uint64_t count)
{
    memcpy(to, from, count * sizeof *to);
}

void spotnik_sync_mix(float *to, const float *from, float part, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = (1 - part) * to[i] + part * from[i];
}

bool spotnik_sync_is_due(const struct spotnik_sync_replica *replica)
{
    SPOTNIK_ASSERT(replica->options.period >= 1);
    return replica->step % replica->options.period == 0;
}
