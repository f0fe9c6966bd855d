/* SPDX-License-Identifier: Apache-2.0 */
/* The running step, as membership knows it. No rule of the protocol is here. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

struct step_report step_report(const struct spotnik_core *core)
{
    const struct allreduce *allreduce = core->allreduce;
    bool begun = core->step.begun;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct step_report){ .share = begun ? allreduce->begun_share : SPOTNIK_NO_SHARE,
                                 .shares = begun ? allreduce->begun_shares : 0,
                                 .apart = flat_apart(core),
                                 .step_ns = allreduce->step_ns,
                                 .stream_to =
                                     flat_streams(core) ? allreduce->hosts.next : SPOTNIK_NO_RANK,
                                 .waiting = allreduce->phase != STEP_IDLE };
}
