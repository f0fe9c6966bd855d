/* SPDX-License-Identifier: Apache-2.0 */
/* How long a caller that waits for others looks for them before it sleeps. Looking pays where they run beside us; where other programs
 * have their processors, it only keeps them waiting longer. So a look that was not enough halves the next one, one that was enough
 * restores it, and now and then it is tried in full, or short looks would never learn that a longer one had been enough.
 *
 * The longest must outlast a member that was asleep: to wake a halted (virtual) processor takes 20 to 40 microseconds, and two members
 * that always find each other asleep stay that way otherwise. */
#ifndef SPOTNIK_NET_SPIN_H
#define SPOTNIK_NET_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"

#define SPOTNIK_SPIN_LEAST_NS (2 * SPOTNIK_US)
#define SPOTNIK_SPIN_MOST_NS (100 * SPOTNIK_US)
#define SPOTNIK_SPIN_TRY_AGAIN 16 /* waits */
#define SPOTNIK_SPIN_CROWDED 2    /* tries in full */
#define SPOTNIK_SPIN_SOON_NS (50 * SPOTNIK_US)

struct spotnik_spin {
    uint64_t ns; /* 0: never, the others need our processor */
    uint32_t waits, crowded;
};

static inline void spotnik_spin_init(struct spotnik_spin *spin, bool allowed)
{
    spin->ns = allowed ? SPOTNIK_SPIN_MOST_NS : 0;
}

/* For the wait that begins now. */
static inline uint64_t spotnik_spin_choose(struct spotnik_spin *spin)
{
    bool in_full = spin->ns != 0 && ++spin->waits % SPOTNIK_SPIN_TRY_AGAIN == 0;
    return in_full ? SPOTNIK_SPIN_MOST_NS : spin->ns;
}

/* What we waited for came at once. */
static inline void spotnik_spin_found(struct spotnik_spin *spin)
{
    spin->crowded = 0;
    spin->ns = SPOTNIK_SPIN_MOST_NS;
}

/* It looked for `spun_ns` at most, and that was enough, or not. The whole wait took `waited_ns`. True: what we waited for came as soon as
 * we slept, again and again: whoever makes it has to run on our very processor. */
static inline bool spotnik_spin_learn(struct spotnik_spin *spin, uint64_t spun_ns, uint64_t waited_ns, bool enough)
{
    bool in_full = spun_ns == SPOTNIK_SPIN_MOST_NS, soon = waited_ns < spun_ns + SPOTNIK_SPIN_SOON_NS;
    if (spin->ns == 0)
        return false;
    if (enough || (in_full && !soon))
        spin->crowded = 0;
    else if (in_full)
        spin->crowded++;
    if (enough)
        spin->ns = SPOTNIK_SPIN_MOST_NS;
    else if (spun_ns == spin->ns && spun_ns > SPOTNIK_SPIN_LEAST_NS)
        spin->ns = spun_ns / 2 > SPOTNIK_SPIN_LEAST_NS ? spun_ns / 2 : SPOTNIK_SPIN_LEAST_NS;
    if (spin->crowded < SPOTNIK_SPIN_CROWDED)
        return false;
    spin->crowded = 0;
    spin->ns = SPOTNIK_SPIN_MOST_NS; /* there is somebody to look for now, and who sleeps is put back beside who wakes it */
    return true;
}

#endif
