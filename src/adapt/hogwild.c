/* SPDX-License-Identifier: Apache-2.0 */
/* Hogwild-style SGD for members of one host: one parameter memory, written to by all without a
 * lock. Niu, Recht, Re and Wright, "HOGWILD!: A Lock-Free Approach to Parallelizing Stochastic
 * Gradient Descent", NeurIPS'11, algorithm 1: read x, compute a gradient, add the update to x
 * component by component. What is added is the update that the member's own optimiser makes of its
 * gradient; for plain SGD that is the paper's.
 *
 * Members read and write components one by one, relaxed, so each is a number that some member
 * wrote. Read, add and write are not one act, and an update that falls between may be lost: that is
 * the paper's bargain. An update writes only the elements that it changes. Hosts meet in the
 * average of all models every N steps, as in every asynchronous strategy. Each member adds its part
 * of the way there to its host's memory. */
#include "adapt/strategy.h"

void spotnik_sync_common_add(float *common, const float *update, float part, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        float value;
        if (update[i] == 0)
            continue;
        __atomic_load(common + i, &value, __ATOMIC_RELAXED);
        value += part * update[i];
        __atomic_store(common + i, &value, __ATOMIC_RELAXED);
    }
}

void spotnik_sync_common_read(const float *common, float *ret, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        __atomic_load(common + i, ret + i, __ATOMIC_RELAXED);
}

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    replica->common = use->common(use->context, replica->model, replica->count);
}

/* Where there is no memory in common the member goes on from its own update. */
static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    float *update = replica->scratch;

    spotnik_sync_copy(update, replica->model, replica->count);
    use->apply(use->context, update, replica->gradient, replica->count);
    if (!replica->common) {
        spotnik_sync_copy(replica->model, update, replica->count);
        return;
    }
    for (uint64_t i = 0; i < replica->count; i++)
        update[i] -= replica->model[i];
    spotnik_sync_common_add(replica->common, update, 1, replica->count);
    spotnik_sync_common_read(replica->common, replica->model, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_hogwild = {
    .name = "hogwild",
    .shares = true,
    .options = { .period = 1 },
    .begin = begin,
    .finish = finish,
};
