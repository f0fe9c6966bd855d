/* SPDX-License-Identifier: Apache-2.0 */
#include "transfer/nearness.h"

#include "base/time.h"

#define FAR_STEPS 64 /* behind; farther, its donor waits for it (donor_wait.c) */
/* A window is at least that long, in time and in steps of the members. Time alone would judge long
 * steps by less than one of them. Steps alone would judge short ones by a late thread. */
#define WINDOW_NS (500 * SPOTNIK_MS)
#define WINDOW_STEPS 8

bool spotnik_nearness_asks(struct spotnik_nearness *nearness, uint64_t near, uint64_t ours,
                           uint64_t its, uint64_t now_ns)
{
    uint64_t behind = its > ours ? its - ours : 0;
    bool open = nearness->window_ns != 0;

    if (behind <= near)
        return true;
    if (behind > FAR_STEPS) {
        nearness->window_ns = 0;
        return false;
    }
    if (open
        && (spotnik_time_since(now_ns, nearness->window_ns) < WINDOW_NS
            || its < nearness->window_step + WINDOW_STEPS))
        return false;
    bool stalled = open && behind >= nearness->window_behind;

    nearness->window_ns = now_ns;
    nearness->window_step = its;
    nearness->window_behind = behind;
    return stalled;
}

bool spotnik_nearness_may_enter(uint64_t ours, uint64_t stable)
{
    return stable <= ours + 1;
}
