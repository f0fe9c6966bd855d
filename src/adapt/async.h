/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic batching without steps in common (ACSOS'20, the ASP case). Each member applies the same
 * proportional rule by itself, on the times that the others have published. Its gradient is scaled
 * by lambda_k. Nothing is agreed here: members may look at different moments, so the sum of batches
 * is the global batch in the mean, not exactly. Decides one member's batch; exactness is the
 * synchronous controller's. */
#ifndef SPOTNIK_ADAPT_ASYNC_H
#define SPOTNIK_ADAPT_ASYNC_H

#include "adapt/controller.h"

struct spotnik_batch_published {
    uint64_t samples; /* its batch now */
    double time_s;    /* its smoothed compute time; 0: unknown */
};

/* The batch member `self` goes on with, of `count` published. Its own time must be known. The
 * candidate b tbar / t is scaled so that it would conserve config->batch if all others did the same
 * now, then bounded. */
uint64_t spotnik_batch_async(const struct spotnik_batch_config *config,
                             const struct spotnik_batch_published *published, uint32_t count,
                             uint32_t self);

#endif
