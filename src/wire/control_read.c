/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages from bytes. Readers return 0 or the error, check counts against capacity and
 * against the bytes left before they loop, and write nowhere but into the storage. */
#include "wire/control.h"

#include "base/bytes.h"
#include "base/dtype.h"
#include "member/brief.h"
#include "wire/fields.h"

#define ENTRY_FLAGS                                                                                \
    (SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER | SPOTNIK_ENTRY_LAGGARD | SPOTNIK_ENTRY_JOINER     \
     | SPOTNIK_ENTRY_CUT)

/* May `count` items of `bytes` each follow? */
static int count_check(const struct spotnik_reader *reader, uint32_t count, size_t capacity,
                       size_t bytes)
{
    if (reader->failed || count > spotnik_reader_left(reader) / bytes)
        return SPOTNIK_ERR_ARGUMENT;
    return count > capacity ? SPOTNIK_ERR_LIMIT : SPOTNIK_OK;
}

static struct spotnik_ballot ballot_read(struct spotnik_reader *reader)
{
    uint64_t round = spotnik_reader_u64(reader);

    return (struct spotnik_ballot){ .round = round, .initiator = spotnik_reader_id(reader) };
}

static int listener_read(struct spotnik_reader *reader, struct spotnik_member *ret)
{
    bool good = spotnik_wire_member_read(reader, ret);

    return good && ret->port != 0 ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static int enter_read(struct spotnik_reader *reader, struct spotnik_enter *ret)
{
    int rc = listener_read(reader, &ret->member);

    ret->committed = spotnik_reader_u64(reader);
    return reader->failed ? SPOTNIK_ERR_ARGUMENT : rc;
}

static bool report_is_valid(const struct spotnik_report *report)
{
    bool shared =
        !report->begun || report->share == SPOTNIK_NO_SHARE || report->share < report->share_count;

    return shared && report->evidence <= SPOTNIK_EVIDENCE_GONE && report->leaving <= 1
           && report->promised <= 1 && report->begun <= 1 && report->bare <= 1;
}

static int report_read(struct spotnik_reader *reader, struct spotnik_report *ret)
{
    ret->evidence = spotnik_reader_u8(reader);
    ret->leaving = spotnik_reader_u8(reader);
    ret->promised = spotnik_reader_u8(reader);
    ret->begun = spotnik_reader_u8(reader);
    ret->bare = spotnik_reader_u8(reader);
    bool good = spotnik_wire_zeros_read(reader, 3);
    ret->committed = spotnik_reader_u64(reader);
    ret->share = spotnik_reader_u32(reader);
    ret->share_count = spotnik_reader_u32(reader);
    ret->apart = spotnik_reader_u64(reader);
    ret->cut = spotnik_reader_u64(reader);
    return good && report_is_valid(ret) ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static int ledger_read(struct spotnik_reader *reader, struct spotnik_ledger *ret)
{
    ret->samples = spotnik_reader_u64(reader);
    ret->batch = spotnik_reader_u64(reader);
    ret->data_epoch = spotnik_reader_u64(reader);
    ret->cursor = spotnik_reader_u64(reader);
    uint32_t count = spotnik_reader_u32(reader);
    uint8_t per_member = spotnik_reader_u8(reader);
    bool good = spotnik_wire_zeros_read(reader, 3) && per_member <= 1;
    ret->per_member = per_member == 1;
    uint32_t deal_count = spotnik_reader_u32(reader);
    good = spotnik_wire_zeros_read(reader, 4) && good;
    int rc = count_check(reader, deal_count, SPOTNIK_LEDGER_DEAL_MAX, SPOTNIK_WIRE_DEAL_BYTES);
    if (rc != SPOTNIK_OK)
        return rc;
    ret->deal_count = deal_count;
    for (uint32_t i = 0; i < deal_count; i++)
        ret->deal[i] = spotnik_reader_u32(reader);
    rc = count_check(reader, count, SPOTNIK_LEDGER_RETURNED_MAX, SPOTNIK_WIRE_RANGE_BYTES);
    if (rc != SPOTNIK_OK)
        return rc;
    ret->returned_count = count;
    for (uint32_t i = 0; i < count; i++) {
        ret->returned[i].begin = spotnik_reader_u64(reader);
        ret->returned[i].end = spotnik_reader_u64(reader);
    }
    return good && spotnik_ledger_is_valid(ret) ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static int entry_read(struct spotnik_reader *reader, uint32_t share_count,
                      struct spotnik_entry *ret)
{
    int rc = listener_read(reader, &ret->member);

    ret->flags = spotnik_reader_u32(reader);
    ret->share = spotnik_reader_u32(reader);
    if (rc != SPOTNIK_OK || reader->failed || (ret->flags & ~ENTRY_FLAGS) != 0)
        return SPOTNIK_ERR_ARGUMENT;
    return ret->share < share_count || ret->share == SPOTNIK_NO_SHARE ? SPOTNIK_OK
                                                                      : SPOTNIK_ERR_ARGUMENT;
}

static int entries_read(struct spotnik_reader *reader, uint32_t count, struct spotnik_proposal *ret)
{
    int rc = count_check(reader, count, ret->entry_max, SPOTNIK_WIRE_ENTRY_BYTES);
    if (rc != SPOTNIK_OK)
        return rc;
    ret->entry_count = count;
    for (uint32_t i = 0; rc == SPOTNIK_OK && i < count; i++)
        rc = entry_read(reader, ret->share_count, &ret->entry[i]);
    return rc;
}

/* A run names members of a view that we do not look at here: the core does, before it makes the
 * proposal whole. */
static int run_read(struct spotnik_reader *reader, const struct spotnik_proposal *proposal,
                    struct spotnik_run *ret)
{
    ret->rank = spotnik_reader_u32(reader);
    ret->count = spotnik_reader_u32(reader);
    ret->flags = spotnik_reader_u32(reader);
    ret->share = spotnik_reader_u32(reader);
    bool shared =
        ret->share < proposal->share_count && ret->count <= proposal->share_count - ret->share;
    bool good =
        ret->count > 0 && ret->count <= proposal->entry_max && (ret->flags & ~ENTRY_FLAGS) == 0;

    return !reader->failed && good && (shared || ret->share == SPOTNIK_NO_SHARE)
               ? SPOTNIK_OK
               : SPOTNIK_ERR_ARGUMENT;
}

static int strangers_read(struct spotnik_reader *reader, uint32_t count,
                          struct spotnik_proposal *ret)
{
    int rc = count_check(reader, count, ret->entry_max, SPOTNIK_WIRE_MEMBER_BYTES);

    for (uint32_t i = 0; rc == SPOTNIK_OK && i < count; i++)
        rc = listener_read(reader, &ret->entry[i].member);
    return rc;
}

/* `total`: what the runs must add up to. */
static int brief_read(struct spotnik_reader *reader, uint32_t total, struct spotnik_proposal *ret)
{
    struct spotnik_brief *brief = &ret->brief;
    uint64_t sum = 0, strangers = 0;

    uint32_t runs = spotnik_reader_u32(reader);
    bool good = spotnik_wire_zeros_read(reader, 4) && runs > 0;
    int rc = count_check(reader, runs, SPOTNIK_RUNS_MAX, SPOTNIK_WIRE_RUN_BYTES);
    for (uint32_t i = 0; rc == SPOTNIK_OK && i < runs; i++) {
        rc = run_read(reader, ret, &brief->run[i]);
        sum += brief->run[i].count;
        strangers += brief->run[i].rank == SPOTNIK_NO_RANK ? brief->run[i].count : 0;
    }
    if (rc != SPOTNIK_OK || !good || sum != total || total > ret->entry_max)
        return rc == SPOTNIK_OK ? SPOTNIK_ERR_ARGUMENT : rc;
    brief->run_count = runs;
    ret->entry_count = total;
    ret->packed = true;
    return strangers_read(reader, (uint32_t)strangers, ret);
}

static uint64_t size_of(const struct spotnik_proposal *proposal)
{
    uint64_t size = 0;

    for (uint32_t i = 0; proposal->packed && i < proposal->brief.run_count; i++)
        size +=
            proposal->brief.run[i].flags & SPOTNIK_ENTRY_MEMBER ? proposal->brief.run[i].count : 0;
    return proposal->packed ? size : spotnik_proposal_size(proposal);
}

/* The view that a proposal installs has to fit the limits as well, not only the list of members to
 * tell. */
static int proposal_read(struct spotnik_reader *reader, uint32_t members_max,
                         struct spotnik_proposal *ret)
{
    ret->epoch = spotnik_reader_u64(reader);
    ret->settled_step = spotnik_reader_u64(reader);
    ret->ballot = ballot_read(reader);
    ret->share_count = spotnik_reader_u32(reader);
    uint32_t count = spotnik_reader_u32(reader);
    uint8_t flat = spotnik_reader_u8(reader);
    uint8_t brief = spotnik_reader_u8(reader);
    bool good = spotnik_wire_zeros_read(reader, 6) && flat <= 1 && brief <= 1;
    ret->packed = false;
    ret->brief.run_count = 0;
    ret->flat = flat == 1;
    int rc = ledger_read(reader, &ret->ledger);
    if (rc != SPOTNIK_OK)
        return rc;
    if (!good || ret->epoch == 0)
        return SPOTNIK_ERR_ARGUMENT;
    if (ret->share_count > members_max)
        return SPOTNIK_ERR_LIMIT;
    rc = brief ? brief_read(reader, count, ret) : entries_read(reader, count, ret);
    if (rc != SPOTNIK_OK)
        return rc;
    spotnik_wire_founding_read(reader, &ret->founding);
    if (reader->failed)
        return SPOTNIK_ERR_ARGUMENT;
    return size_of(ret) > members_max ? SPOTNIK_ERR_LIMIT : SPOTNIK_OK;
}

static int reports_read(struct spotnik_reader *reader, uint32_t members_max,
                        struct spotnik_prepare *ret)
{
    int rc = count_check(reader, ret->report_count, members_max, SPOTNIK_WIRE_REPORT_BYTES);

    if (rc == SPOTNIK_OK && ret->report_count == 0)
        rc = SPOTNIK_ERR_ARGUMENT;
    for (uint32_t i = 0; rc == SPOTNIK_OK && i < ret->report_count; i++)
        rc = report_read(reader, &ret->report[i]);
    return rc;
}

static int reports_run_read(struct spotnik_reader *reader, uint32_t left,
                            struct spotnik_report *ret, uint32_t *ret_count)
{
    struct spotnik_report report = { .evidence = 0 };
    uint32_t count = spotnik_reader_u32(reader);

    report.evidence = spotnik_reader_u8(reader);
    report.leaving = spotnik_reader_u8(reader);
    report.promised = spotnik_reader_u8(reader);
    report.begun = spotnik_reader_u8(reader);
    report.bare = spotnik_reader_u8(reader);
    uint8_t ascending = spotnik_reader_u8(reader);
    bool good = spotnik_wire_zeros_read(reader, 6) && ascending <= 1 && count > 0 && count <= left;
    report.committed = spotnik_reader_u64(reader);
    report.share = spotnik_reader_u32(reader);
    report.share_count = spotnik_reader_u32(reader);
    report.apart = spotnik_reader_u64(reader);
    report.cut = spotnik_reader_u64(reader);
    good = good && (!ascending || count - 1 <= UINT32_MAX - 1 - report.share)
           && report_is_valid(&report);
    for (uint32_t i = 0; good && i < count; i++) {
        ret[i] = report;
        ret[i].share = report.share + (ascending ? i : 0);
    }
    good = good && report_is_valid(&ret[count - 1]);
    *ret_count = count;
    return good && !reader->failed ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

/* As they would be written: each run as long as it can be. `reader` stands before the first. */
static bool runs_are_longest(struct spotnik_reader reader, const struct spotnik_prepare *prepare)
{
    bool good = true, ascending;

    for (uint32_t at = 0, count; good && at < prepare->report_count; at += count) {
        count = spotnik_brief_reports(prepare->report + at, prepare->report_count - at, &ascending);
        good = spotnik_reader_u32(&reader) == count;
        for (int i = 0; i < 5; i++)
            spotnik_reader_u8(&reader);
        good = good && spotnik_reader_u8(&reader) == ascending;
        good = good && spotnik_wire_zeros_read(&reader, 6);
        for (int i = 0; i < 4; i++)
            spotnik_reader_u64(&reader);
    }
    return good;
}

static int prepare_runs_read(struct spotnik_reader *reader, uint32_t members_max,
                             struct spotnik_prepare *ret)
{
    uint32_t runs = spotnik_reader_u32(reader), at = 0;
    struct spotnik_reader first = *reader;
    int rc = count_check(reader, runs, members_max, SPOTNIK_WIRE_REPORTS_BYTES);

    if (rc == SPOTNIK_OK && ret->report_count > members_max)
        rc = SPOTNIK_ERR_LIMIT;
    for (uint32_t i = 0, count = 0; rc == SPOTNIK_OK && i < runs; i++, at += count)
        rc = reports_run_read(reader, ret->report_count - at, ret->report + at, &count);
    if (rc != SPOTNIK_OK)
        return rc;
    return at == ret->report_count && at > 0 && runs_are_longest(first, ret) ? SPOTNIK_OK
                                                                             : SPOTNIK_ERR_ARGUMENT;
}

static int joiners_read(struct spotnik_reader *reader, struct spotnik_prepare *ret)
{
    int rc = count_check(reader, ret->joiner_count, SPOTNIK_JOINERS_MAX, SPOTNIK_WIRE_ENTER_BYTES);

    for (uint32_t i = 0; rc == SPOTNIK_OK && i < ret->joiner_count; i++)
        rc = enter_read(reader, &ret->joiner[i]);
    return rc;
}

static int prepare_head_read(struct spotnik_reader *reader, struct spotnik_prepare *ret,
                             bool *ret_brief)
{
    ret->ballot = ballot_read(reader);
    ret->ledger_step = spotnik_reader_u64(reader);
    ret->accepted_ballot = ballot_read(reader);
    ret->report_count = spotnik_reader_u32(reader);
    ret->joiner_count = spotnik_reader_u32(reader);
    ret->parked = spotnik_reader_u8(reader);
    uint8_t brief = spotnik_reader_u8(reader);
    bool good = spotnik_wire_zeros_read(reader, 6) && brief <= 1;
    *ret_brief = brief == 1;
    return good && ret->parked <= 1 && ret->ballot.round ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

/* The accepted proposal, if there is one. Only a brief PREPARE has it packed. */
static int accepted_read(struct spotnik_reader *reader, uint32_t members_max, bool brief,
                         struct spotnik_prepare *ret)
{
    ret->accepted.entry_count = ret->accepted.ledger.returned_count =
        ret->accepted.ledger.deal_count = 0;
    if (!ret->accepted_ballot.round)
        return SPOTNIK_OK;
    int rc = proposal_read(reader, members_max, &ret->accepted);
    return rc == SPOTNIK_OK && ret->accepted.packed && !brief ? SPOTNIK_ERR_ARGUMENT : rc;
}

static int prepare_read(struct spotnik_reader *reader, uint32_t members_max,
                        struct spotnik_prepare *ret, bool *ret_brief)
{
    int rc = prepare_head_read(reader, ret, ret_brief);
    if (rc != SPOTNIK_OK)
        return rc;
    rc = *ret_brief ? prepare_runs_read(reader, members_max, ret)
                    : reports_read(reader, members_max, ret);
    if (rc == SPOTNIK_OK)
        rc = joiners_read(reader, ret);
    if (rc == SPOTNIK_OK)
        rc = ledger_read(reader, &ret->ledger);
    if (rc == SPOTNIK_OK)
        rc = accepted_read(reader, members_max, *ret_brief, ret);
    return rc;
}

static int ballot_only_read(struct spotnik_reader *reader, struct spotnik_message *message)
{
    message->ballot = ballot_read(reader);
    return message->ballot.round && !reader->failed ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static int ask_read(struct spotnik_reader *reader, uint32_t members_max,
                    struct spotnik_message *message)
{
    int rc = ballot_only_read(reader, message);
    uint32_t count = spotnik_reader_u32(reader);
    bool good = spotnik_wire_zeros_read(reader, 4);

    if (rc == SPOTNIK_OK)
        rc = count_check(reader, count, SPOTNIK_ENDED_MAX, SPOTNIK_WIRE_RANK_BYTES);
    if (rc != SPOTNIK_OK)
        return rc;
    message->ended.count = count;
    for (uint32_t i = 0; i < count; i++) {
        message->ended.rank[i] = spotnik_reader_u32(reader);
        good = good && message->ended.rank[i] < members_max;
    }
    return good ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static bool is_claim(const struct spotnik_digest_claim *digest)
{
    return digest->step != 0 || (digest->epoch == 0 && digest->value == 0 && !digest->tied);
}

/* A heartbeat that claims nothing is bare. */
static int digests_read(struct spotnik_reader *reader, struct spotnik_digest_claim *ret)
{
    bool good = true, any = false;
    for (int i = 0; i < SPOTNIK_MESSAGE_DIGESTS; i++) {
        ret[i].epoch = spotnik_reader_u64(reader);
        ret[i].step = spotnik_reader_u64(reader);
        ret[i].value = spotnik_reader_u64(reader);
        uint8_t tied = spotnik_reader_u8(reader);
        ret[i].tied = tied == 1;
        good = spotnik_wire_zeros_read(reader, 7) && tied <= 1 && is_claim(&ret[i]) && good;
        any |= ret[i].step != 0;
    }
    return good && any ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static bool held_read(struct spotnik_reader *reader, uint32_t bucket, struct spotnik_held *ret)
{
    ret->member = spotnik_reader_id(reader);
    ret->count = spotnik_reader_u64(reader);
    ret->has = spotnik_reader_u8(reader);
    ret->dtype = spotnik_reader_u8(reader);
    ret->op = spotnik_reader_u8(reader);
    bool bare = ret->dtype == 0 && ret->op == 0;

    if (!spotnik_wire_zeros_read(reader, 5) || ret->has > 1)
        return false;
    if (!ret->has)
        return bare && ret->count == 0;
    return bucket == SPOTNIK_MISMATCH_OF_NUMBER
               ? bare
               : spotnik_dtype_bytes(ret->dtype) > 0 && spotnik_op_is_known(ret->op);
}

static int mismatch_read(struct spotnik_reader *reader, struct spotnik_mismatch *ret)
{
    ret->step = spotnik_reader_u64(reader);
    ret->bucket = spotnik_reader_u32(reader);
    bool good = spotnik_wire_zeros_read(reader, 4) && ret->step > 0
                && ret->bucket <= SPOTNIK_MISMATCH_OF_NUMBER;

    for (int i = 0; i < 2; i++)
        good = held_read(reader, ret->bucket, &ret->held[i]) && good;
    return good ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
}

static int body_read(struct spotnik_reader *reader, struct spotnik_wire_storage *storage,
                     struct spotnik_message *message)
{
    int rc;

    switch (message->kind) {
    case SPOTNIK_MESSAGE_PREPARE:
    case SPOTNIK_MESSAGE_PROMISE:
        message->prepare = &storage->prepare;
        return prepare_read(reader, storage->members_max, &storage->prepare, &message->brief);
    case SPOTNIK_MESSAGE_ACCEPT:
    case SPOTNIK_MESSAGE_RESTART:
        message->proposal = &storage->proposal;
        rc = proposal_read(reader, storage->members_max, &storage->proposal);
        message->brief = rc == SPOTNIK_OK && storage->proposal.packed;
        return rc;
    case SPOTNIK_MESSAGE_ENTER:
        rc = enter_read(reader, &message->enter);
        message->unmet = spotnik_reader_id(reader);
        return rc;
    case SPOTNIK_MESSAGE_PAUSE_CHECK:
    case SPOTNIK_MESSAGE_PAUSE_ACK:
        message->serial = spotnik_reader_u64(reader);
        return message->serial ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT;
    case SPOTNIK_MESSAGE_MISMATCH:
        return mismatch_read(reader, &message->mismatch);
    case SPOTNIK_MESSAGE_ASK:
        return ask_read(reader, storage->members_max, message);
    case SPOTNIK_MESSAGE_ACCEPTED:
        return ballot_only_read(reader, message);
    case SPOTNIK_MESSAGE_HEARTBEAT:
        return spotnik_reader_is_done(reader) ? SPOTNIK_OK : digests_read(reader, message->digest);
    case SPOTNIK_MESSAGE_FENCED:
    case SPOTNIK_MESSAGE_VIEW_ASK:
        return SPOTNIK_OK;
    case SPOTNIK_MESSAGE_KIND_COUNT:
        break;
    }
    return SPOTNIK_ERR_ARGUMENT;
}

int spotnik_control_decode(const void *bytes, size_t size, struct spotnik_wire_storage *storage,
                           struct spotnik_message *ret_message)
{
    struct spotnik_message message = { .prepare = NULL };
    struct spotnik_reader reader;

    spotnik_reader_init(&reader, bytes, size);
    uint8_t kind = spotnik_reader_u8(&reader);
    bool good = spotnik_wire_zeros_read(&reader, 7);
    if (!good || kind == 0 || kind >= SPOTNIK_MESSAGE_KIND_COUNT)
        return SPOTNIK_ERR_ARGUMENT;
    message.kind = (enum spotnik_message_kind)kind;
    message.epoch = spotnik_reader_u64(&reader);
    message.committed = spotnik_reader_u64(&reader);
    int rc = body_read(&reader, storage, &message);
    if (rc == SPOTNIK_OK && !spotnik_reader_is_done(&reader))
        rc = SPOTNIK_ERR_ARGUMENT;
    if (rc == SPOTNIK_OK)
        *ret_message = message;
    return rc;
}
