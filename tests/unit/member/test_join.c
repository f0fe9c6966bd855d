/* SPDX-License-Identifier: Apache-2.0 */
/* What members have gathered in one ballot is joined (docs/design/0036-many-members.md): drawn
 * tokens, in every order and more than once, and the rules of single fields. */
#include <string.h>

#include "base/prng.h"
#include "member/message.h"
#include "tests.h"

enum { MEMBERS = 6, ENTRIES = 3, TOKENS = 3 };

struct gathered {
    struct spotnik_prepare prepare;
    struct spotnik_report report[MEMBERS];
    struct spotnik_entry entry[ENTRIES];
};

static void blank(struct gathered *gathered)
{
    memset(gathered, 0, sizeof *gathered);
    gathered->prepare.ballot.round = 7;
    gathered->prepare.report_count = MEMBERS;
    gathered->prepare.report = gathered->report;
    gathered->prepare.ledger_step = SPOTNIK_NO_LEDGER;
    gathered->prepare.accepted.entry = gathered->entry;
    gathered->prepare.accepted.entry_max = ENTRIES;
    spotnik_ledger_init(&gathered->prepare.ledger, 0, 0);
}

/* What a member signs is final, so all that copy it say the same of it: `rank` decides. */
static void draw(struct gathered *gathered, struct spotnik_prng *prng)
{
    struct spotnik_prepare *prepare = &gathered->prepare;

    blank(gathered);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        if (spotnik_prng_chance(prng, 1, 2))
            prepare->report[rank] =
                (struct spotnik_report){ .promised = 1, .committed = 40 + rank };
        prepare->report[rank].leaving = (uint8_t)spotnik_prng_below(prng, 2);
        prepare->report[rank].evidence = (uint8_t)spotnik_prng_below(prng, 4);
        if (prepare->report[rank].promised
            && prepare->report[rank].evidence == SPOTNIK_EVIDENCE_SILENT)
            prepare->report[rank].evidence = SPOTNIK_EVIDENCE_NONE;
    }
    if (spotnik_prng_chance(prng, 2, 3)) {
        prepare->ledger_step = spotnik_prng_below(prng, 3);
        prepare->ledger.data_epoch = prepare->ledger_step;
    }
    prepare->accepted_ballot.round = spotnik_prng_below(prng, 4);
    prepare->accepted.settled_step = 100 + prepare->accepted_ballot.round;
    prepare->joiner_count = (uint32_t)spotnik_prng_below(prng, 3);
    for (uint32_t i = 0; i < prepare->joiner_count; i++) {
        prepare->joiner[i].member.id.low = 1 + (i + gathered->report[0].leaving) % 3;
        prepare->joiner[i].committed = spotnik_prng_below(prng, 5);
    }
}

static void copy(struct gathered *to, const struct gathered *from)
{
    *to = *from;
    to->prepare.report = to->report;
    to->prepare.accepted.entry = to->entry;
}

static uint64_t joiner_at(const struct spotnik_prepare *prepare, uint64_t id)
{
    for (uint32_t i = 0; i < prepare->joiner_count; i++)
        if (prepare->joiner[i].member.id.low == id)
            return 1 + prepare->joiner[i].committed;
    return 0;
}

static void assert_same(const struct gathered *a, const struct gathered *b)
{
    assert_memory_equal(a->report, b->report, sizeof a->report);
    assert_int_equal(a->prepare.ledger_step, b->prepare.ledger_step);
    if (a->prepare.ledger_step != SPOTNIK_NO_LEDGER)
        assert_int_equal(a->prepare.ledger.data_epoch, b->prepare.ledger.data_epoch);
    assert_int_equal(a->prepare.accepted_ballot.round, b->prepare.accepted_ballot.round);
    if (a->prepare.accepted_ballot.round != 0)
        assert_int_equal(a->prepare.accepted.settled_step, b->prepare.accepted.settled_step);
    assert_int_equal(a->prepare.joiner_count, b->prepare.joiner_count);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(joiner_at(&a->prepare, id), joiner_at(&b->prepare, id));
}

/* Claim: it is a join: the order, the grouping and repetition of parts change nothing. */
TEST(order_does_not_matter)
{
    struct spotnik_prng prng;
    struct gathered part[TOKENS], ab, ba, once;

    spotnik_prng_seed(&prng, 36);
    for (int i = 0; i < 20000; i++) {
        for (int k = 0; k < TOKENS; k++)
            draw(&part[k], &prng);
        copy(&ab, &part[0]);
        spotnik_prepare_join(&ab.prepare, &part[1].prepare);
        copy(&ba, &part[1]);
        spotnik_prepare_join(&ba.prepare, &part[0].prepare);
        assert_same(&ab, &ba);
        copy(&once, &ab);
        spotnik_prepare_join(&once.prepare, &part[0].prepare);
        assert_same(&once, &ab);
        spotnik_prepare_join(&ab.prepare, &part[2].prepare);
        copy(&ba, &part[2]);
        spotnik_prepare_join(&ba.prepare, &part[1].prepare);
        spotnik_prepare_join(&ba.prepare, &part[0].prepare);
        assert_same(&ab, &ba);
    }
}

/* Claim: a promise is copied with all that its member signed, and nobody else's word makes one. */
TEST(promises_are_copied)
{
    struct gathered to, from;

    blank(&to);
    blank(&from);
    from.report[2] = (struct spotnik_report){ .promised = 1,
                                              .begun = 1,
                                              .bare = 1,
                                              .committed = 9,
                                              .share = 3,
                                              .share_count = 5,
                                              .cut = 6,
                                              .apart = 7 };
    to.report[2].evidence = SPOTNIK_EVIDENCE_SILENT; /* it has spoken since */
    from.report[3].evidence = SPOTNIK_EVIDENCE_GONE;
    spotnik_prepare_join(&to.prepare, &from.prepare);
    assert_memory_equal(&to.report[2], &from.report[2], sizeof to.report[2]);
    assert_int_equal(to.report[3].evidence, SPOTNIK_EVIDENCE_GONE);
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        assert_int_equal(to.report[rank].promised, rank == 2);
}

/* Claim: of two accepted values the one with the higher ballot is kept: it may have been chosen. */
TEST(highest_accepted_is_kept)
{
    struct gathered to, from;

    for (uint64_t ours = 0; ours < 4; ours++)
        for (uint64_t theirs = 0; theirs < 4; theirs++) {
            blank(&to);
            blank(&from);
            to.prepare.accepted_ballot.round = ours;
            to.prepare.accepted.settled_step = 100 + ours;
            from.prepare.accepted_ballot.round = theirs;
            from.prepare.accepted.settled_step = 100 + theirs;
            spotnik_prepare_join(&to.prepare, &from.prepare);
            assert_int_equal(to.prepare.accepted_ballot.round, ours > theirs ? ours : theirs);
            assert_int_equal(to.prepare.accepted.settled_step,
                             100 + to.prepare.accepted_ballot.round);
        }
}
