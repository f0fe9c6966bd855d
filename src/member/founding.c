/* SPDX-License-Identifier: Apache-2.0 */
/* Lineages that meet; see founding.h. */
#include "member/founding.h"

/* SplitMix64's finisher: finds accidents, not forgery. Forging a chain takes the job key. */
static uint64_t mix(uint64_t z)
{
    z += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Only the members of the ring: voters that are told of it change from ballot to ballot of one
 * view. */
uint64_t spotnik_chain_link(uint64_t before, const struct spotnik_proposal *proposal)
{
    uint64_t chain = mix(before ^ mix(proposal->epoch));

    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        if (!(proposal->entry[i].flags & SPOTNIK_ENTRY_MEMBER))
            continue;
        chain = mix(chain ^ proposal->entry[i].member.id.high);
        chain = mix(chain ^ proposal->entry[i].member.id.low);
    }
    return chain ? chain : 1;
}

void spotnik_chains_note(struct spotnik_chains *chains, uint64_t epoch, uint64_t chain)
{
    chains->epoch[epoch % SPOTNIK_CHAINS_KEPT] = epoch;
    chains->chain[epoch % SPOTNIK_CHAINS_KEPT] = chain;
}

uint64_t spotnik_chains_at(const struct spotnik_chains *chains, uint64_t epoch)
{
    uint64_t at = epoch % SPOTNIK_CHAINS_KEPT;

    return chains->epoch[at] == epoch ? chains->chain[at] : 0;
}

bool spotnik_founding_differs(const struct spotnik_founding *a, const struct spotnik_founding *b)
{
    return a->id != 0 && b->id != 0 && a->id != b->id;
}

bool spotnik_founding_outranks(const struct spotnik_founding *a, const struct spotnik_founding *b)
{
    if (a->root == b->root && a->generation != b->generation)
        return a->generation > b->generation;
    if (a->root == b->root)
        return a->id < b->id;
    if (a->born_ms != b->born_ms)
        return a->born_ms < b->born_ms;
    return a->root < b->root;
}

/* Of two of one founding that have gone apart. */
static bool fork_outranks(const struct spotnik_presence *a, const struct spotnik_presence *b)
{
    if (a->parked != b->parked)
        return b->parked;
    if (a->epoch != b->epoch)
        return a->epoch > b->epoch;
    return a->chain < b->chain;
}

static enum spotnik_meeting fork_meet(const struct spotnik_presence *ours,
                                      const struct spotnik_presence *theirs,
                                      const struct spotnik_chains *chains)
{
    uint64_t chain = spotnik_chains_at(chains, theirs->epoch);

    if (chain == 0 || theirs->chain == 0 || chain == theirs->chain)
        return SPOTNIK_MEETING_NOTHING;
    return fork_outranks(ours, theirs) ? SPOTNIK_MEETING_STAND : SPOTNIK_MEETING_YIELD;
}

enum spotnik_meeting spotnik_founding_meet(const struct spotnik_presence *ours,
                                           const struct spotnik_presence *theirs,
                                           const struct spotnik_chains *chains)
{
    if (ours->founding.id == 0 || theirs->founding.id == 0)
        return SPOTNIK_MEETING_NOTHING;
    if (ours->founding.id == theirs->founding.id)
        return fork_meet(ours, theirs, chains);
    bool stand = spotnik_founding_outranks(&ours->founding, &theirs->founding);
    const struct spotnik_presence *elder = stand ? ours : theirs, *younger = stand ? theirs : ours;
    if (elder->founding.root != younger->founding.root && elder->parked
        && elder->step <= younger->step)
        return SPOTNIK_MEETING_REFUSE;
    return stand ? SPOTNIK_MEETING_STAND : SPOTNIK_MEETING_YIELD;
}
