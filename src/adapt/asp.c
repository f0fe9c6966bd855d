/* SPDX-License-Identifier: Apache-2.0 */
/* ASP: asynchronous parallel SGD around a parameter store (Ho et al., NeurIPS'13, with unbounded
 * staleness; Dean et al., NeurIPS'12). The store is the members themselves (shards.h, store.h). A
 * member pushes the update that its own optimiser makes of its gradient, so any optimiser will do.
 * For plain SGD that is the classical rule. What is fetched comes where the gradient was, which is
 * of no more use; the centre is what all agree on. Where nothing can be fetched, the member goes on
 * from its own update. */
#include "adapt/strategy.h"

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    use->apply(use->context, replica->scratch, replica->gradient, replica->count);
    for (uint64_t i = 0; i < replica->count; i++)
        replica->scratch[i] -= replica->model[i];
    use->push(use->context, replica->scratch, replica->count);
    use->fetch(use->context, replica->gradient, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    (void)use;
    if (replica->arrived) {
        spotnik_sync_copy(replica->model, replica->gradient, replica->count);
        return;
    }
    for (uint64_t i = 0; i < replica->count; i++)
        replica->model[i] += replica->scratch[i];
}

const struct spotnik_sync_strategy spotnik_sync_asp = {
    .name = "asp",
    .options = { .period = 1 },
    .begin = begin,
    .finish = finish,
};
