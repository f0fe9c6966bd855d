/* SPDX-License-Identifier: Apache-2.0 */
/* What strategies have in common; see strategy.h. Apart from the list of strategies, so that no
 * strategy calls a file that names it. */
#include <string.h>

#include "base/assert.h"
#include "adapt/same_bits.h"
#include "adapt/strategy.h"

void spotnik_sync_copy(float *to, const float *from, uint64_t count)
{
    memcpy(to, from, count * sizeof *to);
}

void spotnik_sync_mix(float *to, const float *from, float part, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        to[i] = (1 - part) * to[i] + part * from[i];
}

bool spotnik_sync_is_due(const struct spotnik_sync_replica *replica)
{
    SPOTNIK_ASSERT(replica->options.period >= 1);
    return replica->step % replica->options.period == 0;
}
