/* SPDX-License-Identifier: Apache-2.0 */
/* Evidence against peers, as the rest of membership sees it: values of the core for the detector
 * (detection.h). No rule of the protocol is here. */
#include "base/assert.h"
#include "membership/membership.h"

enum ballot_next evidence_schedule(struct spotnik_core *core)
{
    struct evidence_input in = evidence_input(core);
    bool due = evidence_table_schedule(&core->membership->evidence_table, &in);

    return due ? BALLOT_START : BALLOT_WAITS;
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
