/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts that do not reach each other, while all the others reach both: a fact of the path
 * between them. It is signed in the token, and the next view stands so that they are no neighbours,
 * and sends nothing from one to the other. Nobody is excluded for it where there are four hosts;
 * with three each is everybody's neighbour (docs/design/0025-paths.md). */
#include "base/assert.h"
#include "base/time.h"
#include "vote/vote.h"
#include "member/hosts.h"

#define PAUSE_NS (2 * SPOTNIK_S) /* the first time: after it the next view tries the path again */
#define PAUSES_MAX 7             /* then 128 s */
#define HOSTS_MIN 4

static bool is_far(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return core->view.entry[rank].member.host != core->self.host;
}

static bool are_enough(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return flat_hosts(core) >= HOSTS_MIN;
}

/* A path that was well for eight times as long as it was avoided breaks for the first time
 * again. */
static bool is_forgiven(const struct spotnik_core *core, const struct peer *peer)
{
    SPOTNIK_ASSERT(peer->cuts <= PAUSES_MAX);
    return peer->cuts > 0
           && spotnik_time_since(core->now_ns, peer->cut_until_ns)
                  >= 8 * (PAUSE_NS << (peer->cuts - 1));
}

static void cut(struct spotnik_core *core, struct peer *peer)
{
    if (is_forgiven(core, peer))
        peer->cuts = 0;
    if (core->now_ns >= peer->cut_until_ns) {
        peer->cuts += peer->cuts < PAUSES_MAX;
        core->status.cuts++;
        core->status.last_cut = peer->member;
    }
    peer->cut_until_ns = spotnik_time_add(core->now_ns, PAUSE_NS << (peer->cuts - 1));
}

/* What we sent is not acknowledged. Where heartbeats run, their silence tells; where only data do,
 * nobody else would. False: no view can go round it. */
bool path_cut(struct spotnik_core *core, const struct spotnik_member *member)
{
    uint32_t rank = spotnik_view_rank(&core->view, member->id);

    if (core->role != SPOTNIK_ROLE_MEMBER || rank == SPOTNIK_NO_RANK || !is_far(core, rank)
        || !are_enough(core))
        return false;
    cut(core, peer_want(core, &core->view.entry[rank].member));
    return true;
}

/* Called silent by somebody on the way of the token, and not asked. */
static bool is_passed_over(const struct spotnik_token *token, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < token->report_count);
    return token->report[rank].evidence == SPOTNIK_EVIDENCE_SILENT && !token->report[rank].promised;
}

static bool is_called(uint64_t bits, uint32_t rank)
{
    return bits >> rank % 64 & 1;
}

/* Of those that are called silent: do two live on different hosts? */
static bool calls_two_hosts(const struct spotnik_core *core, const struct spotnik_token *token,
                            uint64_t called)
{
    uint32_t first = SPOTNIK_NO_RANK;

    SPOTNIK_ASSERT(token->report_count == core->view.size);
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        if (!is_called(called, rank) || !is_passed_over(token, rank))
            continue;
        if (first != SPOTNIK_NO_RANK && !spotnik_hosts_mate(&core->view, first, rank))
            return true;
        first = rank;
    }
    return false;
}

/* Members that we do not reach: silent to us, and yet they have promised in this very ballot; or a
 * path to them broke not long ago. Where members of several hosts are silent to us we say which,
 * promise or not: then it may be us who hear nothing. */
uint64_t path_sign(struct spotnik_core *core)
{
    uint64_t bits = 0, silent = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (!are_enough(core))
        return 0;
    for (uint32_t i = 0; i < core->vote->peer_top; i++) {
        struct peer *peer = &core->vote->peer[i];
        uint32_t rank = peer->used ? peer_rank(core, peer) : SPOTNIK_NO_RANK;
        if (rank == SPOTNIK_NO_RANK || rank == core->rank || !is_far(core, rank))
            continue;
        bool is_silent = core->vote->book[rank].evidence == SPOTNIK_EVIDENCE_SILENT;
        if (is_silent && core->vote->token.report[rank].promised)
            cut(core, peer);
        if (core->now_ns < peer->cut_until_ns)
            bits |= UINT64_C(1) << rank % 64;
        if (is_silent)
            silent |= UINT64_C(1) << rank % 64;
    }
    return calls_two_hosts(core, &core->vote->token, silent) ? bits | silent : bits;
}

/* Whose own report calls members of two hosts silent is asked nothing out of turn, and nobody for
 * its sake: what is sent to it may be lost. */
void path_learn(struct spotnik_core *core, const struct spotnik_token *token)
{
    uint32_t origin = spotnik_view_rank(&core->view, token->ballot.initiator);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (origin != SPOTNIK_NO_RANK)
        core->vote->deaf[origin] = calls_two_hosts(core, token, token->report[origin].cut);
}

static bool is_fresh(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    for (uint32_t i = 0; i < core->vote->peer_top; i++) {
        const struct peer *peer = &core->vote->peer[i];
        if (peer->used && peer->linked
            && spotnik_id_equal(peer->member.id, core->view.entry[rank].member.id))
            return spotnik_time_since(core->now_ns, peer->detector.heard_ns)
                   < core->limits.silence_floor_ns / 2;
    }
    return false;
}

/* Somebody on the way of the token calls it silent; but we hear it, more freshly than any silence
 * is old. It is asked before the token goes on, or it would be passed over. So it is with each of
 * several: of a side that is cut off, or of members that have died together, nobody hears one so
 * freshly. */
static uint32_t doubtful(const struct spotnik_core *core)
{
    uint32_t origin = spotnik_view_rank(&core->view, core->vote->token.ballot.initiator);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (!are_enough(core) || origin == SPOTNIK_NO_RANK || core->vote->deaf[origin])
        return SPOTNIK_NO_RANK;
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (is_passed_over(&core->vote->token, rank) && !core->vote->rumoured[rank]
            && core->vote->book[rank].evidence == SPOTNIK_EVIDENCE_NONE && !core->vote->deaf[rank]
            && is_fresh(core, rank))
            return rank;
    return SPOTNIK_NO_RANK;
}

/* A quarter of a silence; and where words were late before, as late as they were. */
static uint64_t visit_limit(struct spotnik_core *core, uint32_t rank)
{
    const struct peer *peer = peer_find(core, core->view.entry[rank].member.id);
    uint64_t floor_ns = core->limits.silence_floor_ns;

    SPOTNIK_ASSERT(rank < core->view.size);
    return spotnik_time_min(floor_ns, floor_ns / 4
                                          + (peer ? spotnik_time_since(peer->detector.longest_ns,
                                                                       floor_ns / 4)
                                                  : 0));
}

/* A member that hears nobody is heard as freshly as one behind a broken path, and a token that it
 * gets is lost. Unless it has told us so, we cannot know. So each ballot asks once, and waits less
 * long than its initiator does before it bids anew. */
bool path_visit(struct spotnik_core *core)
{
    uint32_t rank = doubtful(core);

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER && core->frozen);
    if (rank == SPOTNIK_NO_RANK
        || spotnik_ballot_compare(core->vote->visit.ballot, core->vote->token.ballot) == 0)
        return false;
    core->vote->visit.ballot = core->vote->token.ballot;
    core->vote->visit.rank = rank;
    core->vote->visit.until_ns = spotnik_time_add(core->now_ns, visit_limit(core, rank));
    pass_send(core, PASS_RECONCILE, &core->view.entry[rank].member);
    return true;
}

/* Is the token of the visit all that has been seen of its ballot? */
static bool is_out(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    return spotnik_ballot_compare(core->vote->visit.ballot, core->vote->promised) == 0
           && spotnik_ballot_compare(core->vote->accepted.ballot, core->vote->promised) != 0
           && (core->vote->phase == PHASE_NONE || core->vote->phase == PHASE_RECONCILE);
}

/* We were visited, and have passed the token on to a member that we believe we reach. But a member
 * that calls us silent may not hear us, and may be the next. The visitor reached us: it gets the
 * token, too. */
void path_return(struct spotnik_core *core, struct peer *visitor)
{
    if (core->role == SPOTNIK_ROLE_MEMBER && core->frozen
        && !is_self(core, core->vote->token.ballot.initiator)
        && !spotnik_id_equal(core->vote->token_at, visitor->member.id))
        send_message(core, visitor, SPOTNIK_MESSAGE_RECONCILE);
}

/* The token that we took to somebody, with its promise. Another copy of it may come by: its
 * visitors pass it on twice. */
bool path_came_back(struct spotnik_core *core, const struct spotnik_token *token)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (spotnik_ballot_compare(token->ballot, core->vote->visit.ballot) != 0
        || core->vote->visit.until_ns == SPOTNIK_NEVER || !is_out(core)
        || !token->report[core->vote->visit.rank].promised)
        return false;
    core->vote->visit.until_ns = SPOTNIK_NEVER;
    return true;
}

/* The ballot may have gone on where we do not see it: then this second token finds everybody
 * promised, and changes nothing. True: send it on. */
bool path_is_due(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->now_ns < core->vote->visit.until_ns)
        return false;
    core->vote->visit.until_ns = SPOTNIK_NEVER;
    return is_out(core);
}

/* The members of a host need not vote in this ballot. As with the silent: they are told that we
 * vote without them. */
static void mute(struct spotnik_core *core, uint32_t of)
{
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        struct spotnik_report *report = &core->vote->token.report[rank];
        if (spotnik_hosts_mate(&core->view, of, rank) && spotnik_lineage_voter(report))
            report->evidence = SPOTNIK_EVIDENCE_SILENT;
    }
}

/* Nobody that has promised in this ballot is silent to its initiator, but by mute(). */
static void unmute(struct spotnik_core *core)
{
    for (uint32_t rank = 0; rank < core->view.size; rank++) {
        struct spotnik_report *report = &core->vote->token.report[rank];
        if (report->promised && report->evidence == SPOTNIK_EVIDENCE_SILENT)
            report->evidence = SPOTNIK_EVIDENCE_NONE;
    }
}

/* A value that was accepted before stands, and so does its order. A path may have broken since
 * between a voter and the next: ACCEPT would wait there until it works. Any voters that the lineage
 * rule allows may choose the value. So those at one end of the path do not vote, and learn of the
 * view as a member that missed ACCEPT does. Where too few would be left all vote, and wait. */
static void path_spares(struct spotnik_core *core)
{
    struct spotnik_proposal *accepted = &core->vote->accepted;
    struct spotnik_token *token = &core->vote->token;
    uint32_t rank;

    while ((rank = spotnik_detour_mute(accepted, &core->view, token, core->self.id))
           != SPOTNIK_NO_RANK) {
        mute(core, rank);
        bool allowed =
            spotnik_lineage_allows(&core->view, token->report, witness_has_named_us(core));
        if (!allowed)
            unmute(core);
        spotnik_proposal_make(accepted, &core->view, token, core->limits.members_max);
        if (!allowed)
            return;
    }
}

/* The proposal has been made. Where there is no order in which all reach their neighbours, somebody
 * goes, as if it were silent. False: then nobody may decide. */
bool path_makes_room(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->vote->phase == PHASE_ACCEPT);
    if (core->vote->token.accepted_ballot.round)
        path_spares(core);
    while (!core->vote->token.accepted_ballot.round) {
        uint32_t rank = spotnik_detour_crossing(&core->vote->accepted, &core->view,
                                                &core->vote->token, core->self.id);
        if (rank == SPOTNIK_NO_RANK) /* or a joiner, of whose paths nobody has said a word */
            return true;
        core->vote->token.report[rank].evidence = SPOTNIK_EVIDENCE_SILENT;
        if (!spotnik_lineage_allows(&core->view, core->vote->token.report,
                                    witness_has_named_us(core))
            && !core->limits.minority_continues)
            return false;
        if (core->vote->token.ledger_step != spotnik_proposal_settled(&core->vote->token))
            return false;
        spotnik_proposal_make(&core->vote->accepted, &core->view, &core->vote->token,
                              core->limits.members_max);
    }
    return true;
}
