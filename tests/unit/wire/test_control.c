/* SPDX-License-Identifier: Apache-2.0 */
/* Control messages: what is written is read; what is cut, lengthened, altered or made up is
 * refused, or is another valid message. The encoding is canonical, so "valid" has a sharp test:
 * encoding it again gives the same bytes. */
#include "wire/control.h"

#include <stdlib.h>
#include <string.h>

#include "sample.h"
#include "wire/fields.h"
#include "tests.h"

#define BYTES_MAX 65536

/* Decoding has no threads, so the thread sanitizer has nothing to find here, and is thirty times
 * slower: every ninth bit there. */
#if defined __SANITIZE_THREAD__
#define BIT_STEP 9
#else
#define BIT_STEP 1
#endif

struct fixture {
    struct spotnik_limits limits;
    struct spotnik_wire_storage *drawn, *decoded;
    struct spotnik_prng prng;
    uint8_t *bytes; /* BYTES_MAX */
    size_t size;
};

static void message_draw(struct fixture *f, enum spotnik_message_kind kind,
                         struct spotnik_message *ret)
{
    *ret = spotnik_sample_message(&f->prng, kind, f->drawn);
    f->size = spotnik_control_encode(ret, f->bytes, BYTES_MAX);
    assert_true(f->size > 0);
}

/* Out of a block of exactly this size, so that the address sanitizer sees a step beyond its end. */
static int decode(struct fixture *f, const uint8_t *bytes, size_t size, struct spotnik_message *ret)
{
    uint8_t *block = malloc(size + 1);

    assert_non_null(block);
    memcpy(block + 1, bytes, size);
    int rc = spotnik_control_decode(block + 1, size, f->decoded, ret);
    free(block);
    return rc;
}

static void assert_refused(struct fixture *f, const uint8_t *bytes, size_t size, int expected)
{
    struct spotnik_message message = { .kind = SPOTNIK_MESSAGE_KIND_COUNT, .epoch = 77 };

    assert_int_equal(decode(f, bytes, size, &message), expected);
    assert_int_equal(message.kind, SPOTNIK_MESSAGE_KIND_COUNT);
    assert_int_equal(message.epoch, 77);
}

static void assert_refused_or_canonical(struct fixture *f, const uint8_t *bytes, size_t size)
{
    static uint8_t again[BYTES_MAX];
    struct spotnik_message message;
    int rc = decode(f, bytes, size, &message);

    if (rc != SPOTNIK_OK) {
        assert_true(rc == SPOTNIK_ERR_ARGUMENT || rc == SPOTNIK_ERR_LIMIT);
        return;
    }
    assert_int_equal(spotnik_control_encode(&message, again, sizeof again), size);
    assert_memory_equal(again, bytes, size);
}

TEST(every_kind_goes_there_and_back)
{
    struct fixture *f = *state;

    for (int kind = 1; kind < SPOTNIK_MESSAGE_KIND_COUNT; kind++)
        for (uint32_t i = 0; i < 200; i++) {
            struct spotnik_message drawn, decoded;
            message_draw(f, (enum spotnik_message_kind)kind, &drawn);
            assert_int_equal(f->size, spotnik_control_size(&drawn));
            assert_true(f->size <= spotnik_control_bytes_max(&f->limits));
            assert_int_equal(decode(f, f->bytes, f->size, &decoded), SPOTNIK_OK);
            assert_true(spotnik_sample_equal(&drawn, &decoded));
        }
}

TEST(every_truncation_is_refused)
{
    struct fixture *f = *state;

    for (int kind = 1; kind < SPOTNIK_MESSAGE_KIND_COUNT; kind++)
        for (uint32_t i = 0; i < 4; i++) {
            struct spotnik_message drawn;
            message_draw(f, (enum spotnik_message_kind)kind, &drawn);
            for (size_t size = 0; size < f->size; size++)
                /* that is one without claims */
                if (kind != SPOTNIK_MESSAGE_HEARTBEAT || size != SPOTNIK_WIRE_HEAD_BYTES)
                    assert_refused(f, f->bytes, size, SPOTNIK_ERR_ARGUMENT);
        }
}

TEST(bytes_left_over_are_refused)
{
    struct fixture *f = *state;

    for (int kind = 1; kind < SPOTNIK_MESSAGE_KIND_COUNT; kind++) {
        struct spotnik_message drawn;
        message_draw(f, (enum spotnik_message_kind)kind, &drawn);
        f->bytes[f->size] = 0;
        assert_refused(f, f->bytes, f->size + 1, SPOTNIK_ERR_ARGUMENT);
    }
}

TEST(encoding_stays_inside_its_room)
{
    struct fixture *f = *state;

    for (int kind = 1; kind < SPOTNIK_MESSAGE_KIND_COUNT; kind++) {
        struct spotnik_message drawn;
        message_draw(f, (enum spotnik_message_kind)kind, &drawn);
        size_t size = f->size;
        uint8_t *room = malloc(size);
        assert_non_null(room);
        assert_int_equal(spotnik_control_encode(&drawn, room, size - 1), 0);
        assert_int_equal(spotnik_control_encode(&drawn, room, size), size);
        free(room);
    }
}

TEST(every_flipped_bit_is_refused_or_means_itself)
{
    struct fixture *f = *state;

    for (int kind = 1; kind < SPOTNIK_MESSAGE_KIND_COUNT; kind++)
        for (uint32_t i = 0; i < 3; i++) {
            struct spotnik_message drawn;
            message_draw(f, (enum spotnik_message_kind)kind, &drawn);
            for (size_t bit = 0; bit < 8 * f->size; bit += BIT_STEP) {
                f->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
                assert_refused_or_canonical(f, f->bytes, f->size);
                f->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
            }
        }
}

TEST(garbage_is_refused_or_means_itself)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < 20000; i++) {
        size_t size = spotnik_prng_below(&f->prng, 400);
        for (size_t k = 0; k < size; k++)
            f->bytes[k] =
                spotnik_prng_chance(&f->prng, 1, 3) ? (uint8_t)spotnik_prng_next(&f->prng) : 0;
        if (size > 8 && i % 2) {
            memset(f->bytes, 0, 8);
            f->bytes[0] = (uint8_t)(1 + i / 2 % 7);
        }
        assert_refused_or_canonical(f, f->bytes, size);
    }
}

TEST(garbage_inside_a_message_is_refused_or_means_itself)
{
    struct fixture *f = *state;

    for (uint32_t i = 0; i < 5000; i++) {
        struct spotnik_message drawn;
        message_draw(f, i % 2 ? SPOTNIK_MESSAGE_PREPARE : SPOTNIK_MESSAGE_ACCEPT, &drawn);
        for (uint32_t k = 0; k <= i % 4; k++)
            f->bytes[spotnik_prng_below(&f->prng, f->size)] = (uint8_t)spotnik_prng_next(&f->prng);
        assert_refused_or_canonical(f, f->bytes, f->size);
    }
}

/* A valid message, as a base for single faults. */
static struct spotnik_message small_accept(struct fixture *f)
{
    struct spotnik_message message =
        spotnik_sample_message(&f->prng, SPOTNIK_MESSAGE_ACCEPT, f->drawn);
    struct spotnik_proposal *proposal = message.proposal;

    message.brief = proposal->packed = false;
    proposal->brief.run_count = 0;
    proposal->founding.id = 0;
    proposal->share_count = 3;
    proposal->flat = true;
    proposal->entry_count = 2;
    for (uint32_t i = 0; i < 2; i++)
        proposal->entry[i] =
            (struct spotnik_entry){ spotnik_sample_member(&f->prng), SPOTNIK_ENTRY_MEMBER, i };
    spotnik_ledger_init(&proposal->ledger, 100, 10);
    proposal->ledger.cursor = 50;
    proposal->ledger.returned_count = 2;
    proposal->ledger.returned[0] = (struct spotnik_range){ 10, 15 };
    proposal->ledger.returned[1] = (struct spotnik_range){ 20, 25 };
    proposal->ledger.deal_count = 2;
    proposal->ledger.deal[0] = 7;
    proposal->ledger.deal[1] = 3;
    return message;
}

static struct spotnik_message small_prepare(struct fixture *f)
{
    struct spotnik_message message =
        spotnik_sample_message(&f->prng, SPOTNIK_MESSAGE_PREPARE, f->drawn);

    message.brief = false;
    message.prepare->report_count = 2;
    message.prepare->joiner_count = 1;
    /* the sample may hold none */
    message.prepare->joiner[0] = (struct spotnik_enter){ spotnik_sample_member(&f->prng), 5 };
    message.prepare->accepted_ballot.round = 0;
    memset(message.prepare->report, 0, 2 * sizeof message.prepare->report[0]);
    spotnik_ledger_init(&message.prepare->ledger, 0, 0);
    return message;
}

static void assert_verdict(struct fixture *f, const struct spotnik_message *message, int expected)
{
    struct spotnik_message decoded;

    f->size = spotnik_control_encode(message, f->bytes, BYTES_MAX);
    assert_true(f->size > 0);
    if (expected == SPOTNIK_OK)
        assert_int_equal(decode(f, f->bytes, f->size, &decoded), SPOTNIK_OK);
    else
        assert_refused(f, f->bytes, f->size, expected);
}

static uint64_t at(const struct fixture *f, size_t offset, size_t size)
{
    uint64_t value = 0;

    for (size_t i = 0; i < size; i++)
        value |= (uint64_t)f->bytes[offset + i] << (8 * i);
    return value;
}

/* Offsets as docs/reference/wire-format.md has them. */
TEST(proposals_lie_as_documented)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_accept(f);
    const struct spotnik_proposal *proposal = message.proposal;

    assert_int_equal(spotnik_control_encode(&message, f->bytes, BYTES_MAX),
                     24 + 56 + 48 + 2 * 4 + 2 * 16 + 2 * 56 + 32);
    assert_int_equal(at(f, 0, 8), 3);
    assert_int_equal(at(f, 8, 8), message.epoch);
    assert_int_equal(at(f, 16, 8), message.committed);
    assert_int_equal(at(f, 24, 8), proposal->epoch);
    assert_int_equal(at(f, 32, 8), proposal->settled_step);
    assert_int_equal(at(f, 40, 8), proposal->ballot.round);
    assert_int_equal(at(f, 48, 8), proposal->ballot.initiator.high);
    assert_int_equal(at(f, 56, 8), proposal->ballot.initiator.low);
    assert_int_equal(at(f, 64, 4), 3);
    assert_int_equal(at(f, 68, 4), 2);
    assert_int_equal(at(f, 72, 8), 1);   /* flat */
    assert_int_equal(at(f, 80, 8), 100); /* samples */
    assert_int_equal(at(f, 88, 8), 10);  /* batch */
    assert_int_equal(at(f, 104, 8), 50); /* cursor */
    assert_int_equal(at(f, 112, 4), 2);  /* ranges */
    assert_int_equal(at(f, 120, 8), 2);  /* weights */
    assert_int_equal(at(f, 128, 4), 7);
    assert_int_equal(at(f, 132, 4), 3);
    assert_int_equal(at(f, 152, 8), 20); /* begin of the second */
    assert_int_equal(at(f, 224, 8), proposal->entry[1].member.id.high);
    assert_int_equal(at(f, 240, 8), proposal->entry[1].member.host);
    assert_int_equal(at(f, 264, 2), proposal->entry[1].member.port);
    assert_int_equal(at(f, 272, 4), 1); /* flags */
    assert_int_equal(at(f, 276, 4), 1); /* share */
    message.proposal->founding = (struct spotnik_founding){ 5, 6, 7, 8 };
    assert_int_equal(spotnik_control_encode(&message, f->bytes, BYTES_MAX),
                     24 + 56 + 48 + 2 * 4 + 2 * 16 + 2 * 56 + 32);
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(at(f, 280 + 8 * i, 8), 5 + i);
}

TEST(prepares_lie_as_documented)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_prepare(f);
    struct spotnik_prepare *prepare = message.prepare;

    prepare->parked = 1;
    prepare->report[1] = (struct spotnik_report){ .evidence = 3,
                                                  .leaving = 1,
                                                  .begun = 1,
                                                  .bare = 1,
                                                  .committed = 99,
                                                  .share = 2,
                                                  .share_count = 5,
                                                  .cut = 1u << 21,
                                                  .apart = 1u << 20 };
    assert_int_equal(spotnik_control_encode(&message, f->bytes, BYTES_MAX),
                     24 + 72 + 2 * 40 + 56 + 48);
    assert_int_equal(at(f, 24, 8), prepare->ballot.round);
    assert_int_equal(at(f, 48, 8), prepare->ledger_step);
    assert_int_equal(at(f, 56, 8), 0); /* nothing accepted */
    assert_int_equal(at(f, 80, 4), 2);
    assert_int_equal(at(f, 84, 4), 1);
    assert_int_equal(at(f, 88, 8), 1); /* parked */
    assert_int_equal(at(f, 136, 8), 0x0101000103);
    assert_int_equal(at(f, 144, 8), 99);
    assert_int_equal(at(f, 152, 4), 2);
    assert_int_equal(at(f, 156, 4), 5);
    assert_int_equal(at(f, 160, 8), 1u << 20);
    assert_int_equal(at(f, 168, 8), 1u << 21);
    assert_int_equal(at(f, 176, 8), prepare->joiner[0].member.id.high);
    assert_int_equal(at(f, 224, 8), prepare->joiner[0].committed);
}

/* Set a field for one try, restore it after. */
#define WITH(message, field, value, expected)                                                      \
    do {                                                                                           \
        __typeof__(field) kept_ = (field);                                                         \
        (field) = (value);                                                                         \
        assert_verdict(f, &(message), (expected));                                                 \
        (field) = kept_;                                                                           \
        assert_verdict(f, &(message), SPOTNIK_OK);                                                 \
    } while (0)

TEST(impossible_proposals_are_refused)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_accept(f);
    struct spotnik_proposal *proposal = message.proposal;

    WITH(message, proposal->epoch, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->share_count, 1, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->share_count, f->limits.members_max, SPOTNIK_OK);
    WITH(message, proposal->share_count, f->limits.members_max + 1, SPOTNIK_ERR_LIMIT);
    WITH(message, proposal->entry[1].share, 3, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->entry[1].share, SPOTNIK_NO_SHARE, SPOTNIK_OK);
    WITH(message, proposal->entry[1].share, SPOTNIK_NO_SHARE - 1, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->entry[0].flags, 15, SPOTNIK_OK);
    WITH(message, proposal->entry[0].flags, 32, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->entry[0].flags, 1u << 31, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->entry[0].member.port, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->entry[0].member.id, ((struct spotnik_id){ 0, 0 }),
         SPOTNIK_ERR_ARGUMENT);
    WITH(message, proposal->entry_count, 0, SPOTNIK_OK);
}

TEST(impossible_ledgers_are_refused)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_accept(f);
    struct spotnik_ledger *ledger = &message.proposal->ledger;

    WITH(message, ledger->batch, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->batch, 9, SPOTNIK_OK); /* ten have returned: more than a batch may wait */
    ledger->per_member = true;
    WITH(message, ledger->batch, 9, SPOTNIK_OK);
    WITH(message, ledger->batch, SPOTNIK_LEDGER_PER_MEMBER_MAX + 1, SPOTNIK_ERR_ARGUMENT);
    ledger->per_member = false;
    ledger->batch = 100;
    WITH(message, ledger->cursor, 101, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->cursor, 24, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->cursor, 25, SPOTNIK_OK);
    WITH(message, ledger->samples, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->returned[0].end, 10, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->returned[0].end, 9, SPOTNIK_ERR_ARGUMENT);
    /* is one range with the first */
    WITH(message, ledger->returned[1].begin, 15, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->returned[1].begin, 14, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->returned[1].end, UINT64_MAX, SPOTNIK_ERR_ARGUMENT);
    WITH(message, ledger->deal[0], UINT32_MAX - 3, SPOTNIK_OK);
    WITH(message, ledger->deal[0], UINT32_MAX - 2, SPOTNIK_ERR_ARGUMENT); /* the sum is too large */
    ledger->deal[1] = 0;
    WITH(message, ledger->deal[0], 0, SPOTNIK_ERR_ARGUMENT); /* nobody gets anything */
}

TEST(impossible_tokens_are_refused)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_prepare(f);
    struct spotnik_prepare *prepare = message.prepare;

    WITH(message, prepare->ballot.round, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->parked, 2, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->report_count, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->report[1].evidence, SPOTNIK_EVIDENCE_GONE, SPOTNIK_OK);
    WITH(message, prepare->report[1].evidence, SPOTNIK_EVIDENCE_GONE + 1, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->report[1].leaving, 2, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->report[1].promised, 2, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->report[1].begun, 2, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->joiner[0].member.port, 0, SPOTNIK_ERR_ARGUMENT);
    WITH(message, prepare->joiner[0].member.id, ((struct spotnik_id){ 0, 0 }),
         SPOTNIK_ERR_ARGUMENT);
}

/* Written under wider limits than those of the reader. */
TEST(what_exceeds_the_limits_is_refused)
{
    struct fixture *f = *state;
    struct spotnik_limits wide = { .members_max = f->limits.members_max + 1, .chunk_bytes = 4096 };
    struct spotnik_wire_storage *kept = f->drawn;
    /* reports that the sample does not fill are sent too */
    void *memory = calloc(1, spotnik_wire_storage_size(&wide));

    assert_non_null(memory);
    f->drawn = spotnik_wire_storage_init(memory, &wide);
    struct spotnik_message message = small_prepare(f);
    WITH(message, message.prepare->report_count, f->limits.members_max, SPOTNIK_OK);
    WITH(message, message.prepare->report_count, f->limits.members_max + 1, SPOTNIK_ERR_LIMIT);

    message = small_accept(f);
    for (uint32_t i = 0; i < message.proposal->entry_max; i++)
        message.proposal->entry[i] =
            (struct spotnik_entry){ spotnik_sample_member(&f->prng), SPOTNIK_ENTRY_VOTER,
                                    SPOTNIK_NO_SHARE };
    WITH(message, message.proposal->entry_count, f->decoded->proposal.entry_max, SPOTNIK_OK);
    WITH(message, message.proposal->entry_count, f->decoded->proposal.entry_max + 1,
         SPOTNIK_ERR_LIMIT);
    for (uint32_t i = 0; i < f->limits.members_max + 1; i++)
        message.proposal->entry[i].flags = SPOTNIK_ENTRY_MEMBER;
    WITH(message, message.proposal->entry_count, f->limits.members_max, SPOTNIK_OK);
    WITH(message, message.proposal->entry_count, f->limits.members_max + 1, SPOTNIK_ERR_LIMIT);
    free(memory);
    f->drawn = kept;
}

/* Counts that promise more than the bytes hold never reach a loop, and those beyond fixed arrays
 * never a write. */
TEST(counts_are_held_against_bytes_and_arrays)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_prepare(f);
    size_t counts = SPOTNIK_WIRE_HEAD_BYTES + 2 * SPOTNIK_WIRE_BALLOT_BYTES + 8;

    f->size = spotnik_control_encode(&message, f->bytes, BYTES_MAX);
    memset(f->bytes + counts, 0xff, 4); /* reports */
    assert_refused(f, f->bytes, f->size, SPOTNIK_ERR_ARGUMENT);
    f->size = spotnik_control_encode(&message, f->bytes, BYTES_MAX);
    memset(f->bytes + f->size, 0, 100 * SPOTNIK_WIRE_ENTER_BYTES);
    f->bytes[counts + 4] = SPOTNIK_JOINERS_MAX + 1;
    assert_refused(f, f->bytes, f->size + 100 * SPOTNIK_WIRE_ENTER_BYTES, SPOTNIK_ERR_LIMIT);

    message = small_accept(f);
    counts = SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_PROPOSAL_BYTES + 32;
    f->size = spotnik_control_encode(&message, f->bytes, BYTES_MAX);
    memset(f->bytes + f->size, 0, 20000);
    f->bytes[counts] = 1;
    f->bytes[counts + 1] = 4; /* 1025 ranges */
    assert_refused(f, f->bytes, f->size + 20000, SPOTNIK_ERR_LIMIT);
    assert_refused(f, f->bytes, f->size, SPOTNIK_ERR_ARGUMENT);
}

/* Claim: runs must add up, stay within the shares, and stand in no message that is not brief; and
 * those of a token are as long as they can be. */
TEST(impossible_runs_are_refused)
{
    struct fixture *f = *state;
    struct spotnik_message message = small_accept(f), decoded;
    struct spotnik_brief *brief = &message.proposal->brief;
    struct spotnik_run good = { .rank = 4, .count = 2, .flags = 3, .share = 1 }, run;

    message.brief = true;
    brief->run_count = 1;
    brief->run[0] = good;
    assert_verdict(f, &message, SPOTNIK_OK); /* two entries, shares 1 and 2 of 3 */
    for (int i = 0; i < 4; i++) {
        run = good;
        run.share = i == 0 ? 2 : run.share;
        run.count = i == 1 ? 3 : i == 2 ? 0 : run.count;
        run.flags = i == 3 ? 32 : run.flags;
        brief->run[0] = run;
        assert_verdict(f, &message, SPOTNIK_ERR_ARGUMENT);
    }
    message = small_prepare(f);
    message.brief = true;
    assert_verdict(f, &message, SPOTNIK_OK);
    size_t runs = SPOTNIK_WIRE_HEAD_BYTES + SPOTNIK_WIRE_TOKEN_BYTES;
    assert_int_equal(at(f, runs, 4), 1);
    assert_int_equal(at(f, runs + 4, 4), 2);
    uint8_t *first = f->bytes + runs + 4;
    memmove(first + SPOTNIK_WIRE_REPORTS_BYTES, first, f->size - runs - 4);
    f->bytes[runs] = 2;
    first[0] = first[SPOTNIK_WIRE_REPORTS_BYTES] = 1; /* the same reports in two runs */
    assert_int_equal(decode(f, f->bytes, f->size + SPOTNIK_WIRE_REPORTS_BYTES, &decoded),
                     SPOTNIK_ERR_ARGUMENT);
}

TEST(the_largest_message_is_as_long_as_the_limit)
{
    struct fixture *f = *state;
    struct spotnik_message message =
        spotnik_sample_message(&f->prng, SPOTNIK_MESSAGE_PREPARE, f->drawn);
    struct spotnik_prepare *prepare = message.prepare;

    prepare->report_count = f->limits.members_max;
    prepare->joiner_count = SPOTNIK_JOINERS_MAX;
    prepare->accepted_ballot.round = 1;
    message.brief = true;
    for (uint32_t i = 0; i < prepare->report_count; i++)
        prepare->report[i].committed = i;
    /* all of them new, each for itself */
    prepare->accepted.entry_count = prepare->accepted.brief.run_count = prepare->accepted.entry_max;
    for (uint32_t i = 0; i < prepare->accepted.entry_max; i++)
        prepare->accepted.brief.run[i] =
            (struct spotnik_run){ .rank = SPOTNIK_NO_RANK, .count = 1, .flags = i % 2 };
    prepare->accepted.founding.id = 1;
    prepare->ledger.returned_count = prepare->accepted.ledger.returned_count =
        SPOTNIK_LEDGER_RETURNED_MAX;
    prepare->ledger.deal_count = prepare->accepted.ledger.deal_count = SPOTNIK_LEDGER_DEAL_MAX;
    assert_int_equal(spotnik_control_size(&message), spotnik_control_bytes_max(&f->limits));
    assert_int_equal(spotnik_control_encode(&message, f->bytes, BYTES_MAX),
                     spotnik_control_size(&message));
    struct spotnik_limits usual = { .members_max = 256 };
    /* docs/reference/wire-format.md */
    assert_int_equal(spotnik_control_bytes_max(&usual), 48412 + 160 * 256);
}

TEST(unknown_kinds_are_refused)
{
    struct fixture *f = *state;

    memset(f->bytes, 0, SPOTNIK_WIRE_HEAD_BYTES);
    for (uint32_t kind = 0; kind < 256; kind++) {
        struct spotnik_message message;
        bool empty = kind == SPOTNIK_MESSAGE_HEARTBEAT || kind == SPOTNIK_MESSAGE_FENCED
                     || kind == SPOTNIK_MESSAGE_VIEW_ASK;
        f->bytes[0] = (uint8_t)kind;
        int rc = decode(f, f->bytes, SPOTNIK_WIRE_HEAD_BYTES, &message);
        assert_int_equal(rc, empty ? SPOTNIK_OK : SPOTNIK_ERR_ARGUMENT);
    }
}

static int fixture_new(void **state)
{
    static struct fixture f;

    f.limits = spotnik_sample_limits();
    f.drawn = spotnik_wire_storage_init(malloc(spotnik_wire_storage_size(&f.limits)), &f.limits);
    f.decoded = spotnik_wire_storage_init(malloc(spotnik_wire_storage_size(&f.limits)), &f.limits);
    f.bytes = malloc(BYTES_MAX);
    spotnik_prng_seed(&f.prng, 20);
    *state = &f;
    return f.bytes == NULL;
}

static int fixture_free(void **state)
{
    struct fixture *f = *state;

    free(f->drawn);
    free(f->decoded);
    free(f->bytes);
    return 0;
}

int main(void)
{
    return tests_run(fixture_new, fixture_free);
}
