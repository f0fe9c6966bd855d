/* SPDX-License-Identifier: Apache-2.0 */
/* What members have gathered in one ballot is joined (docs/design/0036-many-members.md): drawn
 * tokens, in every order and more than once, and the rules of single fields. */
#include <string.h>

#include "base/prng.h"
#include "member/message.h"
#include "tests.h"

enum { MEMBERS = 6, ENTRIES = 3, TOKENS = 3 };

struct gathered {
    struct spotnik_token token;
    struct spotnik_report report[MEMBERS];
    struct spotnik_entry entry[ENTRIES];
};

static void blank(struct gathered *gathered)
{
    memset(gathered, 0, sizeof *gathered);
    gathered->token.ballot.round = 7;
    gathered->token.report_count = MEMBERS;
    gathered->token.report = gathered->report;
    gathered->token.ledger_step = SPOTNIK_NO_LEDGER;
    gathered->token.accepted.entry = gathered->entry;
    gathered->token.accepted.entry_max = ENTRIES;
    spotnik_ledger_init(&gathered->token.ledger, 0, 0);
}

/* What a member signs is final, so all that copy it say the same of it: `rank` decides. */
static void draw(struct gathered *gathered, struct spotnik_prng *prng)
{
    struct spotnik_token *token = &gathered->token;

    blank(gathered);
    for (uint32_t rank = 0; rank < MEMBERS; rank++) {
        if (spotnik_prng_chance(prng, 1, 2))
            token->report[rank] = (struct spotnik_report){ .promised = 1, .committed = 40 + rank };
        token->report[rank].leaving = (uint8_t)spotnik_prng_below(prng, 2);
        token->report[rank].evidence = (uint8_t)spotnik_prng_below(prng, 4);
        if (token->report[rank].promised && token->report[rank].evidence == SPOTNIK_EVIDENCE_SILENT)
            token->report[rank].evidence = SPOTNIK_EVIDENCE_NONE;
    }
    if (spotnik_prng_chance(prng, 2, 3)) {
        token->ledger_step = spotnik_prng_below(prng, 3);
        token->ledger.data_epoch = token->ledger_step;
    }
    token->accepted_ballot.round = spotnik_prng_below(prng, 4);
    token->accepted.settled_step = 100 + token->accepted_ballot.round;
    token->joiner_count = (uint32_t)spotnik_prng_below(prng, 3);
    for (uint32_t i = 0; i < token->joiner_count; i++) {
        token->joiner[i].member.id.low = 1 + (i + gathered->report[0].leaving) % 3;
        token->joiner[i].committed = spotnik_prng_below(prng, 5);
    }
}

static void copy(struct gathered *to, const struct gathered *from)
{
    *to = *from;
    to->token.report = to->report;
    to->token.accepted.entry = to->entry;
}

static uint64_t joiner_at(const struct spotnik_token *token, uint64_t id)
{
    for (uint32_t i = 0; i < token->joiner_count; i++)
        if (token->joiner[i].member.id.low == id)
            return 1 + token->joiner[i].committed;
    return 0;
}

static void assert_same(const struct gathered *a, const struct gathered *b)
{
    assert_memory_equal(a->report, b->report, sizeof a->report);
    assert_int_equal(a->token.ledger_step, b->token.ledger_step);
    if (a->token.ledger_step != SPOTNIK_NO_LEDGER)
        assert_int_equal(a->token.ledger.data_epoch, b->token.ledger.data_epoch);
    assert_int_equal(a->token.accepted_ballot.round, b->token.accepted_ballot.round);
    if (a->token.accepted_ballot.round != 0)
        assert_int_equal(a->token.accepted.settled_step, b->token.accepted.settled_step);
    assert_int_equal(a->token.joiner_count, b->token.joiner_count);
    for (uint64_t id = 1; id <= 3; id++)
        assert_int_equal(joiner_at(&a->token, id), joiner_at(&b->token, id));
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
        spotnik_token_join(&ab.token, &part[1].token);
        copy(&ba, &part[1]);
        spotnik_token_join(&ba.token, &part[0].token);
        assert_same(&ab, &ba);
        copy(&once, &ab);
        spotnik_token_join(&once.token, &part[0].token);
        assert_same(&once, &ab);
        spotnik_token_join(&ab.token, &part[2].token);
        copy(&ba, &part[2]);
        spotnik_token_join(&ba.token, &part[1].token);
        spotnik_token_join(&ba.token, &part[0].token);
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
    spotnik_token_join(&to.token, &from.token);
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
            to.token.accepted_ballot.round = ours;
            to.token.accepted.settled_step = 100 + ours;
            from.token.accepted_ballot.round = theirs;
            from.token.accepted.settled_step = 100 + theirs;
            spotnik_token_join(&to.token, &from.token);
            assert_int_equal(to.token.accepted_ballot.round, ours > theirs ? ours : theirs);
            assert_int_equal(to.token.accepted.settled_step, 100 + to.token.accepted_ballot.round);
        }
}
