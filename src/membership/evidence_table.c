/* SPDX-License-Identifier: Apache-2.0 */
/* Our evidence against members of the view, and when it makes us start a ballot ourselves.
 *
 * The nearest live predecessor of a lost member starts at once; every further witness waits
 * stagger_ns longer than the one before. So one loss seen by a whole host starts one ballot, and
 * yet none is missed when the first witness dies too. Rules: docs/protocol.md 4. */
#include <string.h>

#include "base/assert.h"
#include "base/time.h"
#include "membership/detection.h"

void evidence_table_init(struct evidence_table *table)
{
    table->initiate_ns = SPOTNIK_NEVER;
}

static bool out(const struct evidence_table *table, uint32_t rank)
{
    return spotnik_evidence_out(table->known[rank].evidence);
}

struct evidence_effects evidence_table_add(struct evidence_table *table,
                                           const struct evidence_input *in, uint32_t rank,
                                           enum spotnik_evidence evidence)
{
    SPOTNIK_ASSERT(rank < in->view->size);
    struct spotnik_known *known = &table->known[rank];
    uint8_t merged = spotnik_evidence_merge(known->evidence, (uint8_t)evidence);
    if (rank == in->rank || merged == known->evidence)
        return (struct evidence_effects){ 0 };
    known->evidence = merged;
    table->covered[rank] = false;
    if (!table->suspected_ns)
        table->suspected_ns = in->now_ns;
    return (struct evidence_effects){ .hurry = true,
                                      .freeze = merged >= SPOTNIK_EVIDENCE_TAINTED,
                                      .reroute = true,
                                      .schedule = true };
}

/* How many live members stand closer, going back from the lost one, than we do. 0: we are its
 * nearest live predecessor. The live successor is the second witness: it shares a link, and often
 * the host, with the lost one. */
static uint32_t witness_order(const struct evidence_table *table, const struct evidence_input *in,
                              uint32_t lost)
{
    uint32_t size = in->view->size, nearer = 0;

    SPOTNIK_ASSERT(lost < size && lost != in->rank);
    for (uint32_t back = 1; back < size; back++) {
        uint32_t rank = (lost + size - back) % size;
        if (rank == in->rank)
            break;
        nearer += !out(table, rank);
    }
    uint32_t ahead = (in->rank + size - lost) % size;
    for (uint32_t i = 1; i < ahead; i++)
        if (!out(table, (lost + i) % size))
            return nearer == 0 ? 0 : nearer + 1;
    return nearer == 0 ? 0 : 1;
}

/* How long ballots of nearer witnesses may take to come to us. By a tree the live successor is
 * asked at once, and the other predecessors last: ASK goes down all heads of blocks before. */
static uint64_t patience_ns(const struct evidence_table *table, const struct evidence_input *in,
                            uint32_t lost)
{
    uint32_t order = witness_order(table, in, lost);

    SPOTNIK_ASSERT(in->warm_count >= 1);
    if (in->by_tree && order > 1)
        for (uint32_t heads = in->view->size / in->warm_count; heads > 0; heads /= 2)
            order++;
    return order * in->stagger_ns;
}

/* Look at everything that no PREPARE in flight is known to carry. True: start a ballot now. */
bool evidence_table_schedule(struct evidence_table *table, const struct evidence_input *in)
{
    uint64_t at_ns = SPOTNIK_NEVER;

    for (uint32_t rank = 0; rank < in->view->size; rank++) {
        if (!out(table, rank) || table->covered[rank])
            continue;
        at_ns = spotnik_time_min(at_ns, spotnik_time_add(in->now_ns, patience_ns(table, in, rank)));
    }
    if (at_ns <= in->now_ns)
        return true;
    table->initiate_ns =
        at_ns == SPOTNIK_NEVER ? SPOTNIK_NEVER : spotnik_time_min(table->initiate_ns, at_ns);
    return false;
}

/* Another's word that it does not answer. It may again, and no member tells us; so the word fades
 * before the next retry asks it anew. A later ballot of the same initiator may take it back. */
static void learn_silence(struct evidence_table *table, const struct evidence_input *in,
                          uint32_t rank, const struct spotnik_report *told,
                          struct spotnik_id initiator)
{
    SPOTNIK_ASSERT(rank < in->view->size && rank != in->rank);
    if (told->evidence == SPOTNIK_EVIDENCE_SILENT && !told->promised) {
        table->quiet_until_ns[rank] = spotnik_time_add(in->now_ns, in->retry_ns / 2);
        table->quiet_by[rank] = initiator;
        table->quiet_any = true;
    } else if (table->quiet_any && told->evidence == SPOTNIK_EVIDENCE_NONE
               && spotnik_id_equal(table->quiet_by[rank], initiator)) {
        table->quiet_until_ns[rank] = 0;
        table->quiet_by[rank] = (struct spotnik_id){ 0 };
    }
}

void evidence_table_learn_silences(struct evidence_table *table, const struct evidence_input *in,
                                   const struct spotnik_prepare *prepare)
{
    SPOTNIK_ASSERT(prepare->report_count == in->view->size);
    for (uint32_t rank = 0; rank < in->view->size; rank++)
        if (rank != in->rank)
            learn_silence(table, in, rank, &prepare->report[rank], prepare->ballot.initiator);
}

/* A PREPARE that we pass on holds all our evidence: the next one need not come from us. */
void evidence_table_cover(struct evidence_table *table, uint32_t size)
{
    for (uint32_t rank = 0; rank < size; rank++)
        table->covered[rank] = true;
}

/* Others say that it is dead: passes go round it. */
void evidence_table_suspect(struct evidence_table *table, uint32_t rank)
{
    table->suspected_by_peer[rank] = true;
}

/* Facts found in another's PREPARE that stay true whatever becomes of its ballot: deaths, to go
 * round them, and leaves. What another witnessed is never kept as our own evidence. */
void evidence_table_learn(struct evidence_table *table, const struct evidence_input *in,
                          const struct spotnik_prepare *prepare)
{
    SPOTNIK_ASSERT(prepare->report_count == in->view->size);
    for (uint32_t rank = 0; rank < in->view->size; rank++) {
        const struct spotnik_report *told = &prepare->report[rank];
        if (told->leaving)
            table->known[rank].leaving = 1;
        if (rank != in->rank && told->evidence >= SPOTNIK_EVIDENCE_TAINTED)
            evidence_table_suspect(table, rank);
    }
}

static bool suspects_any(const struct evidence_table *table, const struct evidence_input *in)
{
    for (uint32_t rank = 0; rank < in->view->size; rank++)
        if (table->known[rank].evidence != SPOTNIK_EVIDENCE_NONE)
            return true;
    return false;
}

/* It lives: silence is forgiven while no view has been made without it. True: it was silent. */
bool evidence_table_hear(struct evidence_table *table, const struct evidence_input *in,
                         uint32_t rank)
{
    SPOTNIK_ASSERT(rank < in->view->size);
    if (table->quiet_any)
        table->quiet_until_ns[rank] = 0;
    if (table->known[rank].evidence != SPOTNIK_EVIDENCE_SILENT)
        return false;
    table->known[rank].evidence = SPOTNIK_EVIDENCE_NONE;
    if (!suspects_any(table, in))
        table->suspected_ns = 0;
    return true;
}

/* Deaths known to us of members that the new view still holds stay known; silence is observed
 * anew. `view`: the old one. */
void evidence_table_carry(struct evidence_table *table, const struct spotnik_view *view,
                          const struct spotnik_proposal *proposal, struct spotnik_report *scratch)
{
    uint32_t size = 0, near = 0;

    SPOTNIK_ASSERT(proposal->epoch > view->epoch);
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        if (!(proposal->entry[i].flags & SPOTNIK_ENTRY_MEMBER))
            continue;
        uint32_t rank = spotnik_view_rank_near(view, proposal->entry[i].member.id, near);
        near = rank == SPOTNIK_NO_RANK ? near : rank + 1;
        bool stays =
            rank != SPOTNIK_NO_RANK && table->known[rank].evidence >= SPOTNIK_EVIDENCE_TAINTED;
        scratch[size++].evidence = stays ? table->known[rank].evidence : SPOTNIK_EVIDENCE_NONE;
    }
    for (uint32_t i = 0; i < size; i++)
        table->known[i] = (struct spotnik_known){ .evidence = scratch[i].evidence };
}

static void forget_quiet(struct evidence_table *table, uint32_t members_max)
{
    if (!table->quiet_any)
        return;
    memset(table->quiet_until_ns, 0, members_max * sizeof(*table->quiet_until_ns));
    memset(table->quiet_by, 0, members_max * sizeof(*table->quiet_by));
    table->quiet_any = false;
}

/* A view is installed: what others said of the old one is void. */
void evidence_table_view(struct evidence_table *table, uint32_t members_max)
{
    table->suspected_ns = 0;
    table->initiate_ns = SPOTNIK_NEVER;
    memset(table->covered, 0, members_max * sizeof(*table->covered));
    memset(table->suspected_by_peer, 0, members_max * sizeof(*table->suspected_by_peer));
    forget_quiet(table, members_max);
}

/* We stand in no view, or in our first one. */
void evidence_table_clear(struct evidence_table *table, uint32_t members_max)
{
    memset(table->known, 0, members_max * sizeof(*table->known));
}
