/* SPDX-License-Identifier: Apache-2.0 */
/* A planned departure is a view change that its subject starts itself. It votes, hands over what
 * only it holds, and goes when the view without it is installed. Decides when we ask for that
 * view. Rules: docs/protocol.md 12. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/admission.h"

#define LEAVE_TRIES 6 /* each four times as late as the one before */

void leave_init(struct leaving *leaving)
{
    leaving->at_ns = SPOTNIK_NEVER;
}

/* The caller wants to leave. True: start a ballot. PREPARE under way may have passed us: then ask
 * as soon as it is done. */
bool leave_begin(struct leaving *leaving, uint64_t now_ns, bool frozen)
{
    leaving->wanted = true;
    if (frozen)
        leaving->at_ns = now_ns;
    return !frozen;
}

/* at_ns has come. True: start a ballot. */
bool leave_again(struct leaving *leaving, uint64_t now_ns, uint64_t stagger_ns, bool frozen)
{
    SPOTNIK_ASSERT(leaving->wanted && now_ns >= leaving->at_ns);
    leaving->at_ns = frozen ? spotnik_time_add(now_ns, stagger_ns) : SPOTNIK_NEVER;
    return !frozen;
}

/* The new view kept us as a holder: ask again, each time later, because asking interrupts the very
 * hand-over we were kept for. */
void leave_view(struct leaving *leaving, uint64_t now_ns, uint64_t stagger_ns)
{
    if (!leaving->wanted)
        return;
    uint32_t shift = 2 * (leaving->tries < LEAVE_TRIES ? leaving->tries++ : LEAVE_TRIES);
    leaving->at_ns = spotnik_time_add(now_ns, stagger_ns << shift);
}
