/* SPDX-License-Identifier: Apache-2.0 */
/* Lookahead: k steps forward, one step back, around any other strategy. Zhang, Lucas, Hinton and
 * Ba, NeurIPS'19 (arXiv 1907.08610), algorithm 1: after k steps of the fast weights, slow <- slow +
 * alpha (fast - slow), fast <- slow; k = 5, alpha = 0.5. Needs no communication of its own: bits
 * are as equal as those of the inner strategy. */
#include "adapt/strategy.h"

static void enter(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    spotnik_sync_copy(replica->slow, replica->model, replica->count);
    if (replica->options.inner->enter)
        replica->options.inner->enter(replica, use);
}

static void begin(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    replica->options.inner->begin(replica, use);
}

static void finish(struct spotnik_sync_replica *replica, const struct spotnik_sync_primitives *use)
{
    replica->options.inner->finish(replica, use);
    if (replica->step % replica->options.lookahead_period != 0)
        return;
    spotnik_sync_mix(replica->slow, replica->model, replica->options.lookahead_alpha,
                     replica->count);
    spotnik_sync_copy(replica->model, replica->slow, replica->count);
}

const struct spotnik_sync_strategy spotnik_sync_lookahead = {
    .name = "lookahead",
    .synchronous = true,
    .same_bits = true,
    .options = { .period = 1,
                 .lookahead_alpha = 0.5f,
                 .lookahead_period = 5,
                 .inner = &spotnik_sync_ssgd },
    .enter = enter,
    .begin = begin,
    .finish = finish,
};
