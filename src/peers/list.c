/* SPDX-License-Identifier: Apache-2.0 */
/* One round of the search in a list of addresses: join whoever is in a view; else elect a founder among
 * the listed processes, by votes of more than half of them.
 *
 * A vote binds until the process it was given to is proven gone, or has itself voted for another (it
 * withdraws, and does not found). So two founders would need one process to have voted twice. */
#include <string.h>

#include "net/address.h"
#include "peers/inside.h"

#define WITHDRAWN_ROUNDS 30 /* those that saw us withdraw have acted on it by then */

struct poll {
    uint32_t own; /* our place in the list; count: not listed */
    uint32_t up, for_us;
    enum spotnik_peers_reply reply[SPOTNIK_PEERS_LISTED_MAX];
    struct spotnik_answer answer[SPOTNIK_PEERS_LISTED_MAX];
};

static bool lives(const struct poll *poll, uint32_t i)
{
    return i == poll->own || poll->reply[i] == SPOTNIK_PEERS_REPLY_IDLE;
}

static bool is_own(const struct spotnik_peers_search *search, const struct spotnik_member *listed)
{
    const struct spotnik_member *self = &search->self.self;
    return memcmp(listed->address, self->address, 16) == 0 && listed->port == self->port;
}

/* Ask all the others. True: one of them is in a view. */
static bool poll_take(struct spotnik_peers_search *search, struct poll *poll)
{
    const struct spotnik_peers_spec *spec = &search->peers->spec;
    poll->own = spec->count;
    poll->up = poll->for_us = 0;
    for (uint32_t i = 0; i < spec->count; i++) {
        if (is_own(search, &spec->listed[i])) {
            poll->own = i;
            poll->up++;
            continue;
        }
        poll->reply[i] = spotnik_peers_ask(search, &spec->listed[i], &poll->answer[i]);
        if (poll->reply[i] == SPOTNIK_PEERS_REPLY_IN_VIEW) {
            search->sponsor = poll->answer[i].self;
            return true;
        }
        poll->up += poll->reply[i] == SPOTNIK_PEERS_REPLY_IDLE;
        poll->for_us += poll->reply[i] == SPOTNIK_PEERS_REPLY_IDLE
                        && spotnik_id_equal(poll->answer[i].vote.id, search->self.self.id);
    }
    return false;
}

static bool is_majority(const struct spotnik_peers_search *search, uint32_t count)
{
    return 2 * count > search->peers->spec.count;
}

/* May we vote again? Our vote was for somebody who is gone, or has withdrawn. */
static bool vote_is_free(const struct spotnik_peers_search *search, const struct poll *poll,
                         const struct spotnik_member *vote)
{
    const struct spotnik_peers_spec *spec = &search->peers->spec;
    if (spotnik_id_is_none(vote->id))
        return true;
    for (uint32_t i = 0; i < spec->count; i++) {
        if (i == poll->own || memcmp(spec->listed[i].address, vote->address, 16) != 0
            || spec->listed[i].port != vote->port)
            continue;
        if (poll->reply[i] == SPOTNIK_PEERS_REPLY_GONE)
            return true;
        if (poll->reply[i] != SPOTNIK_PEERS_REPLY_IDLE)
            return false;
        const struct spotnik_answer *answer = &poll->answer[i];
        return !spotnik_id_equal(answer->self.id, vote->id) || !spotnik_id_equal(answer->vote.id, vote->id);
    }
    return false;
}

/* The first of the list that lives. */
static const struct spotnik_member *favourite(const struct spotnik_peers_search *search,
                                              const struct poll *poll)
{
    for (uint32_t i = 0; i < search->peers->spec.count; i++)
        if (lives(poll, i))
            return i == poll->own ? &search->self.self : &poll->answer[i].self;
    return NULL;
}

/* Bring our vote up to date and tell those who ask. */
static void vote(struct spotnik_peers_search *search, const struct poll *poll,
                 struct spotnik_member *own_vote)
{
    struct spotnik_peers *peers = search->peers;
    bool for_self = spotnik_id_equal(own_vote->id, search->self.self.id);
    const struct spotnik_member *best = favourite(search, poll);
    if (best == NULL || !is_majority(search, poll->up) || spotnik_id_equal(best->id, own_vote->id))
        return;
    if (!for_self && !vote_is_free(search, poll, own_vote))
        return;
    if (for_self)
        peers->withdrawn = true; /* somebody before us in the list is up: step back in its favour */
    if (peers->withdrawn && spotnik_id_equal(best->id, search->self.self.id))
        peers->patience = WITHDRAWN_ROUNDS;
    *own_vote = *best;
    spotnik_engine_vote_set(peers->engine, own_vote);
}

static void votes_say(struct spotnik_peers_search *search, const struct poll *poll)
{
    uint32_t count = search->peers->spec.count;
    if (!is_majority(search, poll->up))
        spotnik_peers_say(search, "%u of %u listed processes are up: a new job needs more than half of them",
                          poll->up, count);
    else if (poll->own == count)
        spotnik_peers_say(search, "the listed processes have not formed the job yet");
}

enum spotnik_peers_round spotnik_peers_list_round(struct spotnik_peers_search *search)
{
    struct spotnik_peers *peers = search->peers;
    struct poll poll;
    search->error = 0;
    if (poll_take(search, &poll))
        return SPOTNIK_PEERS_JOIN;
    if (search->error != 0)
        return SPOTNIK_PEERS_ERROR;
    votes_say(search, &poll);
    if (!search->may_found || poll.own == peers->spec.count)
        return SPOTNIK_PEERS_AGAIN;
    bool for_self = spotnik_id_equal(peers->vote.id, search->self.self.id);
    vote(search, &poll, &peers->vote);
    if (peers->patience > 0)
        peers->patience--;
    /* Votes counted now were given while our own vote was already for us: the one given just above counts
     * next time. */
    if (for_self && spotnik_id_equal(peers->vote.id, search->self.self.id) && peers->patience == 0
        && is_majority(search, 1 + poll.for_us))
        return SPOTNIK_PEERS_FOUND;
    return SPOTNIK_PEERS_AGAIN;
}
