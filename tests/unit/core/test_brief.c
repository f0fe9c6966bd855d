/* SPDX-License-Identifier: Apache-2.0 */
/* Who is told briefly (docs/design/0036-many-members.md): voters are, joiners are not;
 * and one that cannot follow asks, and is told all. Messages go through the real codec. */
#include <string.h>

#include "base/time.h"
#include "pair.h"
#include "tests.h"

enum { MEMBERS = 5 };

static struct pair pair;

static struct {
    uint32_t prepares, accepts, restarts; /* brief ones */
    uint32_t whole;                       /* of any of these, whole */
    uint32_t asks;                        /* VIEW_ASK of node 0 */
    /* a brief one went to somebody who was not in the view before */
    bool to_joiner;
} said;

static bool listens(struct pair *on, uint32_t node, const struct spotnik_action *action)
{
    if (action->kind != SPOTNIK_ACTION_SEND)
        return false;
    enum spotnik_message_kind kind = action->send.message->kind;
    bool brief = action->send.message->brief;

    said.prepares += brief && kind == SPOTNIK_MESSAGE_PREPARE;
    said.accepts += brief && kind == SPOTNIK_MESSAGE_ACCEPT;
    said.restarts += brief && kind == SPOTNIK_MESSAGE_RESTART;
    said.whole += !brief
                  && (kind == SPOTNIK_MESSAGE_PREPARE || kind == SPOTNIK_MESSAGE_ACCEPT
                      || kind == SPOTNIK_MESSAGE_RESTART);
    said.asks += node == 0 && kind == SPOTNIK_MESSAGE_VIEW_ASK;
    for (uint32_t i = 0; i < on->count; i++)
        if (brief && spotnik_id_equal(on->node[i].member.id, action->send.to.id))
            said.to_joiner |= pair_status(on, i).role == SPOTNIK_ROLE_JOINER;
    return false;
}

/* The last node is not started. */
static void assemble(uint32_t brief_members)
{
    pair_open(&pair, 0, 1, 0, 0);
    pair.limits.brief_members = brief_members;
    pair.count = MEMBERS;
    for (uint32_t i = 0; i < MEMBERS; i++)
        pair_renew(&pair, i, i + 1, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    memset(&said, 0, sizeof said);
    pair.before = listens;
}

static void lose_one(void)
{
    pair_kill(&pair, 3);
    pair_goal(&pair, 3);
    pair_run(&pair, 2 * SPOTNIK_S);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (i == 3)
            continue;
        assert_int_equal(pair_status(&pair, i).size, MEMBERS - 1);
        assert_int_equal(pair_status(&pair, i).committed, 3);
    }
}

TEST(voters_are_told_briefly)
{
    assemble(0);
    lose_one();
    assert_true(said.prepares >= MEMBERS - 2 && said.accepts >= MEMBERS - 2
                && said.restarts >= MEMBERS - 2);
    assert_int_equal(said.whole, 0);
    assert_false(said.to_joiner);
    pair_close(&pair);
}

TEST(small_views_are_told_all)
{
    assemble(MEMBERS);
    lose_one();
    assert_int_equal(said.prepares + said.accepts + said.restarts, 0);
    pair_close(&pair);
}

/* Claim: a joiner gets the view as a whole; it has none to compare it with. */
TEST(joiners_are_told_all)
{
    assemble(0);
    pair_renew(&pair, 3, 9, 1, 0, 0); /* and its end is noticed */
    pair_join(&pair, 3, 1, 0, 0);
    pair_goal(&pair, 3);
    pair_run(&pair, 4 * SPOTNIK_S);
    assert_int_equal(pair_status(&pair, 3).role, SPOTNIK_ROLE_MEMBER);
    assert_true(said.whole > 0 && said.restarts > 0);
    assert_false(said.to_joiner);
    pair_close(&pair);
}

/* RESTART of this view, of all members, in terms of the one before it. */
static void restart(uint64_t epoch)
{
    static struct spotnik_entry entry[MEMBERS];
    static struct spotnik_proposal proposal;
    const struct spotnik_view *view = spotnik_core_view(pair.node[0].core);
    struct spotnik_message message = {
        .kind = SPOTNIK_MESSAGE_RESTART, .epoch = epoch, .committed = 1, .proposal = &proposal
    };

    proposal = (struct spotnik_proposal){ .epoch = epoch,
                                          .settled_step = 1,
                                          .share_count = MEMBERS,
                                          .entry_count = MEMBERS,
                                          .entry_max = MEMBERS,
                                          .founding = view->founding,
                                          .packed = true,
                                          .entry = entry };
    proposal.brief = (struct spotnik_brief){ .run_count = 1 };
    proposal.brief.run[0] =
        (struct spotnik_run){ .count = MEMBERS,
                              .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER };
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[1].member, &message } });
}

/* Claim: a brief RESTART on another view than ours changes nothing but that we ask; on ours it is
 * installed. */
TEST(what_does_not_follow_is_asked_for)
{
    assemble(0);
    pair_run(&pair, SPOTNIK_MS);
    uint64_t epoch = spotnik_core_view(pair.node[0].core)->epoch;
    restart(epoch + 2);
    assert_int_equal(spotnik_core_view(pair.node[0].core)->epoch, epoch);
    assert_int_equal(said.asks, 1);
    restart(epoch + 1);
    assert_int_equal(spotnik_core_view(pair.node[0].core)->epoch, epoch + 1);
    assert_int_equal(spotnik_core_view(pair.node[0].core)->size, MEMBERS);
    assert_int_equal(said.asks, 1);
    pair_close(&pair);
}

/* Claim: whoever asks for the view gets all of it, also a voter. */
TEST(who_asks_is_told_all)
{
    struct spotnik_message ask = { .kind = SPOTNIK_MESSAGE_VIEW_ASK };

    assemble(0);
    lose_one();
    memset(&said, 0, sizeof said);
    ask.epoch = pair_status(&pair, 0).epoch;
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[1].member, &ask } });
    assert_int_equal(said.restarts, 0);
    assert_int_equal(said.whole, 1);
    pair_close(&pair);
}
