/* SPDX-License-Identifier: Apache-2.0 */
/* What is true of a core between any two events that may change who is in (docs/protocol.md 8). A
 * breach is a fault of ours: to go on would break a promise, so it stops the process, which the
 * others survive. The events of the data path are left out: they change none of it, and a small
 * step has a dozen. */
#include "base/assert.h"
#include "membership/membership.h"

/* We stand where the view says, in the view that was chosen, and no further behind than a laggard
 * may be (P3). */
static void check_view(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->view.epoch > 0 && core->view.epoch == core->chosen.epoch);
    SPOTNIK_ASSERT(core->view.size > 0 && core->view.size <= core->limits.members_max);
    SPOTNIK_ASSERT(core->rank < core->view.size);
    SPOTNIK_ASSERT(spotnik_id_equal(core->view.entry[core->rank].member.id, core->self.id));
    SPOTNIK_ASSERT(core->step.committed + 1 >= core->view.settled_step);
    flat_check(core);
}

static void check_room(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->joiners.count <= SPOTNIK_JOINERS_MAX);
    SPOTNIK_ASSERT(core->queue.count <= core->queue.max);
}

void invariants_check(const struct spotnik_core *core)
{
    check_room(core);
    if (core->role != SPOTNIK_ROLE_MEMBER)
        return;
    check_view(core);
    ballot_check(&core->membership->agreement, core->view.epoch, core->frozen, core->self.id);
}
