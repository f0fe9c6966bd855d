/* SPDX-License-Identifier: Apache-2.0 */
/* AD-PSGD: asynchronous decentralised parallel SGD, in two forms. Nobody waits for anybody.
 *
 * `adpsgd`, one-sided, as in KungFu (OSDI'20), PairAveragingOptimizer: a random peer t, pull its
 * snapshot, v <- (v + v_t) / 2, apply the local gradient, publish. The peer is not changed. There
 * each member chooses for itself; here all turn by the same random number of places. So in a step
 * nobody is asked twice, and every peer is as likely as before.
 *
 * `adpsgd-symmetric`: Lian et al., "Asynchronous Decentralized Parallel Stochastic Gradient
 * Descent", ICML'18, algorithm 1: both ends take the mean, so the sum of the models is kept. As in
 * the paper, the graph is bipartite, so that no two wait for each other. Even ranks are active and
 * choose a random odd one, which is passive. */
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

static void step(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    use->apply(use->context, replica->model, replica->gradient, replica->count);
    use->publish(use->context, replica->model, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (replica->size > 1 && replica->arrived)
        spotnik_sync_mix(replica->model, replica->scratch, 0.5f, replica->count);
    step(replica, use);
}

static bool is_active(const struct spotnik_sync_replica *replica)
{
    return replica->rank % 2 == 0 && replica->size > 1;
}

static void begin_symmetric(struct spotnik_sync_replica *replica,
                            const struct spotnik_sync_primitives *use)
{
    if (!is_active(replica))
        return;
    uint32_t peer = 2 * (uint32_t)spotnik_prng_below(&replica->prng, replica->size / 2) + 1;
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    use->exchange(use->context, peer, replica->scratch, replica->count);
}

/* What others left is settled after our own: both are differences to the model that was there when
 * they were made. */
static void finish_symmetric(struct spotnik_sync_replica *replica,
                             const struct spotnik_sync_primitives *use)
{
    if (is_active(replica) && replica->arrived)
        for (uint64_t i = 0; i < replica->count; i++)
            replica->model[i] += replica->scratch[i];
    use->settle(use->context, replica->model, replica->count);
    step(replica, use);
}

const struct spotnik_sync_strategy spotnik_sync_adpsgd = {
    .name = "adpsgd",
    .early = true,
    .options = { .period = 1 },
    .enter = enter,
    .begin = begin,
    .finish = finish,
};

const struct spotnik_sync_strategy spotnik_sync_adpsgd_symmetric = {
    .name = "adpsgd-symmetric",
    .early = true,
    .settles = true,
    .options = { .period = 1 },
    .enter = enter,
    .begin = begin_symmetric,
    .finish = finish_symmetric,
};
