/* SPDX-License-Identifier: Apache-2.0 */
/* The joiners that ask this member to let them in (joiners.c): when one is worth a ballot, and
 * when it is forgotten. Rules: docs/protocol.md 11. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

/* It is in, or gone. It goes also from PREPARE of a ballot that is waiting for it, or it would let
 * a dead joiner in. The wait for it ends. */
void joiner_forget(struct spotnik_core *core, struct spotnik_id id)
{
    joiners_remove(&core->membership->joiners, id);
    if (core->membership->agreement.phase != PHASE_JOINER)
        return;
    prepare_drop_joiner(&core->membership->agreement, id);
    core->membership->agreement.enter_until_ns = core->now_ns;
}

/* Is this a quiet moment? So is any in which we are too few to begin a step, once all have the last
 * one: members that have begun the next wait for the others, and these for a joiner. */
static bool quiet(const struct spotnik_core *core)
{
    bool too_few = core->view.size < core->members_min && step_stable(core) == core->step.committed;
    bool waiting = core->step.started == 0 || too_few;

    return core->role == SPOTNIK_ROLE_MEMBER && !core->frozen && waiting
           && core->view.size < core->limits.members_max;
}

void joiners_expire(struct spotnik_core *core)
{
    struct joiners_input in = joiners_input(core);
    struct spotnik_id id;

    while (joiners_silent(&core->membership->joiners, &in, &id))
        joiner_forget(core, id);
}

/* A quiet moment may have come: is a joiner worth a ballot? */
enum ballot_next sponsor_start(struct spotnik_core *core)
{
    struct joiners *joiners = &core->membership->joiners;

    if (joiners->count == 0 || !quiet(core))
        return BALLOT_WAITS;
    joiners_expire(core);
    struct joiners_input in = joiners_input(core);
    return joiners_due(joiners, &in) ? BALLOT_START : BALLOT_WAITS;
}

/* A view without a joiner that wanted to be in it, because it could not catch up in time: it rests,
 * at every member. A view that a loss or a broken path forced upon us waited for no joiner. Were
 * the joiner to rest for that, a job that loses members would shut out those that replace them. */
void joiners_left_out(struct spotnik_core *core, const struct spotnik_proposal *proposal)
{
    const struct agreement *agreement = &core->membership->agreement;
    const struct spotnik_prepare *prepare = &agreement->prepare;
    uint64_t took_ns = core->now_ns - agreement->frozen_ns;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(agreement->frozen_ns <= core->now_ns);
    if (core->status.last_lost || agreement->parked || took_ns < core->limits.enter_wait_ns
        || !agreement->promised.round
        || spotnik_ballot_compare(prepare->ballot, agreement->promised) != 0)
        return;
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (spotnik_proposal_find(proposal, prepare->joiner[i].member.id) == SPOTNIK_NO_RANK)
            joiners_back_off(&core->membership->joiners, prepare->joiner[i].member.id, core->now_ns,
                             took_ns);
}

/* Has it asked us since we began this ballot? */
bool joiner_is_heard(const struct spotnik_core *core, struct spotnik_id id)
{
    struct joiners_input in = joiners_input(core);
    return joiners_heard(&core->membership->joiners, &in, id,
                         core->membership->agreement.promised_ns);
}
