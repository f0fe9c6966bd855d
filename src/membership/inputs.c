/* SPDX-License-Identifier: Apache-2.0 */
/* What the machines of membership read of their member, as plain values. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

struct evidence_input evidence_input(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct evidence_input){ .now_ns = core->now_ns,
                                    .view = &core->view,
                                    .rank = core->rank,
                                    .warm_count = core->limits.warm_count,
                                    .stagger_ns = core->limits.stagger_ns,
                                    .retry_ns = core->limits.retry_ns,
                                    .by_tree = tree_prepare_is_used(core) };
}

struct joiners_input joiners_input(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct joiners_input){ .now_ns = core->now_ns,
                                   .committed = core->step.committed,
                                   .step_ns = step_report(core).step_ns,
                                   .heartbeat_ns = core->limits.heartbeat_ns,
                                   .silence_ceiling_ns = core->limits.silence_ceiling_ns,
                                   .enter_wait_ns = core->limits.enter_wait_ns };
}

struct pause_input pause_input(const struct spotnik_core *core)
{
    uint64_t before_ns = silence_floor(core, &core->view.entry[predecessor_rank(core)].member);
    uint64_t after_ns = silence_floor(core, &core->view.entry[successor_rank(core)].member);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct pause_input){ .now_ns = core->now_ns,
                                 .view = &core->view,
                                 .rank = core->rank,
                                 .evidence = core->membership->evidence_table.known,
                                 .silence_ns = spotnik_time_min(before_ns, after_ns),
                                 .retry_ns = core->limits.retry_ns,
                                 .stagger_ns = core->limits.stagger_ns,
                                 .frozen = core->frozen };
}
