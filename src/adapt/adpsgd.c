/* SPDX-License-Identifier: Apache-2.0 */
/* AD-PSGD: asynchronous decentralised parallel SGD. No member waits for another. One-sided, as in
 * KungFu (OSDI'20), PairAveragingOptimizer: a random peer t, pull its snapshot, v <- (v + v_t) / 2,
 * apply the local gradient, publish. The peer is not changed. There each member chooses for itself;
 * here all turn by the same random number of places. So in a step each member is asked at most
 * once, and every peer is as likely as before. */
#include "adapt/strategy.h"

#include "base/assert.h"

static void enter(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    use->publish(use->context, replica->model, replica->count);
}

static uint32_t any_other(struct spotnik_sync_replica *replica)
{
    struct spotnik_prng shared;

    spotnik_prng_seed(&shared, replica->step);
    return (replica->rank + 1 + (uint32_t)spotnik_prng_below(&shared, replica->size - 1))
           % replica->size;
}

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (replica->size > 1)
        use->pull(use->context, any_other(replica), replica->scratch, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (replica->size > 1 && replica->arrived)
        spotnik_sync_mix(replica->model, replica->scratch, 0.5f, replica->count);
    use->apply(use->context, replica->model, replica->gradient, replica->count);
    use->publish(use->context, replica->model, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_adpsgd = {
    .name = "adpsgd",
    .early = true,
    .options = { .period = 1 },
    .enter = enter,
    .begin = begin,
    .finish = finish,
};
