/* SPDX-License-Identifier: Apache-2.0 */
/* Passes by a tree (docs/design/0036-many-members.md): the four facts that the proof rests on, word
 * by word, in one member whose neighbours are a script; and whole recoveries, deaths of inner
 * members, and the ways back to the ring. */
#include <string.h>

#include "base/time.h"
#include "pair_fixture.h"

enum { MEMBERS = 7, MARK = 1000 };

static struct spotnik_report report[MEMBERS];
static struct spotnik_entry entry[MEMBERS];

/* What node 0 said. */
static struct {
    uint32_t asks, promises, accepts, accepted, fenced, views;
    uint32_t views_before;         /* when it last said ASK */
    uint32_t fenced_before;        /* when it first said ACCEPT or ACCEPTED */
    uint64_t asked;                /* a set of nodes */
    uint64_t accepted_mark;        /* of the last promise: the value that goes with it */
    uint32_t promised;             /* members that have, by that */
    struct spotnik_id to;          /* of the last promise, or ACCEPTED */
    struct spotnik_ballot ballot;  /* of the last ASK, */
    struct spotnik_ballot prepare; /* and of the last PREPARE */
} said;

static uint32_t node_of(struct spotnik_id id)
{
    for (uint32_t i = 0; i < pair.count; i++)
        if (spotnik_id_equal(pair.node[i].member.id, id))
            return i;
    return NODES_MAX;
}

static void note_promise(const struct spotnik_prepare *prepare)
{
    said.promises++;
    said.accepted_mark = prepare->accepted_ballot.round ? prepare->accepted.settled_step : 0;
    said.promised = 0;
    for (uint32_t i = 0; i < prepare->report_count; i++)
        said.promised += prepare->report[i].promised;
}

static bool listens(struct pair *on, uint32_t node, const struct spotnik_action *action)
{
    (void)on;
    if (node != 0 || action->kind != SPOTNIK_ACTION_SEND)
        return false;
    enum spotnik_message_kind kind = action->send.message->kind;
    if (kind == SPOTNIK_MESSAGE_ASK) {
        said.asks++;
        said.views_before = said.views;
        said.ballot = action->send.message->ballot;
        said.asked |= UINT64_C(1) << node_of(action->send.to.id);
    }
    if (kind == SPOTNIK_MESSAGE_PREPARE)
        said.prepare = action->send.message->prepare->ballot;
    if (kind == SPOTNIK_MESSAGE_PROMISE)
        note_promise(action->send.message->prepare);
    if (kind == SPOTNIK_MESSAGE_PROMISE || kind == SPOTNIK_MESSAGE_ACCEPTED)
        said.to = action->send.to.id;
    if ((kind == SPOTNIK_MESSAGE_ACCEPT || kind == SPOTNIK_MESSAGE_ACCEPTED)
        && said.accepts + said.accepted == 0)
        said.fenced_before = said.fenced;
    said.accepts += kind == SPOTNIK_MESSAGE_ACCEPT;
    said.accepted += kind == SPOTNIK_MESSAGE_ACCEPTED;
    said.fenced += kind == SPOTNIK_MESSAGE_FENCED;
    said.views += kind == SPOTNIK_MESSAGE_RESTART;
    return false;
}

static uint32_t warm_count; /* 0: as ever */

static void open_with(uint32_t tree_members)
{
    pair_open(&pair, 0, 1, 0, 0);
    pair.limits.tree_members = tree_members;
    if (warm_count)
        pair.limits.warm_count = warm_count;
    pair.count = MEMBERS;
    for (uint32_t i = 0; i < MEMBERS; i++)
        pair_renew(&pair, i, i + 1, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHANNEL_DOWN,
                                       .peer = pair.node[1].member });
    pair_goal(&pair, 2);
    pair_run(&pair, SPOTNIK_S);
    memset(pair.sent, 0, sizeof pair.sent);
    memset(&said, 0, sizeof said);
    pair.before = listens;
}

static int assemble(void **state)
{
    (void)state;
    open_with(3);
    return 0;
}

static const struct spotnik_view *view(void)
{
    return spotnik_core_view(pair.node[0].core);
}

static uint32_t rank_of(uint32_t node)
{
    return spotnik_view_rank(view(), pair.node[node].member.id);
}

/* Returns the node at `place` of the tree. The initiator has place 0 and node 0 has place 1. Node 0
 * reports to the initiator, and asks the nodes of places 3 and 4. */
static uint32_t at_place(uint32_t place)
{
    return node_of(view()->entry[(rank_of(0) + MEMBERS - 1 + place) % MEMBERS].member.id);
}

static void tell(uint32_t from, struct spotnik_message *message)
{
    message->epoch = view()->epoch;
    message->committed = 1;
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[from].member, message } });
}

static struct spotnik_ballot ballot_of(uint32_t from, uint64_t round)
{
    return (struct spotnik_ballot){ .round = round, .initiator = pair.node[from].member.id };
}

static void ask(uint32_t from, uint64_t round)
{
    tell(from, &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ASK,
                                          .ballot = ballot_of(at_place(0), round) });
}

/* The next view, of all members but one (NODES_MAX: of all); told from others by its step. */
static struct spotnik_proposal proposal_of(uint64_t round, uint32_t without)
{
    uint32_t count = 0;

    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        if (without == NODES_MAX || rank != rank_of(without))
            entry[count++] =
                (struct spotnik_entry){ .member = view()->entry[rank].member,
                                        .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER,
                                        .share = SPOTNIK_NO_SHARE };
    return (struct spotnik_proposal){ .epoch = view()->epoch + 1,
                                      .settled_step = MARK + round,
                                      .ballot = ballot_of(at_place(0), round),
                                      .entry_count = count,
                                      .entry_max = MEMBERS,
                                      .founding = view()->founding,
                                      .entry = entry };
}

/* `from` has promised, alone; it had accepted a proposal of the round `accepted`, 0: none. */
static void promise(uint32_t from, uint64_t round, uint64_t accepted)
{
    struct spotnik_prepare prepare = { .ballot = ballot_of(at_place(0), round),
                                       .report_count = MEMBERS,
                                       .report = report,
                                       .ledger_step = SPOTNIK_NO_LEDGER };

    memset(report, 0, sizeof report);
    report[rank_of(from)] = (struct spotnik_report){ .promised = 1, .committed = 1 };
    prepare.accepted = proposal_of(accepted, NODES_MAX);
    if (accepted != 0)
        prepare.accepted_ballot = prepare.accepted.ballot;
    tell(from, &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_PROMISE, .prepare = &prepare });
}

static void propose(uint64_t round, uint32_t without)
{
    struct spotnik_proposal proposal = proposal_of(round, without);

    tell(at_place(0),
         &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ACCEPT, .proposal = &proposal });
}

static void accepted(uint32_t from, uint64_t round)
{
    tell(from, &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ACCEPTED,
                                          .ballot = ballot_of(at_place(0), round) });
}

static void gather(uint64_t round, uint64_t accepted_3, uint64_t accepted_4)
{
    ask(at_place(0), round);
    promise(at_place(3), round, accepted_3);
    promise(at_place(4), round, accepted_4);
}

/* Claim (fact 1): a member answers when all below it have promised this very ballot, each by its
 * own word. */
TEST_WITH(promises_are_their_own, assemble, close_pair)
{
    ask(at_place(0), 20);
    assert_int_equal(said.asks, 2);
    assert_int_equal(said.asked, UINT64_C(1) << at_place(3) | UINT64_C(1) << at_place(4));
    promise(at_place(3), 20, 0);
    promise(at_place(4), 19, 0);
    promise(at_place(4), 21, 0);
    assert_int_equal(said.promises, 0);
    promise(at_place(4), 20, 0);
    assert_int_equal(said.promises, 1);
    assert_int_equal(said.promised, 3);
    assert_true(spotnik_id_equal(said.to, pair.node[at_place(0)].member.id));
}

/* Claim: asked again, perhaps in the stead of one that died, it answers again. A lower ballot gets
 * no promise. */
TEST_WITH(answers_again, assemble, close_pair)
{
    ask(at_place(0), 20);
    ask(at_place(2), 20);
    promise(at_place(3), 20, 0);
    promise(at_place(4), 20, 0);
    assert_int_equal(said.promises, 2); /* to both */
    ask(at_place(2), 20);
    assert_int_equal(said.promises, 3);
    assert_true(spotnik_id_equal(said.to, pair.node[at_place(2)].member.id));
    ask(at_place(2), 19);
    assert_int_equal(said.promises, 3);
    assert_int_equal(said.asks, 2);
}

static void link_ends(uint32_t from)
{
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended = { pair.node[from].member, SPOTNIK_PROOF_NONE } });
}

static void link_comes_up(uint32_t from)
{
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP,
                                       .peer = pair.node[from].member });
}

static void speak(uint32_t from, uint64_t epoch)
{
    struct spotnik_message word = { .kind = SPOTNIK_MESSAGE_HEARTBEAT,
                                    .epoch = epoch,
                                    .committed = 1 };

    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[from].member, &word } });
}

/* Claim: over a new link ASK waits for the first word. Whoever stands in our view is told nothing
 * of it; whoever is behind is told of it before. */
TEST(new_link_speaks_first)
{
    for (uint32_t algorithm = 0; algorithm < 4; algorithm++) {
        uint32_t behind = algorithm & 1, below;
        open_with(3);
        link_ends(below = at_place(3));
        speak(at_place(4), view()->epoch);
        if (algorithm & 2)
            link_comes_up(below);
        ask(at_place(0), 20);
        assert_int_equal(said.asks + said.views, 1);
        if (!(algorithm & 2))
            link_comes_up(below);
        assert_int_equal(said.asks + said.views, 1);
        speak(below, view()->epoch - behind);
        assert_int_equal(said.asks, 2);
        assert_int_equal(said.views, behind);
        assert_int_equal(said.views_before, behind);
        speak(below, view()->epoch);
        assert_int_equal(said.asks, 2);
        pair_close(&pair);
    }
}

/* The ballot of one that has nobody below node 0. */
static void ask_as_a_leaf(uint64_t round)
{
    tell(at_place(0), &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ASK,
                                                 .ballot = ballot_of(at_place(2), round) });
}

static void time_passes(uint64_t duration_ns)
{
    for (pair.now_ns += duration_ns; spotnik_core_deadline(pair.node[0].core) <= pair.now_ns;)
        pair_event(&pair, 0, (struct spotnik_event){ .kind = SPOTNIK_EVENT_TICK });
}

/* All speak but one; less than until anybody tries again. */
static void all_speak_but(uint32_t mute)
{
    for (int i = 0; i < 7; i++) {
        time_passes(pair.limits.silence_floor_ns / 5);
        for (uint32_t node = 1; node < MEMBERS; node++)
            if (node != mute)
                speak(node, view()->epoch);
    }
}

static bool is_watched(uint32_t node)
{
    return spotnik_core_is_quiet(pair.node[0].core, pair.node[node].member.id, pair.now_ns);
}

/* Claim: a new link that stays mute is noticed as long as ASK waits for it: the others below answer
 * for themselves. It is not watched any more once another ballot has come. */
TEST(new_link_stays_mute)
{
    for (int other = 0; other <= 1; other++) {
        open_with(3);
        uint32_t below = at_place(3);
        link_ends(below);
        ask(at_place(0), 20);
        link_comes_up(below);
        promise(at_place(4), 20, 0);
        if (other)
            ask_as_a_leaf(30);
        all_speak_but(below);
        assert_int_equal(is_watched(below), !other);
        assert_int_equal(said.promises, 1);
        assert_int_equal(said.promised, other ? 1 : 2);
        pair_close(&pair);
    }
}

/* Claim (fact 2): of the accepted values below a member and its own, the one with the highest
 * ballot goes up. */
TEST_WITH(highest_accepted_goes_up, assemble, close_pair)
{
    gather(20, 12, 11);
    assert_int_equal(said.accepted_mark, MARK + 12);
    propose(20, NODES_MAX);
    gather(30, 15, 0);
    assert_int_equal(said.accepted_mark, MARK + 20);
    gather(40, 25, 28);
    assert_int_equal(said.accepted_mark, MARK + 28);
}

/* Claim (fact 3): a member says that it has accepted when all voters below it have. */
TEST_WITH(all_below_accept_first, assemble, close_pair)
{
    gather(20, 0, 0);
    propose(20, NODES_MAX);
    assert_int_equal(said.accepts, 2);
    accepted(at_place(3), 20);
    accepted(at_place(4), 19); /* of another ballot */
    accepted(at_place(5), 20); /* not below us */
    assert_int_equal(said.accepted, 0);
    accepted(at_place(4), 20);
    assert_int_equal(said.accepted, 1);
    assert_true(spotnik_id_equal(said.to, pair.node[at_place(0)].member.id));
    propose(20, NODES_MAX); /* once more, over another link perhaps */
    assert_int_equal(said.accepted, 2);
    assert_int_equal(said.accepts, 2);
}

/* Claim: a ballot that we did not promise gets no vote, by a tree as round the ring. */
TEST_WITH(accepts_what_it_promised, assemble, close_pair)
{
    gather(20, 0, 0);
    propose(19, NODES_MAX);
    propose(21, NODES_MAX);
    assert_int_equal(said.accepts + said.accepted, 0);
}

/* Claim (fact 4): a member that does not vote has been told FENCED before a word of our vote goes
 * anywhere, up or down. */
TEST_WITH(fenced_first, assemble, close_pair)
{
    gather(20, 0, 0);
    propose(20, at_place(3));
    assert_int_equal(said.fenced, 1);
    assert_int_equal(said.accepts, 1);
    assert_int_equal(said.fenced_before, 1);
    accepted(at_place(4), 20); /* the other one below us does not vote */
    assert_int_equal(said.accepted, 1);
}

static void goes_on(uint32_t size, uint64_t step)
{
    pair_goal(&pair, step);
    pair_run(&pair, 2 * SPOTNIK_S);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        if (!pair.node[i].alive)
            continue;
        assert_int_equal(pair_status(&pair, i).size, size);
        assert_int_equal(pair_status(&pair, i).committed, step);
    }
}

/* Claim: one loss: each survivor but one is asked, promises, is told and accepts, once. */
TEST_WITH(one_loss, assemble, close_pair)
{
    pair_kill(&pair, 3);
    goes_on(MEMBERS - 1, 4);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PREPARE], 0);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ASK], MEMBERS - 2);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PROMISE], MEMBERS - 2);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ACCEPT], MEMBERS - 2);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ACCEPTED], MEMBERS - 2);
}

static enum spotnik_message_kind fatal;
static uint32_t countdown;

static bool dies_at(struct pair *on, uint32_t node, const struct spotnik_action *action)
{
    (void)on, (void)node;
    return action->kind == SPOTNIK_ACTION_SEND && action->send.message->kind == fatal
           && countdown > 0 && --countdown == 0;
}

/* Claim: whoever dies before whichever word of a pass, the others go on without it. */
TEST(deaths_in_the_passes)
{
    static const enum spotnik_message_kind kinds[] = { SPOTNIK_MESSAGE_ASK, SPOTNIK_MESSAGE_PROMISE,
                                                       SPOTNIK_MESSAGE_ACCEPT,
                                                       SPOTNIK_MESSAGE_ACCEPTED,
                                                       SPOTNIK_MESSAGE_RESTART };
    uint32_t asks = 0;

    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (uint32_t nth = 1; nth <= MEMBERS - 2; nth++) {
            open_with(3);
            fatal = kinds[k];
            countdown = nth;
            pair.before = dies_at;
            pair_kill(&pair, 3);
            goes_on(MEMBERS - 2, 4);
            asks += pair.sent[SPOTNIK_MESSAGE_ASK];
            pair_close(&pair);
        }
    assert_true(asks > 5 * (MEMBERS - 2) * (MEMBERS - 2));
}

/* The initiator is node 0: what the one `ahead` places behind it sends up, with those below it. */
static void answer_from(uint32_t ahead, uint32_t silent)
{
    struct spotnik_prepare prepare = { .ballot = said.ballot,
                                       .report_count = MEMBERS,
                                       .report = report,
                                       .ledger_step = SPOTNIK_NO_LEDGER };
    uint32_t places[] = { ahead, 2 * ahead + 1, 2 * ahead + 2 };

    memset(report, 0, sizeof report);
    for (int i = 0; i < 3; i++)
        report[(rank_of(0) + places[i]) % MEMBERS] =
            (struct spotnik_report){ .promised = 1, .committed = 2 };
    if (silent != 0)
        report[(rank_of(0) + silent) % MEMBERS] =
            (struct spotnik_report){ .evidence = SPOTNIK_EVIDENCE_SILENT };
    tell(node_of(view()->entry[(rank_of(0) + ahead) % MEMBERS].member.id),
         &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_PROMISE, .prepare = &prepare });
}

/* Claim: when a tree has come up without a member that is not known to have ended, nothing is
 * proposed; the ring looks for it. When all have promised, the initiator proposes at once. */
TEST(missed_members_are_looked_for)
{
    for (uint32_t silent = 0; silent <= 3; silent += 3) {
        open_with(3);
        pair_event(&pair, 0,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_CHANNEL_DOWN,
                                           .peer = pair.node[1].member });
        assert_int_equal(said.asks, 2);
        answer_from(1, silent);
        assert_int_equal(said.accepts, 0);
        answer_from(2, 0);
        assert_int_equal(said.accepts, silent ? 0 : 2);
        assert_int_equal(said.prepare.round, silent ? said.ballot.round + 1 : 0);
        pair_close(&pair);
    }
}

/* Claim: a member that is silent, and not known to have ended, is looked for by the ring. */
TEST_WITH(silence_goes_round, assemble, close_pair)
{
    pair_stop(&pair, 3, true);
    pair_goal(&pair, 4);
    pair_run(&pair, 10 * SPOTNIK_S);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_true(i == 3 || pair_status(&pair, i).size == MEMBERS - 1);
    assert_true(pair.sent[SPOTNIK_MESSAGE_PREPARE] > 0);
}

/* Node 0 sees that the member `ahead` places from it has ended. How long does it wait for the
 * ballot of a nearer witness? */
static uint64_t left_to_others(uint32_t ahead)
{
    uint64_t begun_ns = pair.now_ns, ballots = pair_status(&pair, 0).ballots_started;
    uint32_t lost = node_of(view()->entry[(rank_of(0) + ahead) % MEMBERS].member.id);

    link_comes_up(lost);
    speak(lost, view()->epoch);
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_DOWN,
                                       .ended = { pair.node[lost].member, SPOTNIK_PROOF_GONE } });
    while (pair_status(&pair, 0).ballots_started == ballots)
        time_passes(SPOTNIK_MS);
    return pair.now_ns - begun_ns;
}

/* Claim: a loss is left to its nearest predecessor, and then to its live successor. Others leave it
 * to them for as long as ASK takes down all heads of blocks: here three, which is two levels. */
TEST(witnesses_wait_for_the_tree)
{
    static const uint64_t staggers[][2] = { { 1, 0 }, { MEMBERS - 1, 1 }, { 2, 2 }, { 3, 3 } };

    for (uint32_t tree = 0; tree <= 1; tree++)
        for (size_t i = 0; i < sizeof staggers / sizeof *staggers; i++) {
            uint64_t more = tree && staggers[i][1] > 1 ? 2 : 0;
            warm_count = 2;
            open_with(tree ? 3 : MEMBERS);
            assert_int_equal(left_to_others((uint32_t)staggers[i][0]),
                             (staggers[i][1] + more) * pair.limits.stagger_ns);
            pair_close(&pair);
        }
    warm_count = 0;
}

/* Claim: in a small view all goes round the ring. */
TEST(ring_stays)
{
    open_with(MEMBERS);
    pair_kill(&pair, 3);
    goes_on(MEMBERS - 1, 4);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_PREPARE], MEMBERS - 1);
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ASK], 0);
    pair_close(&pair);
}
