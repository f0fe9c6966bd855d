/* SPDX-License-Identifier: Apache-2.0 */
/* New evidence against a peer, or a sign of its life: the detector (detection.h) decides, apply.c
 * carries out. No rule of the protocol is here. */
#include "base/assert.h"
#include "membership/membership.h"

void evidence_add(struct spotnik_core *core, uint32_t rank, enum spotnik_evidence evidence)
{
    struct evidence_input in = evidence_input(core);
    struct evidence_effects effects =
        evidence_table_add(&core->membership->evidence_table, &in, rank, evidence);

    apply_evidence(core, &effects, rank);
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
