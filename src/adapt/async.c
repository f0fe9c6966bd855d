/* SPDX-License-Identifier: Apache-2.0 */
/* One member's batch from what the others published; the rule is in async.h. */
#include "adapt/async.h"

#include "base/assert.h"
#include "adapt/same_bits.h"

/* b / t; the mean time in the rule cancels when candidates are scaled to the global batch. */
static double speed_of(const struct spotnik_batch_published *member)
{
    return member->time_s > 0 ? (double)member->samples / member->time_s : 0;
}

static double candidate(const struct spotnik_batch_config *config,
                        const struct spotnik_batch_published *published, uint32_t count,
                        uint32_t self)
{
    double timed = 0, untimed = 0;

    for (uint32_t i = 0; i < count; i++) {
        timed += speed_of(&published[i]);
        untimed += published[i].time_s > 0 ? 0 : (double)published[i].samples;
    }
    double left = (double)config->batch - untimed;
    return left > 0 ? left * speed_of(&published[self]) / timed : (double)config->least;
}

static uint64_t bounded(const struct spotnik_batch_config *config, double samples)
{
    uint64_t most = config->most ? config->most : config->batch;

    if (samples < (double)config->least)
        return config->least;
    return samples > (double)most ? most : (uint64_t)(samples + 0.5);
}

uint64_t spotnik_batch_async(const struct spotnik_batch_config *config,
                             const struct spotnik_batch_published *published, uint32_t count,
                             uint32_t self)
{
    SPOTNIK_ASSERT(self < count && published[self].time_s > 0);
    uint64_t now = published[self].samples;
    uint64_t wanted = bounded(config, candidate(config, published, count, self));
    double change = (double)wanted - (double)now;

    return (change < 0 ? -change : change) > config->dead_band * (double)now ? wanted : now;
}
