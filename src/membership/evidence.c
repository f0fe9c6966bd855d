/* SPDX-License-Identifier: Apache-2.0 */
/* Our evidence against peers, and when it makes us start a ballot ourselves.
 *
 * The nearest live predecessor of a lost member starts at once; every further witness waits
 * stagger_ns longer than the one before. So one loss seen by a whole host starts one ballot, and
 * yet none is missed when the first witness dies too. */
#include "base/assert.h"
#include "base/time.h"
#include "membership/membership.h"

static bool out(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return spotnik_evidence_out(core->membership->evidence_table[rank].evidence);
}

void evidence_add(struct spotnik_core *core, uint32_t rank, enum spotnik_evidence evidence)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(rank < core->view.size);
    if (rank == core->rank)
        return;
    struct spotnik_known *known = &core->membership->evidence_table[rank];
    uint8_t merged = spotnik_evidence_merge(known->evidence, (uint8_t)evidence);
    if (merged == known->evidence)
        return;
    known->evidence = merged;
    core->membership->covered[rank] = false;
    joiners_hurry(&core->membership->joiners, core->now_ns);
    if (!core->membership->suspected_ns)
        core->membership->suspected_ns = core->now_ns;
    if (merged >= SPOTNIK_EVIDENCE_TAINTED)
        /* never taken back, so a ballot must come: its PREPARE would wait at every hop for a member
         * busy with data */
        freeze(core);
    /* a PREPARE that comes round by this may decide, and the next view may be one without us */
    prepare_reroute(core, core->view.entry[rank].member.id);
    if (core->role == SPOTNIK_ROLE_MEMBER)
        evidence_schedule(core);
}

/* How many live members stand closer, going back from the lost one, than we do. 0: we are its
 * nearest live predecessor. The live successor is the second witness: it shares a link, and often
 * the host, with the lost one. */
static uint32_t witness_order(const struct spotnik_core *core, uint32_t lost)
{
    SPOTNIK_ASSERT(lost < core->view.size);
    SPOTNIK_ASSERT(lost != core->rank);
    uint32_t size = core->view.size, nearer = 0;
    for (uint32_t back = 1; back < size; back++) {
        uint32_t rank = (lost + size - back) % size;
        if (rank == core->rank)
            break;
        nearer += !out(core, rank);
    }
    uint32_t ahead = (core->rank + size - lost) % size;
    for (uint32_t i = 1; i < ahead; i++)
        if (!out(core, (lost + i) % size))
            return nearer == 0 ? 0 : nearer + 1;
    return nearer == 0 ? 0 : 1;
}

/* How long ballots of nearer witnesses may take to come to us. By a tree the live successor is
 * asked at once, and the other predecessors last: ASK goes down all heads of blocks before. */
static uint64_t patience(const struct spotnik_core *core, uint32_t lost)
{
    uint32_t order = witness_order(core, lost), heads = core->view.size / core->limits.warm_count;

    SPOTNIK_ASSERT(core->limits.warm_count >= 1);
    if (tree_prepare_is_used(core) && order > 1)
        for (; heads > 0; heads /= 2)
            order++;
    return order * core->limits.stagger_ns;
}

/* Look at everything that no PREPARE in flight is known to carry. */
void evidence_schedule(struct spotnik_core *core)
{
    uint64_t at_ns = SPOTNIK_NEVER;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (!out(core, rank) || core->membership->covered[rank])
            continue;
        at_ns = spotnik_time_min(at_ns, spotnik_time_add(core->now_ns, patience(core, rank)));
    }
    if (at_ns <= core->now_ns)
        ballot_start(core);
    else if (at_ns != SPOTNIK_NEVER)
        core->membership->initiate_ns = spotnik_time_min(core->membership->initiate_ns, at_ns);
    else
        core->membership->initiate_ns = SPOTNIK_NEVER;
}

/* Another's word that it does not answer. It may again, and nobody tells us; so the word fades
 * before the next retry asks it anew. */
bool evidence_is_quiet(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return core->now_ns < core->membership->quiet_until_ns[rank];
}

/* The word of one ballot fades, and a later ballot of the same initiator may take it back. */
static void learn_silence(struct spotnik_core *core, uint32_t rank,
                          const struct spotnik_report *told, struct spotnik_id initiator)
{
    SPOTNIK_ASSERT(rank < core->view.size && rank != core->rank);
    if (told->evidence == SPOTNIK_EVIDENCE_SILENT && !told->promised) {
        core->membership->quiet_until_ns[rank] =
            spotnik_time_add(core->now_ns, core->limits.retry_ns / 2);
        core->membership->quiet_by[rank] = initiator;
        core->membership->quiet_any = true;
    } else if (core->membership->quiet_any && told->evidence == SPOTNIK_EVIDENCE_NONE
               && spotnik_id_equal(core->membership->quiet_by[rank], initiator)) {
        core->membership->quiet_until_ns[rank] = 0;
        core->membership->quiet_by[rank] = (struct spotnik_id){ 0 };
    }
}

/* Facts found in somebody's PREPARE that stay true whatever becomes of its ballot: deaths, to go
 * round them, and leaves; and silences, for a while. What another witnessed is never kept as our
 * own evidence. */
void evidence_learn(struct spotnik_core *core, const struct spotnik_prepare *prepare)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    SPOTNIK_ASSERT(prepare->report_count == core->view.size);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        const struct spotnik_report *told = &prepare->report[rank];
        struct spotnik_known *known = &core->membership->evidence_table[rank];
        if (told->leaving)
            known->leaving = 1;
        if (rank != core->rank && told->evidence >= SPOTNIK_EVIDENCE_TAINTED)
            core->membership->suspected_by_peer[rank] = true;
        if (rank != core->rank)
            learn_silence(core, rank, told, prepare->ballot.initiator);
    }
}

/* May it, as far as its words go, have voted in `epoch` without us? Before such a vote goes on it
 * says FENCED on a link that stands. It says so first of all on one that comes up in the same
 * epoch. So it may have if it fenced us then or later; or if, when the link came up, it was in a
 * later epoch already, where it fences no peer for the earlier one. A later epoch heard on a link
 * older than that says nothing against it: it went there by a view that we voted for, or one chosen
 * by others, which fenced us. */
bool evidence_moved_on(const struct peer *peer, uint64_t epoch)
{
    SPOTNIK_ASSERT(peer->used);
    return peer->fenced_epoch >= epoch || peer->first_epoch > epoch;
}

/* What the known end of `peer` is worth in `epoch`: GONE where it did not vote without us there, by
 * its own last words or by the certificate of its host. A certificate that is too young for our
 * view is worth more as soon as we have moved on. */
enum spotnik_evidence evidence_of_end(const struct peer *peer, uint64_t epoch)
{
    SPOTNIK_ASSERT(peer->used);
    SPOTNIK_ASSERT(!peer->certified || peer->ended >= SPOTNIK_EVIDENCE_TAINTED);
    if (peer->ended == SPOTNIK_EVIDENCE_NONE)
        return SPOTNIK_EVIDENCE_NONE;
    if (peer->certified && peer->last_epoch <= epoch)
        return SPOTNIK_EVIDENCE_GONE;
    return peer->ended == SPOTNIK_EVIDENCE_GONE && !evidence_moved_on(peer, epoch)
               ? SPOTNIK_EVIDENCE_GONE
               : SPOTNIK_EVIDENCE_TAINTED;
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
                 && !evidence_moved_on(peer, core->view.epoch);
    }
    return count;
}

static bool suspects_any(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (core->membership->evidence_table[rank].evidence != SPOTNIK_EVIDENCE_NONE)
            return true;
    return false;
}

/* It lives: silence is forgiven while no view has been made without it, and a parked side has a
 * reason to try again. */
void evidence_hear(struct spotnik_core *core, struct peer *peer)
{
    uint32_t rank;

    SPOTNIK_ASSERT(peer->used && peer->linked);
    spotnik_detector_hear(&peer->detector, core->now_ns, core->limits.silence_floor_ns);
    peer->heard = true;
    if (core->role != SPOTNIK_ROLE_MEMBER)
        return;
    rank = peer_rank(core, peer);
    if (rank != SPOTNIK_NO_RANK && core->membership->quiet_any)
        core->membership->quiet_until_ns[rank] = 0;
    if (rank == SPOTNIK_NO_RANK
        || core->membership->evidence_table[rank].evidence != SPOTNIK_EVIDENCE_SILENT)
        return;
    core->membership->evidence_table[rank].evidence = SPOTNIK_EVIDENCE_NONE;
    if (!suspects_any(core))
        core->membership->suspected_ns = 0;
    /* frozen for its sake, and no ballot has come yet */
    if (core->membership->parked || (core->frozen && !core->membership->promised.round))
        ballot_start(core);
    else
        evidence_schedule(core);
    tree_prepare_go(core); /* it is not out any more, and is asked after all */
}

/* A step was committed: the view is well. */
void evidence_settled(struct spotnik_core *core)
{
    core->membership->settles = 0;
}
