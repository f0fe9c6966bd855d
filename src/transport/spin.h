/* SPDX-License-Identifier: Apache-2.0 */
/* The time that a waiting caller spins before it sleeps. Spinning pays where the awaited members
 * run beside us. Where other programs have their processors, it only delays them. So a spin that
 * fails halves the next one, and one that succeeds restores it. Now and then a full spin is tried,
 * or short ones would never learn that a longer one is enough.
 *
 * The longest spin must outlast the waking of a sleeping member: a halted (virtual) processor takes
 * 20 to 40 microseconds to wake. Otherwise two members that find each other asleep stay that
 * way. */
#ifndef SPOTNIK_TRANSPORT_SPIN_H
#define SPOTNIK_TRANSPORT_SPIN_H

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

/* Record a spin of at most `spun_ns` that was enough, or not, in a wait of `waited_ns`. True: the
 * awaited event came as soon as we slept, again and again, so its maker must run on our very
 * processor. */
static inline bool spotnik_spin_learn(struct spotnik_spin *spin, uint64_t spun_ns,
                                      uint64_t waited_ns, bool enough)
{
    bool in_full = spun_ns == SPOTNIK_SPIN_MOST_NS,
         soon = waited_ns < spun_ns + SPOTNIK_SPIN_SOON_NS;
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
    /* there is a peer to spin for now, and the kernel puts a sleeper back beside its waker */
    spin->ns = SPOTNIK_SPIN_MOST_NS;
    return true;
}

#endif
