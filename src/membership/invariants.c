/* SPDX-License-Identifier: Apache-2.0 */
/* What is true of a core between any two events that may change who is in (docs/protocol.md 4 to
 * 7). A breach is a fault of ours: to go on would break a promise, so it stops the process, which
 * the others survive. The events of the data path are left out: they change none of it, and a small
 * step has a dozen. */
#include "base/assert.h"
#include "membership/membership.h"

static bool is_at_most(struct spotnik_ballot a, struct spotnik_ballot b)
{
    return spotnik_ballot_compare(a, b) <= 0;
}

/* One decision at a time, and never one outside of what we promised. */
static void check_decision(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->membership->promised.round == 0 || core->frozen);
    SPOTNIK_ASSERT(!core->membership->parked || core->frozen);
    SPOTNIK_ASSERT(core->membership->promised.round <= core->membership->round_seen
                   || core->membership->promised.round == 0);
    SPOTNIK_ASSERT(core->membership->accepted.ballot.round == 0
                   || is_at_most(core->membership->accepted.ballot, core->membership->promised));
    SPOTNIK_ASSERT(core->membership->accepted.ballot.round == 0
                   || core->membership->accepted.epoch == core->view.epoch + 1);
    SPOTNIK_ASSERT(core->membership->phase == PHASE_NONE
                   || spotnik_id_equal(core->membership->promised.initiator, core->self.id));
}

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
    SPOTNIK_ASSERT(core->queue_count <= core->queue_max);
}

void invariants_check(const struct spotnik_core *core)
{
    check_room(core);
    if (core->role != SPOTNIK_ROLE_MEMBER)
        return;
    check_view(core);
    check_decision(core);
}
