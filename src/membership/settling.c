/* SPDX-License-Identifier: Apache-2.0 */
/* Which step is stable (docs/protocol.md 10), and when a view must make one so. */
#include "base/assert.h"
#include "membership/membership.h"

static bool is_outrun(const struct spotnik_core *core)
{
    return ballot_is_outrun(&core->membership->agreement, core->view.size, core->step.committed);
}

/* Stable: no later view can commit it differently. So are all steps before the last, since that one
 * needed every member. So is the settled step of a view that no old member entered lagging, and
 * each commit of a lone member. (A member that joins lagging waits for it: ballot.c.) A member that
 * has left knows the view that goes on without it. An excluded one may have missed a view that
 * reduced its last step again. So the settled step of the view that it was told of proves
 * nothing. */
uint64_t step_stable(const struct spotnik_core *core)
{
    uint64_t committed = core->step.committed;
    uint64_t before = committed > 0 ? committed - 1 : 0;
    bool agreed = committed == core->view.settled_step && !spotnik_proposal_losable(&core->view);
    bool member = core->role == SPOTNIK_ROLE_MEMBER;

    if (core->role == SPOTNIK_ROLE_EXCLUDED)
        return before;
    if ((!member && core->role != SPOTNIK_ROLE_LEFT) || committed < core->view.settled_step
        || agreed)
        return committed;
    if (member && (core->view.size == 1 || is_outrun(core)))
        return committed;
    return before;
}

/* Below members_min, no joiner may get an unstable step. Re-installing the same view makes it
 * stable. A member that has begun the next step waits as well, for those that cannot. */
bool step_needs_settling(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return core->rank == 0 && !core->frozen && core->view.size < core->members_min
           && step_stable(core) < core->step.committed && step_report(core).waiting;
}
