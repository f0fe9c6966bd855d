/* SPDX-License-Identifier: Apache-2.0 */
/* Messages drawn by lot, and their comparison without the help of the code under test. */
#include "sample.h"

#include <string.h>

#define MEMBERS_MAX 12
#define CHUNK_BYTES_MAX 4096

struct spotnik_limits spotnik_sample_limits(void)
{
    return (struct spotnik_limits){ .members_max = MEMBERS_MAX, .chunk_bytes = CHUNK_BYTES_MAX };
}

static uint32_t below(struct spotnik_prng *prng, uint32_t n)
{
    return (uint32_t)spotnik_prng_below(prng, n);
}

struct spotnik_member spotnik_sample_member(struct spotnik_prng *prng)
{
    struct spotnik_member member = {
        .id = { spotnik_prng_next(prng), spotnik_prng_next(prng) },
        .host = spotnik_prng_next(prng),
        .port = (uint16_t)(1 + below(prng, UINT16_MAX)),
    };

    for (uint32_t i = 0; i < sizeof member.address; i++)
        member.address[i] = (uint8_t)below(prng, 256);
    return member;
}

static struct spotnik_ballot sample_ballot(struct spotnik_prng *prng)
{
    return (struct spotnik_ballot){
        .round = 1 + spotnik_prng_below(prng, 1000),
        .initiator = { spotnik_prng_next(prng), spotnik_prng_next(prng) },
    };
}

/* Ranges grow out of gaps and lengths, so that they are apart by construction. */
static void sample_ledger(struct spotnik_prng *prng, struct spotnik_ledger *ledger)
{
    uint64_t at = 0, total = 0;

    spotnik_ledger_init(ledger, 0, 0);
    if (spotnik_prng_chance(prng, 1, 4))
        return;
    ledger->returned_count =
        spotnik_prng_chance(prng, 1, 20) ? SPOTNIK_LEDGER_RETURNED_MAX : below(prng, 6);
    for (uint32_t i = 0; i < ledger->returned_count; i++) {
        ledger->returned[i].begin = at += spotnik_prng_below(prng, 50) + (i > 0);
        ledger->returned[i].end = at += 1 + spotnik_prng_below(prng, 50);
        total += ledger->returned[i].end - ledger->returned[i].begin;
    }
    ledger->cursor = at + spotnik_prng_below(prng, 3);
    ledger->samples = ledger->cursor + 1 + spotnik_prng_below(prng, 1000);
    ledger->batch = 1 + total + spotnik_prng_below(prng, 100);
    ledger->data_epoch = spotnik_prng_below(prng, 5);
    ledger->per_member = ledger->cursor % 2;
    ledger->deal_count =
        spotnik_prng_chance(prng, 1, 20) ? SPOTNIK_LEDGER_DEAL_MAX : below(prng, 6);
    for (uint32_t i = 0; i < ledger->deal_count; i++)
        ledger->deal[i] = (i == 0) + below(prng, 1000);
}

/* In the tail nobody is a member of the new view: those are voters that must be told. */
static void sample_proposal(struct spotnik_prng *prng, struct spotnik_proposal *proposal)
{
    proposal->epoch = 1 + spotnik_prng_below(prng, 1000);
    proposal->settled_step = spotnik_prng_next(prng);
    proposal->ballot = sample_ballot(prng);
    proposal->share_count = below(prng, MEMBERS_MAX + 1);
    proposal->flat = proposal->share_count % 2;
    proposal->founding = (struct spotnik_founding){ .id = 0 };
    if (spotnik_prng_chance(prng, 2, 3))
        proposal->founding = (struct spotnik_founding){ 1 + below(prng, 9), spotnik_prng_next(prng),
                                                        spotnik_prng_next(prng), below(prng, 9) };
    proposal->entry_count =
        spotnik_prng_chance(prng, 1, 10) ? proposal->entry_max : below(prng, MEMBERS_MAX + 1);
    sample_ledger(prng, &proposal->ledger);
    proposal->packed = false;
    proposal->brief.run_count = 0;
    for (uint32_t i = 0; i < proposal->entry_count; i++) {
        struct spotnik_entry *entry = &proposal->entry[i];
        entry->member = spotnik_sample_member(prng);
        entry->flags = below(prng, 16) & (i < MEMBERS_MAX ? ~0u : ~(uint32_t)SPOTNIK_ENTRY_MEMBER);
        entry->share = proposal->share_count > 0 && below(prng, 5)
                           ? below(prng, proposal->share_count)
                           : SPOTNIK_NO_SHARE;
    }
}

/* As a decoder leaves it: runs, and only the new members. */
static void sample_brief(struct spotnik_prng *prng, struct spotnik_proposal *proposal)
{
    struct spotnik_brief *brief = &proposal->brief;
    uint32_t strangers = 0;

    *brief = (struct spotnik_brief){ .run_count = 1 + below(prng, 6) };
    proposal->packed = true;
    proposal->entry_count = 0;
    for (uint32_t i = 0; i < brief->run_count; i++) {
        struct spotnik_run *run = &brief->run[i];
        *run = (struct spotnik_run){ .rank = below(prng, 2) ? SPOTNIK_NO_RANK : below(prng, 9),
                                     .count = 1 + below(prng, 2),
                                     .flags = below(prng, 16) };
        run->share = proposal->share_count >= run->count
                         ? below(prng, proposal->share_count - run->count + 1)
                         : SPOTNIK_NO_SHARE;
        proposal->entry_count += run->count;
        strangers += run->rank == SPOTNIK_NO_RANK ? run->count : 0;
    }
    for (uint32_t i = 0; i < strangers; i++)
        proposal->entry[i] = (struct spotnik_entry){ .member = spotnik_sample_member(prng) };
}

/* Some like the one before, or with the next share. */
static void sample_runs(struct spotnik_prng *prng, struct spotnik_prepare *prepare)
{
    for (uint32_t i = 1; i < prepare->report_count; i++) {
        if (below(prng, 3) == 0)
            continue;
        prepare->report[i] = prepare->report[i - 1];
        if (below(prng, 2) && prepare->report[i].share < 3)
            prepare->report[i].share++;
    }
}

static void sample_prepare(struct spotnik_prng *prng, struct spotnik_prepare *prepare)
{
    prepare->ballot = sample_ballot(prng);
    prepare->parked = (uint8_t)below(prng, 2);
    prepare->report_count = 1 + below(prng, MEMBERS_MAX);
    prepare->joiner_count = spotnik_prng_chance(prng, 1, 10) ? SPOTNIK_JOINERS_MAX : below(prng, 3);
    prepare->ledger_step = spotnik_prng_next(prng);
    for (uint32_t i = 0; i < prepare->report_count; i++)
        prepare->report[i] = (struct spotnik_report){
            .evidence = (uint8_t)below(prng, 4),
            .leaving = (uint8_t)below(prng, 2),
            .promised = (uint8_t)below(prng, 2),
            .begun = (uint8_t)below(prng, 2),
            .bare = (uint8_t)below(prng, 2),
            .committed = spotnik_prng_next(prng),
            .share = below(prng, 4),
            .share_count = 4,
            .apart = spotnik_prng_next(prng),
            .cut = spotnik_prng_chance(prng, 1, 3) ? spotnik_prng_next(prng) : 0,
        };
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        prepare->joiner[i] =
            (struct spotnik_enter){ spotnik_sample_member(prng), spotnik_prng_next(prng) };
    sample_ledger(prng, &prepare->ledger);
    prepare->accepted_ballot = (struct spotnik_ballot){ 0 };
    prepare->accepted.entry_count = 0;
    if (spotnik_prng_chance(prng, 1, 2)) {
        prepare->accepted_ballot = sample_ballot(prng);
        sample_proposal(prng, &prepare->accepted);
    }
}

static void sample_ended(struct spotnik_prng *prng, struct spotnik_ended *ended)
{
    ended->count = spotnik_prng_chance(prng, 1, 5) ? SPOTNIK_ENDED_MAX : below(prng, 4);
    for (uint32_t i = 0; i < ended->count; i++)
        ended->rank[i] = below(prng, MEMBERS_MAX);
}

static void sample_mismatch(struct spotnik_prng *prng, struct spotnik_mismatch *mismatch)
{
    mismatch->step = spotnik_prng_between(prng, 1, UINT64_MAX - 1);
    mismatch->bucket = (uint32_t)spotnik_prng_below(prng, SPOTNIK_BUCKETS_MAX);
    for (int i = 0; i < 2; i++) {
        struct spotnik_held *held = &mismatch->held[i];
        held->member = spotnik_sample_member(prng).id;
        held->has = (uint8_t)below(prng, 2);
        if (held->has) {
            held->count = spotnik_prng_next(prng);
            held->dtype = SPOTNIK_F32;
            held->op = SPOTNIK_MAX;
        }
    }
}

/* Often only one chain has come far enough for a claim, or none. */
static void sample_digests(struct spotnik_prng *prng, struct spotnik_digest_claim *digest)
{
    for (int i = 0; i < SPOTNIK_MESSAGE_DIGESTS; i++)
        if (spotnik_prng_chance(prng, 2, 3))
            digest[i] = (struct spotnik_digest_claim){ .epoch = spotnik_prng_next(prng),
                                                       .step = spotnik_prng_between(prng, 1,
                                                                                    UINT64_MAX - 1),
                                                       .value = spotnik_prng_next(prng),
                                                       .tied = spotnik_prng_chance(prng, 1, 4) };
}

struct spotnik_message spotnik_sample_message(struct spotnik_prng *prng,
                                              enum spotnik_message_kind kind,
                                              struct spotnik_wire_storage *storage)
{
    struct spotnik_message message = {
        .kind = kind,
        .epoch = spotnik_prng_next(prng),
        .committed = spotnik_prng_next(prng),
    };

    if (kind == SPOTNIK_MESSAGE_ASK || kind == SPOTNIK_MESSAGE_ACCEPTED)
        message.ballot = sample_ballot(prng);
    if (kind == SPOTNIK_MESSAGE_ASK)
        sample_ended(prng, &message.ended);
    if (kind == SPOTNIK_MESSAGE_PREPARE || kind == SPOTNIK_MESSAGE_PROMISE) {
        message.prepare = &storage->prepare;
        sample_prepare(prng, message.prepare);
        message.brief = below(prng, 2);
        if (message.brief)
            sample_runs(prng, message.prepare);
        if (message.brief && message.prepare->accepted_ballot.round && below(prng, 2))
            sample_brief(prng, &message.prepare->accepted);
    }
    if (kind == SPOTNIK_MESSAGE_ACCEPT || kind == SPOTNIK_MESSAGE_RESTART) {
        message.proposal = &storage->proposal;
        sample_proposal(prng, message.proposal);
        message.brief = below(prng, 2);
        if (message.brief)
            sample_brief(prng, message.proposal);
    }
    if (kind == SPOTNIK_MESSAGE_ENTER)
        message.enter =
            (struct spotnik_enter){ spotnik_sample_member(prng), spotnik_prng_next(prng) };
    if (kind == SPOTNIK_MESSAGE_ENTER && below(prng, 2))
        message.unmet = spotnik_sample_member(prng).id;
    if (kind == SPOTNIK_MESSAGE_HEARTBEAT)
        sample_digests(prng, message.digest);
    if (kind == SPOTNIK_MESSAGE_PAUSE_CHECK || kind == SPOTNIK_MESSAGE_PAUSE_ACK)
        message.serial = spotnik_prng_between(prng, 1, UINT64_MAX - 1);
    if (kind == SPOTNIK_MESSAGE_MISMATCH)
        sample_mismatch(prng, &message.mismatch);
    return message;
}

struct spotnik_chunk_header spotnik_sample_chunk(struct spotnik_prng *prng)
{
    return (struct spotnik_chunk_header){
        .handover = (uint8_t)below(prng, 2),
        .sharing = (uint8_t)below(prng, 2),
        .schedule = (uint8_t)below(prng, 3),
        .dtype = (uint8_t)(SPOTNIK_F32 + below(prng, 5)),
        .op = (uint8_t)(SPOTNIK_SUM + below(prng, 4)),
        .bucket = below(prng, SPOTNIK_BUCKETS_MAX),
        .epoch = 1 + spotnik_prng_next(prng) / 2,
        .step = 1 + spotnik_prng_next(prng) / 2,
        .sequence = spotnik_prng_next(prng),
        .count = CHUNK_BYTES_MAX + spotnik_prng_below(prng, UINT64_C(1) << 50),
        .weight = spotnik_prng_next(prng),
    };
}

bool spotnik_sample_member_equal(const struct spotnik_member *a, const struct spotnik_member *b)
{
    return spotnik_id_equal(a->id, b->id) && a->host == b->host && a->port == b->port
           && memcmp(a->address, b->address, sizeof a->address) == 0;
}

static bool ballot_equal(struct spotnik_ballot a, struct spotnik_ballot b)
{
    return a.round == b.round && spotnik_id_equal(a.initiator, b.initiator);
}

static bool enter_equal(const struct spotnik_enter *a, const struct spotnik_enter *b)
{
    return a->committed == b->committed && spotnik_sample_member_equal(&a->member, &b->member);
}

static bool run_equal(const struct spotnik_run *a, const struct spotnik_run *b)
{
    return a->rank == b->rank && a->count == b->count && a->flags == b->flags
           && a->share == b->share;
}

/* Returns how many entries there are to compare. */
static uint32_t brief_entries(const struct spotnik_proposal *proposal)
{
    uint32_t count = proposal->packed ? 0 : proposal->entry_count;

    for (uint32_t i = 0; proposal->packed && i < proposal->brief.run_count; i++)
        count += proposal->brief.run[i].rank == SPOTNIK_NO_RANK ? proposal->brief.run[i].count : 0;
    return count;
}

static bool brief_equal(const struct spotnik_proposal *a, const struct spotnik_proposal *b)
{
    if (a->packed != b->packed || a->brief.run_count != b->brief.run_count)
        return false;
    for (uint32_t i = 0; i < a->brief.run_count; i++)
        if (!run_equal(&a->brief.run[i], &b->brief.run[i]))
            return false;
    return brief_entries(a) == brief_entries(b);
}

static bool proposal_equal(const struct spotnik_proposal *a, const struct spotnik_proposal *b)
{
    if (!brief_equal(a, b))
        return false;
    if (a->epoch != b->epoch || a->settled_step != b->settled_step
        || !ballot_equal(a->ballot, b->ballot))
        return false;
    if (a->share_count != b->share_count || a->entry_count != b->entry_count || a->flat != b->flat)
        return false;
    for (uint32_t i = 0; i < brief_entries(a); i++) {
        const struct spotnik_entry *x = &a->entry[i], *y = &b->entry[i];
        if ((!a->packed && (x->flags != y->flags || x->share != y->share))
            || !spotnik_sample_member_equal(&x->member, &y->member))
            return false;
    }
    return spotnik_ledger_equal(&a->ledger, &b->ledger)
           && memcmp(&a->founding, &b->founding, sizeof a->founding) == 0;
}

static bool report_equal(const struct spotnik_report *a, const struct spotnik_report *b)
{
    return a->evidence == b->evidence && a->leaving == b->leaving && a->promised == b->promised
           && a->begun == b->begun && a->bare == b->bare && a->committed == b->committed
           && a->share == b->share && a->share_count == b->share_count && a->apart == b->apart
           && a->cut == b->cut;
}

static bool prepare_equal(const struct spotnik_prepare *a, const struct spotnik_prepare *b)
{
    if (!ballot_equal(a->ballot, b->ballot)
        || !ballot_equal(a->accepted_ballot, b->accepted_ballot))
        return false;
    if (a->parked != b->parked || a->ledger_step != b->ledger_step
        || a->report_count != b->report_count || a->joiner_count != b->joiner_count
        || !spotnik_ledger_equal(&a->ledger, &b->ledger))
        return false;
    for (uint32_t i = 0; i < a->report_count; i++)
        if (!report_equal(&a->report[i], &b->report[i]))
            return false;
    for (uint32_t i = 0; i < a->joiner_count; i++)
        if (!enter_equal(&a->joiner[i], &b->joiner[i]))
            return false;
    return a->accepted_ballot.round == 0 || proposal_equal(&a->accepted, &b->accepted);
}

static bool digests_equal(const struct spotnik_digest_claim *a,
                          const struct spotnik_digest_claim *b)
{
    for (int i = 0; i < SPOTNIK_MESSAGE_DIGESTS; i++)
        if (a[i].epoch != b[i].epoch || a[i].step != b[i].step || a[i].value != b[i].value
            || a[i].tied != b[i].tied)
            return false;
    return true;
}

bool spotnik_sample_equal(const struct spotnik_message *a, const struct spotnik_message *b)
{
    if (a->kind != b->kind || a->epoch != b->epoch || a->committed != b->committed
        || a->brief != b->brief)
        return false;
    if (!a->prepare != !b->prepare || !a->proposal != !b->proposal)
        return false;
    if (a->prepare && !prepare_equal(a->prepare, b->prepare))
        return false;
    if (a->proposal && !proposal_equal(a->proposal, b->proposal))
        return false;
    if (a->kind == SPOTNIK_MESSAGE_MISMATCH
        && memcmp(&a->mismatch, &b->mismatch, sizeof a->mismatch) != 0)
        return false;
    if (!ballot_equal(a->ballot, b->ballot) || a->ended.count != b->ended.count
        || memcmp(a->ended.rank, b->ended.rank, a->ended.count * sizeof a->ended.rank[0]) != 0)
        return false;
    return a->serial == b->serial && digests_equal(a->digest, b->digest)
           && (a->kind != SPOTNIK_MESSAGE_ENTER
               || (enter_equal(&a->enter, &b->enter) && spotnik_id_equal(a->unmet, b->unmet)));
}
