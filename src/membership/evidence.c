/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence against peers, as the rest of membership sees it: values of the core for the detector
 * (detection.h). */
#include "base/assert.h"
#include "membership/membership.h"

static struct evidence_input evidence_input(const struct spotnik_core *core)
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

void evidence_add(struct spotnik_core *core, uint32_t rank, enum spotnik_evidence evidence)
{
    struct evidence_input in = evidence_input(core);
    struct evidence_effects effects =
        evidence_table_add(&core->membership->evidence_table, &in, rank, evidence);

    apply_evidence(core, &effects, rank);
}

void evidence_schedule(struct spotnik_core *core)
{
    struct evidence_input in = evidence_input(core);

    if (evidence_table_schedule(&core->membership->evidence_table, &in))
        ballot_start(core);
}

bool evidence_is_quiet(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return evidence_table_is_quiet(&core->membership->evidence_table, rank, core->now_ns);
}

/* PREPARE by a tree tells these, and no silences. */
void evidence_learn_facts(struct spotnik_core *core, const struct spotnik_prepare *prepare)
{
    struct evidence_input in = evidence_input(core);

    evidence_table_learn(&core->membership->evidence_table, &in, prepare);
}

void evidence_learn(struct spotnik_core *core, const struct spotnik_prepare *prepare)
{
    struct evidence_input in = evidence_input(core);

    evidence_table_learn(&core->membership->evidence_table, &in, prepare);
    evidence_table_learn_silences(&core->membership->evidence_table, &in, prepare);
}

uint32_t spotnik_core_linked(const struct spotnik_core *core)
{
    uint32_t count = 0;

    if (core->role != SPOTNIK_ROLE_MEMBER)
        return 0;
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        const struct peer *peer = &core->membership->peer[i];
        count += peer->used && peer->linked && peer->heard
                 && peer_rank(core, peer) != SPOTNIK_NO_RANK
                 && !peer_end_moved_on(&peer->end, core->view.epoch);
    }
    return count;
}

/* It lives. Where its silence is forgiven, a parked side has a reason to try again. */
void evidence_hear(struct spotnik_core *core, struct peer *peer)
{
    SPOTNIK_ASSERT(peer->used && peer->linked);
    silence_end(&peer->silence, core->now_ns, core->limits.silence_floor_ns);
    peer->heard = true;
    if (core->role != SPOTNIK_ROLE_MEMBER)
        return;
    uint32_t rank = peer_rank(core, peer);
    if (rank == SPOTNIK_NO_RANK)
        return;
    struct evidence_input in = evidence_input(core);
    if (evidence_table_hear(&core->membership->evidence_table, &in, rank))
        apply_forgiven(core);
}

/* A step was committed: the view is well. */
void evidence_settled(struct spotnik_core *core)
{
    core->membership->settles = 0;
}
