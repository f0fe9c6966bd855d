/* SPDX-License-Identifier: Apache-2.0 */
/* The rules of Paxos in one member (docs/protocol.md 5), word by word: tokens and proposals come
 * from a script, and what the member passes on is looked at. Drawn worlds hardly ever reach a
 * second accepted proposal; here every case is one call. */
#include <string.h>

#include "pair_fixture.h"

enum { MEMBERS = 5, MARK = 1000, STRANGER = 5000 };

static struct spotnik_report report[MEMBERS];
static struct spotnik_entry entry[MEMBERS];

/* What node 0 said last. */
static struct {
    uint32_t prepares, accepts;
    struct spotnik_ballot ballot; /* of the token */
    uint64_t accepted_round, accepted_mark;
    struct spotnik_id accept_to;
} said;

static bool listens(struct pair *on, uint32_t node, const struct spotnik_action *action)
{
    (void)on;
    if (node != 0 || action->kind != SPOTNIK_ACTION_SEND)
        return false;
    if (action->send.message->kind == SPOTNIK_MESSAGE_PREPARE) {
        const struct spotnik_prepare *prepare = action->send.message->prepare;
        said.prepares++;
        said.ballot = prepare->ballot;
        said.accepted_round = prepare->accepted_ballot.round;
        said.accepted_mark = prepare->accepted_ballot.round ? prepare->accepted.settled_step : 0;
    }
    if (action->send.message->kind == SPOTNIK_MESSAGE_ACCEPT) {
        said.accepts++;
        said.accept_to = action->send.to.id;
    }
    return false;
}

static int assemble(void **state)
{
    (void)state;
    pair_open(&pair, MEMBERS, 1, 0, 0);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    memset(&said, 0, sizeof said);
    pair.before = listens;
    return 0;
}

/* Only ring neighbours are linked. */
static int assemble_apart(void **state)
{
    (void)state;
    pair_open_warm(&pair, MEMBERS, 1, 0, 0, 1);
    pair_goal(&pair, 1);
    pair_assemble(&pair);
    memset(&said, 0, sizeof said);
    pair.before = listens;
    return 0;
}

static const struct spotnik_view *view(void)
{
    return spotnik_core_view(pair.node[0].core);
}

/* The next view, of all members, as `from` proposes it; told from others by its settled step. */
static struct spotnik_proposal proposal_of(uint32_t from, uint64_t round)
{
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        entry[rank] = (struct spotnik_entry){ .member = view()->entry[rank].member,
                                              .flags = SPOTNIK_ENTRY_MEMBER | SPOTNIK_ENTRY_VOTER,
                                              .share = SPOTNIK_NO_SHARE };
    return (struct spotnik_proposal){ .epoch = view()->epoch + 1,
                                      .settled_step = MARK + round,
                                      .ballot = { .round = round,
                                                  .initiator = pair.node[from].member.id },
                                      .entry_count = MEMBERS,
                                      .entry_max = MEMBERS,
                                      .founding = view()->founding,
                                      .entry = entry };
}

static void tell(uint32_t from, struct spotnik_message *message)
{
    message->epoch = view()->epoch;
    message->committed = 1;
    pair_event(&pair, 0,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { pair.node[from].member, message } });
}

/* The token of `from`, which a voter has signed that had accepted a proposal of `accepted_round`;
 * 0: nobody has. */
static void reconcile(uint32_t from, uint64_t round, uint64_t accepted_round, uint32_t silent_rank)
{
    struct spotnik_prepare prepare = { .ballot = { .round = round,
                                                   .initiator = pair.node[from].member.id },
                                       .report_count = MEMBERS,
                                       .report = report,
                                       .ledger_step = SPOTNIK_NO_LEDGER };

    memset(report, 0, sizeof report);
    report[spotnik_view_rank(view(), pair.node[from].member.id)] =
        (struct spotnik_report){ .promised = 1, .committed = 1 };
    if (silent_rank != SPOTNIK_NO_RANK)
        report[silent_rank].evidence = SPOTNIK_EVIDENCE_SILENT;
    prepare.accepted = proposal_of(from, accepted_round);
    if (accepted_round != 0)
        prepare.accepted_ballot = prepare.accepted.ballot;
    tell(from, &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_PREPARE, .prepare = &prepare });
}

static void propose(uint32_t from, uint64_t round)
{
    struct spotnik_proposal proposal = proposal_of(from, round);

    tell(from, &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ACCEPT, .proposal = &proposal });
}

/* Claim: what we have accepted goes along with every promise, and of two accepted proposals the one
 * of the higher ballot, whichever of them is ours: it may have been chosen. */
TEST_WITH(highest_accepted_wins, assemble, close_pair)
{
    reconcile(1, 20, 0, SPOTNIK_NO_RANK);
    assert_int_equal(said.accepted_round, 0);
    propose(1, 20);
    assert_int_equal(said.accepts, 1);
    reconcile(2, 50, 10, SPOTNIK_NO_RANK); /* theirs is older */
    assert_int_equal(said.ballot.round, 50);
    assert_int_equal(said.accepted_round, 20);
    assert_int_equal(said.accepted_mark, MARK + 20);
    reconcile(3, 70, 40, SPOTNIK_NO_RANK); /* theirs is newer */
    assert_int_equal(said.ballot.round, 70);
    assert_int_equal(said.accepted_round, 40);
    assert_int_equal(said.accepted_mark, MARK + 40);
    /* they have none; that we have heard of a newer one binds nobody */
    reconcile(4, 80, 0, SPOTNIK_NO_RANK);
    assert_int_equal(said.accepted_round, 20);
}

/* Claim: a promise is kept: nothing of a lower ballot is signed or accepted, nor of the same round
 * of a smaller id. */
TEST_WITH(promise_binds, assemble, close_pair)
{
    reconcile(3, 50, 0, SPOTNIK_NO_RANK);
    uint32_t prepares = said.prepares;
    assert_true(prepares > 0);
    reconcile(2, 40, 0, SPOTNIK_NO_RANK);
    reconcile(2, 50, 0, SPOTNIK_NO_RANK);
    propose(2, 40);
    propose(2, 50);
    assert_int_equal(said.prepares, prepares);
    assert_int_equal(said.accepts, 0);
    reconcile(4, 50, 0, SPOTNIK_NO_RANK); /* of equal rounds the larger id wins */
    assert_true(said.prepares > prepares);
}

/* Claim: only the very ballot that was promised is accepted: the initiator of a higher one may not
 * have counted us. */
TEST_WITH(accepts_what_it_promised, assemble, close_pair)
{
    propose(1, 20);
    assert_int_equal(said.accepts, 0);
    reconcile(1, 20, 0, SPOTNIK_NO_RANK);
    propose(1, 30);
    propose(2, 20);
    assert_int_equal(said.accepts, 0);
    propose(1, 20);
    assert_int_equal(said.accepts, 1);
}

/* Claim: from a promise on nothing is committed in this epoch. */
TEST_WITH(promise_freezes, assemble, close_pair)
{
    uint32_t frozen = pair.node[0].frozen;
    reconcile(1, 20, 0, SPOTNIK_NO_RANK);
    assert_int_equal(pair.node[0].frozen, frozen + 1);
}

/* Claim: ACCEPT passes over no voter, though it may be silent by now: a view is chosen when all of
 * them have accepted. */
TEST_WITH(accept_passes_over_nobody, assemble, close_pair)
{
    uint32_t next = (spotnik_view_rank(view(), pair.node[0].member.id) + 1) % MEMBERS;
    struct spotnik_id id = view()->entry[next].member.id;
    uint32_t from = 1;

    while (spotnik_id_equal(pair.node[from].member.id, id))
        from++;
    reconcile(from, 20, 0, next);
    propose(from, 20);
    assert_int_equal(said.accepts, 1);
    assert_true(spotnik_id_equal(said.accept_to, id));
}

/* Linked to node 2, and in no view of ours. */
static struct spotnik_member stranger(uint64_t id)
{
    struct spotnik_member member = { .id = { .low = id }, .port = 1 };

    pair_event(&pair, 2, (struct spotnik_event){ .kind = SPOTNIK_EVENT_LINK_UP, .peer = member });
    return member;
}

/* It says that it is in our epoch. */
static void tell_as(const struct spotnik_member *from, struct spotnik_message *message)
{
    message->epoch = view()->epoch;
    pair_event(&pair, 2,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_MESSAGE,
                                       .message = { *from, message } });
}

/* Node 4 is the next hop of node 2, which has never met it: the others are dead. */
static void reports_of_the_dead(void)
{
    memset(report, 0, sizeof report);
    report[2].evidence = SPOTNIK_EVIDENCE_SILENT;
    for (uint32_t rank = 0; rank < MEMBERS; rank++)
        if (rank != 2 && rank != 4)
            report[rank].evidence = SPOTNIK_EVIDENCE_TAINTED;
}

/* Claim: only members of the view bid and propose in it. an unauthenticated peer's token changes
 * nothing, nor its proposal; not where the table of peers is full of unauthenticated peers, and the
 * next hop would take the place of the very one that speaks. */
TEST_WITH(strangers_do_not_bid, assemble_apart, close_pair)
{
    for (uint64_t i = 1; i < 3 * NODES_MAX + SPOTNIK_JOINERS_MAX; i++)
        stranger(STRANGER + i);
    struct spotnik_member last = stranger(STRANGER); /* its place is the next to be taken */
    uint32_t frozen = pair.node[2].frozen;
    struct spotnik_prepare prepare = { .ballot = { .round = 20,
                                                   .initiator = pair.node[4].member.id },
                                       .report_count = MEMBERS,
                                       .report = report,
                                       .ledger_step = SPOTNIK_NO_LEDGER };

    reports_of_the_dead();
    tell_as(&last,
            &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_PREPARE, .prepare = &prepare });
    assert_int_equal(pair.node[2].frozen, frozen);
    reports_of_the_dead();
    tell_as(&pair.node[1].member,
            &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_PREPARE, .prepare = &prepare });
    assert_int_equal(pair.node[2].frozen, frozen + 1);
    assert_true(pair.node[2].dialling[4]);
    struct spotnik_proposal proposal = proposal_of(4, 20);
    uint32_t accepts = pair.sent[SPOTNIK_MESSAGE_ACCEPT];
    last = stranger(STRANGER + 1);
    tell_as(&last,
            &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ACCEPT, .proposal = &proposal });
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ACCEPT], accepts);
    tell_as(&pair.node[1].member,
            &(struct spotnik_message){ .kind = SPOTNIK_MESSAGE_ACCEPT, .proposal = &proposal });
    assert_int_equal(pair.sent[SPOTNIK_MESSAGE_ACCEPT], accepts + 1);
}
