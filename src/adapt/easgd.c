/* SPDX-License-Identifier: Apache-2.0 */
/* EA-SGD: elastic averaging. Zhang, Choromanska and LeCun, "Deep learning with Elastic Averaging
 * SGD", NeurIPS'15, the synchronous form (equations 5 and 6), every `period` steps:
 *
 *     x_k <- x_k - alpha (x_k - x~) - eta g_k        x~ <- x~ + beta (mean_k(x_k) - x~)       beta
 *     = N alpha
 *
 * options.alpha is beta, the paper's 0.9, so that the elastic force does not depend on the size of
 * the view. There is no server: everybody moves its own copy of x~ by the same mean, so it is the
 * same bits everywhere. */
#include "adapt/strategy.h"

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (!spotnik_sync_is_due(replica))
        return;
    spotnik_sync_copy(replica->scratch, replica->model, replica->count);
    use->average(use->context, replica->scratch, replica->count);
}

/* Both from the centre before the step. */
static void pull_together(struct spotnik_sync_replica *replica)
{
    float beta = replica->options.alpha, alpha = beta / (float)replica->size;

    spotnik_sync_mix(replica->model, replica->centre, alpha, replica->count);
    spotnik_sync_mix(replica->centre, replica->scratch, beta, replica->count);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    if (spotnik_sync_is_due(replica))
        pull_together(replica);
    use->apply(use->context, replica->model, replica->gradient, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_easgd = {
    .name = "easgd",
    .synchronous = true,
    .early = true,
    .local = true,
    .options = { .alpha = 0.9f, .period = 4 },
    .begin = begin,
    .finish = finish,
};
