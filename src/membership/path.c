/* SPDX-License-Identifier: Apache-2.0 */
/* A path between two hosts that has broken, while the others reach both. Heartbeats run between
 * ring neighbours, whose silence tells of it. Elsewhere only data run, and the driver sees that
 * they are not acknowledged. Then every voter signs whom it does not reach, and one of two such
 * hosts is left out (member/paths.h). It comes in again when it reaches all (enter.c). Rules:
 * docs/protocol.md 4. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

#define NEWS_NS (10 * SPOTNIK_S) /* the same path again, after that: it broke anew */

void path_note(struct spotnik_core *core, const struct spotnik_member *from,
               const struct spotnik_member *to)
{
    struct spotnik_path *path = &core->status.path;
    bool same = spotnik_id_equal(path->from.id, from->id) && spotnik_id_equal(path->to.id, to->id);

    if (!same || spotnik_time_since(core->now_ns, path->seen_ns) > NEWS_NS)
        core->status.paths_broken++;
    *path = (struct spotnik_path){ .from = *from, .to = *to, .seen_ns = core->now_ns };
}

uint64_t path_sign(const struct spotnik_core *core)
{
    uint64_t bits = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t i = 0; i < core->membership->peer_top; i++) {
        const struct peer *peer = &core->membership->peer[i];
        uint32_t rank = peer->used && peer->cut ? peer_rank(core, peer) : SPOTNIK_NO_RANK;
        if (rank != SPOTNIK_NO_RANK)
            bits |= UINT64_C(1) << rank % 64;
    }
    return bits;
}
