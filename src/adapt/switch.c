/* SPDX-License-Identifier: Apache-2.0 */
/* The switch of switch.h. A wish that comes during a switching step waits for its commit. */
#include "adapt/switch.h"

#include "base/assert.h"

enum spotnik_sync_act spotnik_sync_switch_commit(struct spotnik_sync_switch *sw, uint64_t step,
                                                 enum spotnik_sync_mode wanted)
{
    SPOTNIK_ASSERT(step == sw->committed + 1);
    sw->committed = step;
    if (sw->act != SPOTNIK_SYNC_ACT_RUN || wanted == sw->mode) {
        sw->act = SPOTNIK_SYNC_ACT_RUN;
        return sw->act;
    }
    sw->mode = wanted;
    sw->act =
        wanted == SPOTNIK_SYNC_ASYNCHRONOUS ? SPOTNIK_SYNC_ACT_PART : SPOTNIK_SYNC_ACT_AVERAGE;
    sw->switched_step = step + 1;
    sw->switches++;
    return sw->act;
}
