/* SPDX-License-Identifier: Apache-2.0 */
/* S-MA: synchronous model averaging, as in KungFu (OSDI'20), SynchronousAveragingOptimizer, after
 * Koliousis et al., "CROSSBOW", VLDB'19: v <- (1 - alpha) v + alpha mean_k(v_k), alpha = 0.1; then
 * the LOCAL gradient is applied. So replicas differ, by definition; what all hold in the same bits
 * is the mean, kept as the centre: validate and checkpoint that. */
#include "adapt/strategy.h"

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    use->average(use->context, replica->scratch, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    spotnik_sync_copy(replica->centre, replica->scratch, replica->count);
    spotnik_sync_mix(replica->model, replica->centre, replica->options.alpha, replica->count);
    use->apply(use->context, replica->model, replica->gradient, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_sma = {
    .name = "sma",
    .synchronous = true,
    .early = true,
    .options = { .alpha = 0.1f, .period = 1 },
    .begin = begin,
    .finish = finish,
};
