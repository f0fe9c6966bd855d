/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages to bytes, how long they are and where decoded ones live; layouts in
 * docs/reference/wire-format.md. The way back is control_read.c. */
#include "wire/control.h"

#include <string.h>

#include "base/assert.h"
#include "base/bytes.h"
#include "member/brief.h"
#include "wire/fields.h"

/* Members of the old view that are told of the new one, and those of the new one. */
static size_t entries_max(uint32_t members_max)
{
    return 2 * (size_t)members_max + SPOTNIK_JOINERS_MAX;
}

size_t spotnik_wire_storage_size(const struct spotnik_limits *limits)
{
    size_t entries = entries_max(limits->members_max);

    return sizeof(struct spotnik_wire_storage) + 2 * entries * sizeof(struct spotnik_entry)
           + limits->members_max * sizeof(struct spotnik_report);
}

struct spotnik_wire_storage *spotnik_wire_storage_init(void *memory,
                                                       const struct spotnik_limits *limits)
{
    struct spotnik_wire_storage *storage = memory;
    uint32_t entries = (uint32_t)entries_max(limits->members_max);
    struct spotnik_entry *entry = (struct spotnik_entry *)(storage + 1);

    _Static_assert(sizeof(struct spotnik_wire_storage) % _Alignof(struct spotnik_entry) == 0,
                   "arrays follow");
    _Static_assert(_Alignof(struct spotnik_report) <= _Alignof(struct spotnik_entry),
                   "reports come last");
    memset(memory, 0, spotnik_wire_storage_size(limits));
    storage->members_max = limits->members_max;
    storage->proposal.entry_max = storage->prepare.accepted.entry_max = entries;
    storage->proposal.entry = entry;
    storage->prepare.accepted.entry = entry + entries;
    storage->prepare.report = (struct spotnik_report *)(entry + 2 * (size_t)entries);
    return storage;
}

static size_t ledger_size(const struct spotnik_ledger *ledger)
{
    return SPOTNIK_WIRE_LEDGER_BYTES + ledger->deal_count * (size_t)SPOTNIK_WIRE_DEAL_BYTES
           + ledger->returned_count * (size_t)SPOTNIK_WIRE_RANGE_BYTES;
}

static bool is_brief(const struct spotnik_message *message, const struct spotnik_proposal *proposal)
{
    return message->brief && proposal->brief.run_count > 0;
}

static uint32_t strangers_of(const struct spotnik_brief *brief)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < brief->run_count; i++)
        count += brief->run[i].rank == SPOTNIK_NO_RANK ? brief->run[i].count : 0;
    return count;
}

static size_t entries_size(const struct spotnik_message *message,
                           const struct spotnik_proposal *proposal)
{
    if (!is_brief(message, proposal))
        return proposal->entry_count * (size_t)SPOTNIK_WIRE_ENTRY_BYTES;
    return SPOTNIK_WIRE_BRIEF_BYTES + proposal->brief.run_count * (size_t)SPOTNIK_WIRE_RUN_BYTES
           + strangers_of(&proposal->brief) * (size_t)SPOTNIK_WIRE_MEMBER_BYTES;
}

static size_t proposal_size(const struct spotnik_message *message,
                            const struct spotnik_proposal *proposal)
{
    return SPOTNIK_WIRE_PROPOSAL_BYTES + ledger_size(&proposal->ledger)
           + entries_size(message, proposal) + SPOTNIK_WIRE_FOUNDING_BYTES;
}

static size_t reports_size(const struct spotnik_message *message)
{
    const struct spotnik_prepare *prepare = message->prepare;
    size_t size = 4;
    bool ascending;

    if (!message->brief)
        return prepare->report_count * (size_t)SPOTNIK_WIRE_REPORT_BYTES;
    for (uint32_t at = 0; at < prepare->report_count; size += SPOTNIK_WIRE_REPORTS_BYTES)
        at += spotnik_brief_reports(prepare->report + at, prepare->report_count - at, &ascending);
    return size;
}

/* Cuts follow where a member misses a path. */
static size_t prepare_size(const struct spotnik_message *message)
{
    const struct spotnik_prepare *prepare = message->prepare;
    size_t size = SPOTNIK_WIRE_TOKEN_BYTES + reports_size(message)
                  + prepare->joiner_count * (size_t)SPOTNIK_WIRE_ENTER_BYTES
                  + ledger_size(&prepare->ledger);

    return prepare->accepted_ballot.round ? size + proposal_size(message, &prepare->accepted)
                                          : size;
}

uint32_t spotnik_control_bytes_max(const struct spotnik_limits *limits)
{
    uint64_t members = limits->members_max, entries = entries_max(limits->members_max);
    uint64_t runs = entries < SPOTNIK_RUNS_MAX ? entries : SPOTNIK_RUNS_MAX;
    uint64_t whole = entries * SPOTNIK_WIRE_ENTRY_BYTES;
    uint64_t brief = SPOTNIK_WIRE_BRIEF_BYTES + runs * SPOTNIK_WIRE_RUN_BYTES
                     + entries * SPOTNIK_WIRE_MEMBER_BYTES;
    uint64_t ledger = SPOTNIK_WIRE_LEDGER_BYTES
                      + (uint64_t)SPOTNIK_LEDGER_DEAL_MAX * SPOTNIK_WIRE_DEAL_BYTES
                      + (uint64_t)SPOTNIK_LEDGER_RETURNED_MAX * SPOTNIK_WIRE_RANGE_BYTES;
    uint64_t proposal = SPOTNIK_WIRE_PROPOSAL_BYTES + ledger + (whole > brief ? whole : brief)
                        + SPOTNIK_WIRE_FOUNDING_BYTES;
    uint64_t prepare = SPOTNIK_WIRE_TOKEN_BYTES + 4 + members * SPOTNIK_WIRE_REPORTS_BYTES
                       + (uint64_t)SPOTNIK_JOINERS_MAX * SPOTNIK_WIRE_ENTER_BYTES + ledger;
    uint64_t bytes = SPOTNIK_WIRE_HEAD_BYTES + prepare + proposal;

    return bytes < UINT32_MAX ? (uint32_t)bytes : UINT32_MAX;
}

/* A heartbeat that claims nothing is bare. */
static size_t digests_size(const struct spotnik_digest_claim *digest)
{
    for (int i = 0; i < SPOTNIK_MESSAGE_DIGESTS; i++)
        if (digest[i].step != 0)
            return SPOTNIK_MESSAGE_DIGESTS * SPOTNIK_WIRE_DIGEST_BYTES;
    return 0;
}

size_t spotnik_control_size(const struct spotnik_message *message)
{
    switch (message->kind) {
    case SPOTNIK_MESSAGE_PREPARE:
    case SPOTNIK_MESSAGE_PROMISE:
        return SPOTNIK_WIRE_HEAD_BYTES + prepare_size(message);
    case SPOTNIK_MESSAGE_ACCEPT:
    case SPOTNIK_MESSAGE_RESTART:
        return SPOTNIK_WIRE_HEAD_BYTES + proposal_size(message, message->proposal);
    case SPOTNIK_MESSAGE_ENTER:
        return SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_ENTER_BYTES + SPOTNIK_WIRE_ID_BYTES;
    case SPOTNIK_MESSAGE_PAUSE_CHECK:
    case SPOTNIK_MESSAGE_PAUSE_ACK:
        return SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_SERIAL_BYTES;
    case SPOTNIK_MESSAGE_MISMATCH:
        return SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_MISMATCH_BYTES;
    case SPOTNIK_MESSAGE_ASK:
        return SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_BALLOT_BYTES + SPOTNIK_WIRE_ENDED_BYTES
               + message->ended.count * (size_t)SPOTNIK_WIRE_RANK_BYTES;
    case SPOTNIK_MESSAGE_ACCEPTED:
        return SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_BALLOT_BYTES;
    case SPOTNIK_MESSAGE_HEARTBEAT:
        return SPOTNIK_WIRE_HEAD_BYTES + digests_size(message->digest);
    case SPOTNIK_MESSAGE_FENCED:
    case SPOTNIK_MESSAGE_VIEW_ASK:
    case SPOTNIK_MESSAGE_KIND_COUNT:
        break;
    }
    return SPOTNIK_WIRE_HEAD_BYTES;
}

static void ballot_write(struct spotnik_writer *writer, const struct spotnik_ballot *ballot)
{
    spotnik_writer_u64(writer, ballot->round);
    spotnik_writer_id(writer, ballot->initiator);
}

static void mismatch_write(struct spotnik_writer *writer, const struct spotnik_mismatch *mismatch)
{
    spotnik_writer_u64(writer, mismatch->step);
    spotnik_writer_u32(writer, mismatch->bucket);
    spotnik_writer_skip(writer, 4);
    for (int i = 0; i < 2; i++) {
        spotnik_writer_id(writer, mismatch->held[i].member);
        spotnik_writer_u64(writer, mismatch->held[i].count);
        spotnik_writer_u8(writer, mismatch->held[i].has);
        spotnik_writer_u8(writer, mismatch->held[i].dtype);
        spotnik_writer_u8(writer, mismatch->held[i].op);
        spotnik_writer_skip(writer, 5);
    }
}

static void enter_write(struct spotnik_writer *writer, const struct spotnik_enter *enter)
{
    spotnik_wire_member_write(writer, &enter->member);
    spotnik_writer_u64(writer, enter->committed);
}

static void asking_write(struct spotnik_writer *writer, const struct spotnik_message *message)
{
    enter_write(writer, &message->enter);
    spotnik_writer_id(writer, message->unmet);
}

static void report_write(struct spotnik_writer *writer, const struct spotnik_report *report)
{
    spotnik_writer_u8(writer, report->evidence);
    spotnik_writer_u8(writer, report->leaving);
    spotnik_writer_u8(writer, report->promised);
    spotnik_writer_u8(writer, report->begun);
    spotnik_writer_u8(writer, report->bare);
    spotnik_writer_skip(writer, 3);
    spotnik_writer_u64(writer, report->committed);
    spotnik_writer_u32(writer, report->share);
    spotnik_writer_u32(writer, report->share_count);
    spotnik_writer_u64(writer, report->apart);
    spotnik_writer_u64(writer, report->cut);
}

static void ledger_write(struct spotnik_writer *writer, const struct spotnik_ledger *ledger)
{
    spotnik_writer_u64(writer, ledger->samples);
    spotnik_writer_u64(writer, ledger->batch);
    spotnik_writer_u64(writer, ledger->data_epoch);
    spotnik_writer_u64(writer, ledger->cursor);
    spotnik_writer_u32(writer, ledger->returned_count);
    spotnik_writer_u8(writer, ledger->per_member);
    spotnik_writer_skip(writer, 3);
    spotnik_writer_u32(writer, ledger->deal_count);
    spotnik_writer_skip(writer, 4);
    for (uint32_t i = 0; i < ledger->deal_count; i++)
        spotnik_writer_u32(writer, ledger->deal[i]);
    for (uint32_t i = 0; i < ledger->returned_count; i++) {
        spotnik_writer_u64(writer, ledger->returned[i].begin);
        spotnik_writer_u64(writer, ledger->returned[i].end);
    }
}

static void entry_write(struct spotnik_writer *writer, const struct spotnik_entry *entry)
{
    spotnik_wire_member_write(writer, &entry->member);
    spotnik_writer_u32(writer, entry->flags);
    spotnik_writer_u32(writer, entry->share);
}

/* Runs, and the members of those that are new. A proposal that is still packed has no others. */
static void brief_write(struct spotnik_writer *writer, const struct spotnik_proposal *proposal)
{
    const struct spotnik_brief *brief = &proposal->brief;
    uint32_t at = 0;

    spotnik_writer_u32(writer, brief->run_count);
    spotnik_writer_skip(writer, 4);
    for (uint32_t i = 0; i < brief->run_count; i++) {
        spotnik_writer_u32(writer, brief->run[i].rank);
        spotnik_writer_u32(writer, brief->run[i].count);
        spotnik_writer_u32(writer, brief->run[i].flags);
        spotnik_writer_u32(writer, brief->run[i].share);
    }
    for (uint32_t i = 0; i < brief->run_count; i++) {
        bool strange = brief->run[i].rank == SPOTNIK_NO_RANK;
        for (uint32_t k = 0; strange && k < brief->run[i].count; k++)
            spotnik_wire_member_write(writer, &proposal->entry[at + k].member);
        at += strange || !proposal->packed ? brief->run[i].count : 0;
    }
}

static void proposal_write(struct spotnik_writer *writer, const struct spotnik_message *message,
                           const struct spotnik_proposal *proposal)
{
    spotnik_writer_u64(writer, proposal->epoch);
    spotnik_writer_u64(writer, proposal->settled_step);
    ballot_write(writer, &proposal->ballot);
    spotnik_writer_u32(writer, proposal->share_count);
    spotnik_writer_u32(writer, proposal->entry_count);
    spotnik_writer_u8(writer, proposal->flat);
    spotnik_writer_u8(writer, is_brief(message, proposal));
    spotnik_writer_skip(writer, 6);
    ledger_write(writer, &proposal->ledger);
    if (is_brief(message, proposal))
        brief_write(writer, proposal);
    for (uint32_t i = 0; i < proposal->entry_count && !is_brief(message, proposal); i++)
        entry_write(writer, &proposal->entry[i]);
    spotnik_wire_founding_write(writer, &proposal->founding);
}

static void reports_write(struct spotnik_writer *writer, const struct spotnik_report *report,
                          uint32_t count, bool ascending)
{
    spotnik_writer_u32(writer, count);
    spotnik_writer_u8(writer, report->evidence);
    spotnik_writer_u8(writer, report->leaving);
    spotnik_writer_u8(writer, report->promised);
    spotnik_writer_u8(writer, report->begun);
    spotnik_writer_u8(writer, report->bare);
    spotnik_writer_u8(writer, ascending);
    spotnik_writer_skip(writer, 6);
    spotnik_writer_u64(writer, report->committed);
    spotnik_writer_u32(writer, report->share);
    spotnik_writer_u32(writer, report->share_count);
    spotnik_writer_u64(writer, report->apart);
    spotnik_writer_u64(writer, report->cut);
}

static void prepare_runs_write(struct spotnik_writer *writer, const struct spotnik_prepare *prepare)
{
    uint32_t runs = 0;
    bool ascending;

    for (uint32_t at = 0; at < prepare->report_count; runs++)
        at += spotnik_brief_reports(prepare->report + at, prepare->report_count - at, &ascending);
    spotnik_writer_u32(writer, runs);
    for (uint32_t at = 0, count; at < prepare->report_count; at += count) {
        count = spotnik_brief_reports(prepare->report + at, prepare->report_count - at, &ascending);
        reports_write(writer, prepare->report + at, count, ascending);
    }
}

static void prepare_write(struct spotnik_writer *writer, const struct spotnik_message *message)
{
    const struct spotnik_prepare *prepare = message->prepare;

    ballot_write(writer, &prepare->ballot);
    spotnik_writer_u64(writer, prepare->ledger_step);
    ballot_write(writer, &prepare->accepted_ballot);
    spotnik_writer_u32(writer, prepare->report_count);
    spotnik_writer_u32(writer, prepare->joiner_count);
    spotnik_writer_u8(writer, prepare->parked);
    spotnik_writer_u8(writer, message->brief);
    spotnik_writer_skip(writer, 6);
    if (message->brief)
        prepare_runs_write(writer, prepare);
    for (uint32_t i = 0; i < prepare->report_count && !message->brief; i++)
        report_write(writer, &prepare->report[i]);
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        enter_write(writer, &prepare->joiner[i]);
    ledger_write(writer, &prepare->ledger);
    if (prepare->accepted_ballot.round)
        proposal_write(writer, message, &prepare->accepted);
}

static void ended_write(struct spotnik_writer *writer, const struct spotnik_ended *ended)
{
    spotnik_writer_u32(writer, ended->count);
    spotnik_writer_skip(writer, 4);
    for (uint32_t i = 0; i < ended->count; i++)
        spotnik_writer_u32(writer, ended->rank[i]);
}

static void digests_write(struct spotnik_writer *writer, const struct spotnik_digest_claim *digest)
{
    for (int i = 0; i < SPOTNIK_MESSAGE_DIGESTS && digests_size(digest) > 0; i++) {
        spotnik_writer_u64(writer, digest[i].epoch);
        spotnik_writer_u64(writer, digest[i].step);
        spotnik_writer_u64(writer, digest[i].value);
        spotnik_writer_u8(writer, digest[i].tied);
        spotnik_writer_skip(writer, 7);
    }
}

size_t spotnik_control_encode(const struct spotnik_message *message, void *bytes, size_t size)
{
    struct spotnik_writer writer;

    SPOTNIK_ASSERT(message->kind >= SPOTNIK_MESSAGE_HEARTBEAT
                   && message->kind < SPOTNIK_MESSAGE_KIND_COUNT);
    spotnik_writer_init(&writer, bytes, size);
    spotnik_writer_u8(&writer, (uint8_t)message->kind);
    spotnik_writer_skip(&writer, 7);
    spotnik_writer_u64(&writer, message->epoch);
    spotnik_writer_u64(&writer, message->committed);
    if (message->kind == SPOTNIK_MESSAGE_HEARTBEAT)
        digests_write(&writer, message->digest);
    if (message->kind == SPOTNIK_MESSAGE_PREPARE || message->kind == SPOTNIK_MESSAGE_PROMISE)
        prepare_write(&writer, message);
    if (message->kind == SPOTNIK_MESSAGE_ASK || message->kind == SPOTNIK_MESSAGE_ACCEPTED)
        ballot_write(&writer, &message->ballot);
    if (message->kind == SPOTNIK_MESSAGE_ASK)
        ended_write(&writer, &message->ended);
    if (message->kind == SPOTNIK_MESSAGE_ACCEPT || message->kind == SPOTNIK_MESSAGE_RESTART)
        proposal_write(&writer, message, message->proposal);
    if (message->kind == SPOTNIK_MESSAGE_ENTER)
        asking_write(&writer, message);
    if (message->kind == SPOTNIK_MESSAGE_PAUSE_CHECK || message->kind == SPOTNIK_MESSAGE_PAUSE_ACK)
        spotnik_writer_u64(&writer, message->serial);
    if (message->kind == SPOTNIK_MESSAGE_MISMATCH)
        mismatch_write(&writer, &message->mismatch);
    return writer.failed ? 0 : writer.at;
}
