/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/nearness.h"

#define FAR_STEPS 64    /* behind; farther, its donor waits for it (donor_wait.c) */
#define STALLED_STEPS 8 /* in which it comes no nearer */

bool spotnik_nearness_asks(struct spotnik_nearness *nearness, uint64_t near, uint64_t ours,
                           uint64_t its)
{
    uint64_t behind = its > ours ? its - ours : 0;

    if (behind <= near)
        return true;
    if (ours < nearness->seen_step + STALLED_STEPS)
        return false;
    bool stalled = nearness->seen_step && behind >= nearness->seen_behind;

    nearness->seen_step = ours;
    nearness->seen_behind = behind;
    return stalled && behind <= FAR_STEPS;
}
