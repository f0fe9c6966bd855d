/* SPDX-License-Identifier: Apache-2.0 */
/* S-SGD: synchronous SGD. Everybody applies the mean of all gradients: g = sum_k lambda_k g_k.
 * KungFu (Mai et al., OSDI'20), SynchronousSGDOptimizer. Replicas stay bit-identical. */
#include "adapt/strategy.h"

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    use->average(use->context, replica->gradient, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    use->apply(use->context, replica->model, replica->gradient, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_ssgd = {
    .name = "ssgd",
    .synchronous = true,
    .same_bits = true,
    .options = { .period = 1 },
    .begin = begin,
    .finish = finish,
};
