/* SPDX-License-Identifier: Apache-2.0 */
/* Local SGD: everybody steps by itself, and every `period` steps all take the mean of the models.
 * Stich, "Local SGD Converges Fast and Communicates Little", ICLR'19, algorithm 1. Replicas are
 * bit-identical after each averaging step; the centre is the last mean. `begin` applies the
 * gradient, as the mean is one of models after the step. */
#include "adapt/strategy.h"

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    use->apply(use->context, replica->scratch, replica->gradient, replica->count);
    if (spotnik_sync_is_due(replica))
        use->average(use->context, replica->scratch, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    (void)use;
    spotnik_sync_copy(replica->model, replica->scratch, replica->count);
    if (spotnik_sync_is_due(replica))
        spotnik_sync_copy(replica->centre, replica->scratch, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_localsgd = {
    .name = "localsgd",
    .synchronous = true,
    .options = { .period = 8 },
    .begin = begin,
    .finish = finish,
};
