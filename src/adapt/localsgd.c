/* SPDX-License-Identifier: Apache-2.0 */
/* Local SGD: everybody steps by itself, and every `period` steps all take the mean of the models.
 * Stich, "Local SGD Converges Fast and Communicates Little", ICLR'19, algorithm 1. Replicas are
 * bit-identical after each averaging step; the centre is the last mean. There `begin` applies the
 * gradient, as the mean is one of models after the step. */
#include "adapt/strategy.h"

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (!spotnik_sync_is_due(replica))
        return;
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    use->apply(use->context, replica->scratch, replica->gradient, replica->count);
    use->average(use->context, replica->scratch, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (!spotnik_sync_is_due(replica)) {
        use->apply(use->context, replica->model, replica->gradient, replica->count);
        return;
    }
    spotnik_sync_copy(replica->model, replica->scratch, replica->count);
    spotnik_sync_copy(replica->centre, replica->scratch, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_localsgd = {
    .name = "localsgd",
    .synchronous = true,
    .local = true,
    .options = { .period = 8 },
    .begin = begin,
    .finish = finish,
};
