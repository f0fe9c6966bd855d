/* SPDX-License-Identifier: Apache-2.0 */
/* What the machines of membership read of their member, as plain values. No rule of the protocol
 * is here. */
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
                                    .by_tree = core->view.size > core->limits.tree_members };
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

struct agreement_input agreement_input(const struct spotnik_core *core)
{
    const struct evidence_table *table = &core->membership->evidence_table;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return (struct agreement_input){ .now_ns = core->now_ns,
                                     .view = &core->view,
                                     .rank = core->rank,
                                     .known = table->known,
                                     .suspected = table->suspected_by_peer,
                                     .quiet_until_ns = table->quiet_until_ns,
                                     .retry_ns = core->limits.retry_ns,
                                     .stagger_ns = core->limits.stagger_ns,
                                     .warm_count = core->limits.warm_count,
                                     .tree_members = core->limits.tree_members,
                                     .brief_members = core->limits.brief_members };
}

struct prepare_words prepare_words(const struct spotnik_core *core)
{
    const struct membership *membership = core->membership;
    struct step_report step = step_report(core);
    uint64_t committed = core->step.committed, copied = membership->copied_step;

    return (struct prepare_words){
        .report = { .promised = 1,
                    .leaving = membership->leaving.wanted,
                    .begun = core->step.begun,
                    .bare = copied && committed == copied,
                    .committed = committed,
                    .share = step.share,
                    .share_count = step.shares,
                    .apart = step.apart,
                    .cut = path_sign(core) },
        .ledger = &core->ledger,
        .ledger_step = core->ledger_known ? committed : SPOTNIK_NO_LEDGER,
        .hides_accepted = SPOTNIK_IS_PLANTED(core, IGNORE_ACCEPTED),
    };
}
