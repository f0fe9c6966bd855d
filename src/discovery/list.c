/* SPDX-License-Identifier: Apache-2.0 */
/* One round of the search in a list of addresses. Join a process that is in a view; else elect a
 * founder among the listed processes, by the votes of all of them. Only the processes of a job
 * remember that it was founded. We ask those that are listed; those that are not listed ask us
 * (announce). So a part of the list founds nothing.
 *
 * A vote binds until the process it was given to has been replaced at its address, or has itself
 * voted for another. A process that votes for another withdraws, and does not found. So two
 * founders would need one process to have voted twice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "link/address.h"
#include "discovery/inside.h"

#define ANNOUNCED_REFRESHES 5 /* members outside of the list have asked us by then */
#define WITHDRAWN_ROUNDS 30   /* those that saw us withdraw have acted on it by then */

struct poll {
    uint32_t own; /* our place in the list; count: not listed */
    uint32_t up, for_us;
    bool counts
        [SPOTNIK_DISCOVERY_LISTED_MAX]; /* lives, and answered where it was asked; an id once */
    struct spotnik_question question[SPOTNIK_DISCOVERY_LISTED_MAX];
};

static bool lives(const struct poll *poll, uint32_t i)
{
    return i == poll->own || poll->counts[i];
}

static bool is_at(const struct spotnik_member *member, const struct spotnik_member *listed)
{
    return memcmp(listed->address, member->address, 16) == 0 && listed->port == member->port;
}

static const char *address_text(const struct spotnik_member *member,
                                char text[SPOTNIK_ADDRESS_TEXT])
{
    return spotnik_address_format(text, member->address, member->port);
}

/* Does this answer count? Behind one address there may be several processes, or we ourselves. */
static bool answer_counts(struct spotnik_discovery_search *search, const struct poll *poll,
                          uint32_t i)
{
    const struct spotnik_member *listed = &search->discovery->spec.listed[i],
                                *self = &poll->question[i].answer.self;
    char asked[SPOTNIK_ADDRESS_TEXT], answered[SPOTNIK_ADDRESS_TEXT];
    if (poll->question[i].reply == SPOTNIK_DISCOVERY_REPLY_ECHO) {
        spotnik_discovery_say(search,
                              "%s leads back to this process: list the address that it binds",
                              address_text(listed, asked));
        return false;
    }
    if (poll->question[i].reply != SPOTNIK_DISCOVERY_REPLY_IDLE)
        return false;
    if (!is_at(self, listed)) {
        spotnik_discovery_say(search, "at %s a process answers that binds %s: list that address",
                              address_text(listed, asked), address_text(self, answered));
        return false;
    }
    for (uint32_t k = 0; k < i; k++)
        if (poll->counts[k] && spotnik_id_equal(poll->question[k].answer.self.id, self->id))
            return false;
    return true;
}

static void reply_say(struct spotnik_discovery_search *search,
                      const struct spotnik_question *question)
{
    if (question->reply == SPOTNIK_DISCOVERY_REPLY_PARKED)
        spotnik_discovery_say(search,
                              "a member was found that is itself cut off from the majority");
    if (question->text[0] != '\0')
        spotnik_discovery_say(search, "%s", question->text);
    if (question->refusal != 0) {
        search->refusal = question->refusal;
        snprintf(search->refused, sizeof search->refused, "%s", question->text);
    }
}

/* Only a person knows which of two jobs is meant. */
static int two_jobs(const struct spotnik_answer *one, const struct spotnik_answer *other)
{
    char at[2][SPOTNIK_ADDRESS_TEXT], job[2][120];
    const struct spotnik_answer *of[2] = { one, other };
    for (int i = 0; i < 2; i++) {
        address_text(&of[i]->self, at[i]);
        spotnik_presence_describe(&of[i]->presence, job[i], sizeof job[i]);
    }
    return spotnik_error_return(
        SPOTNIK_ERR_LINEAGE,
        "two jobs have this name: %s at %s, and %s at %s. Name the members of one of them alone "
        "(SPOTNIK_PEERS), or end the other, or start it again with another SPOTNIK_JOB",
        job[0], at[0], job[1], at[1]);
}

/* The member to join by, or an error. False: there is none. */
static bool sponsor_find(struct spotnik_discovery_search *search,
                         const struct spotnik_question *question, uint32_t count)
{
    const struct spotnik_answer *first = NULL;
    bool joins = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct spotnik_answer *answer = &question[i].answer;
        if (question[i].reply != SPOTNIK_DISCOVERY_REPLY_IN_VIEW
            && question[i].reply != SPOTNIK_DISCOVERY_REPLY_PARKED)
            continue;
        if (!spotnik_discovery_may_follow(search->discovery, answer)) {
            spotnik_discovery_say(
                search, "a member was found that is of another job than this process was in");
            continue;
        }
        first = first == NULL ? answer : first;
        if (spotnik_founding_differs(&answer->presence.founding, &first->presence.founding)) {
            search->error = two_jobs(first, answer);
            return true;
        }
        if (question[i].reply == SPOTNIK_DISCOVERY_REPLY_IN_VIEW)
            search->sponsor = answer->self;
        joins |= question[i].reply == SPOTNIK_DISCOVERY_REPLY_IN_VIEW;
    }
    return joins;
}

/* Ask all the others. True: one of them is in a view. */
static bool poll_take(struct spotnik_discovery_search *search, struct poll *poll)
{
    const struct spotnik_discovery_spec *spec = &search->discovery->spec;
    memset(poll, 0, sizeof *poll);
    poll->own = spec->count;
    for (uint32_t i = 0; i < spec->count; i++) {
        poll->question[i].expected = &spec->listed[i];
        poll->question[i].skipped = is_at(&search->self.self, &spec->listed[i]);
        poll->own = poll->question[i].skipped ? i : poll->own;
    }
    spotnik_discovery_ask(&search->self, poll->question, spec->count, false, NULL);
    if (sponsor_find(search, poll->question, spec->count))
        return true;
    poll->up = poll->own < spec->count;
    for (uint32_t i = 0; i < spec->count; i++) {
        if (i == poll->own)
            continue;
        reply_say(search, &poll->question[i]);
        search->undecided += poll->question[i].reply != SPOTNIK_DISCOVERY_REPLY_REFUSES;
        poll->counts[i] = answer_counts(search, poll, i);
        poll->up += poll->counts[i];
        poll->for_us += poll->counts[i]
                        && spotnik_id_equal(poll->question[i].answer.vote.id, search->self.self.id);
    }
    return false;
}

/* Members that are not listed ask those that are; ask back the processes that asked us. True: one
 * is in a view. */
static bool callers_ask(struct spotnik_discovery_search *search)
{
    struct spotnik_member caller[SPOTNIK_CALLERS_KEPT];
    struct spotnik_question question[SPOTNIK_CALLERS_KEPT] = { { .expected = NULL } };
    uint32_t count =
        spotnik_runtime_callers(search->discovery->runtime, caller, SPOTNIK_CALLERS_KEPT);
    for (uint32_t i = 0; i < count; i++)
        question[i].expected = &caller[i];
    if (count > 0)
        spotnik_discovery_ask(&search->self, question, count, false, NULL);
    return sponsor_find(search, question, count);
}

static bool is_enough(const struct spotnik_discovery_search *search, uint32_t count)
{
    return count == search->discovery->spec.count;
}

/* May we vote again? The process that we voted for has been replaced, or has withdrawn. */
static bool vote_is_free(const struct spotnik_discovery_search *search, const struct poll *poll,
                         const struct spotnik_member *vote)
{
    const struct spotnik_discovery_spec *spec = &search->discovery->spec;
    if (spotnik_id_is_none(vote->id))
        return true;
    for (uint32_t i = 0; i < spec->count; i++) {
        const struct spotnik_answer *answer = &poll->question[i].answer;
        if (i == poll->own || !is_at(vote, &spec->listed[i]) || !poll->counts[i])
            continue;
        /* two processes of one host do not listen on one port */
        if (!spotnik_id_equal(answer->self.id, vote->id))
            return answer->self.host == vote->host && vote->host != 0;
        return !spotnik_id_equal(answer->vote.id, vote->id);
    }
    return false;
}

/* The first of the list that lives. */
static const struct spotnik_member *favourite(const struct spotnik_discovery_search *search,
                                              const struct poll *poll)
{
    for (uint32_t i = 0; i < search->discovery->spec.count; i++)
        if (lives(poll, i))
            return i == poll->own ? &search->self.self : &poll->question[i].answer.self;
    return NULL;
}

/* Bring our vote up to date, for processes that ask. */
static void vote(struct spotnik_discovery_search *search, const struct poll *poll,
                 struct spotnik_member *own_vote)
{
    struct spotnik_discovery *discovery = search->discovery;
    bool for_self = spotnik_id_equal(own_vote->id, search->self.self.id);
    const struct spotnik_member *best = favourite(search, poll);
    if (best == NULL || !is_enough(search, poll->up) || spotnik_id_equal(best->id, own_vote->id))
        return;
    if (!for_self && !vote_is_free(search, poll, own_vote))
        return;
    if (for_self)
        discovery->withdrawn =
            true; /* somebody before us in the list is up: step back in its favour */
    if (discovery->withdrawn && spotnik_id_equal(best->id, search->self.self.id))
        discovery->patience = WITHDRAWN_ROUNDS;
    *own_vote = *best;
    spotnik_runtime_vote_set(discovery->runtime, own_vote);
}

static void votes_say(struct spotnik_discovery_search *search, const struct poll *poll)
{
    const struct spotnik_discovery_spec *spec = &search->discovery->spec;
    if (!is_enough(search, poll->up))
        spotnik_discovery_say(
            search,
            "%u of %u listed processes are up: a new job needs all of them, since "
            "one that is not up may be in a job",
            poll->up, spec->count);
    else if (poll->own == spec->count)
        spotnik_discovery_say(search, "the listed processes have not formed the job yet");
}

/* Long enough for members that are not in the list to have asked us, as long as we were there to be
 * asked. */
static bool has_waited(const struct spotnik_discovery_search *search)
{
    return spotnik_time_since(spotnik_discovery_clock_ns(), search->begun_ns)
           >= ANNOUNCED_REFRESHES * search->discovery->times.refresh_ns;
}

enum spotnik_discovery_round spotnik_discovery_list_round(struct spotnik_discovery_search *search)
{
    struct spotnik_discovery *discovery = search->discovery;
    struct poll poll;
    search->error = 0;
    if (poll_take(search, &poll) || callers_ask(search))
        return search->error != 0 ? SPOTNIK_DISCOVERY_ERROR : SPOTNIK_DISCOVERY_JOIN;
    votes_say(search, &poll);
    if (!search->may_found || poll.own == discovery->spec.count)
        return SPOTNIK_DISCOVERY_AGAIN;
    bool for_self = spotnik_id_equal(discovery->vote.id, search->self.self.id);
    vote(search, &poll, &discovery->vote);
    if (discovery->patience > 0)
        discovery->patience--;
    /* Votes counted now were given while our own vote was already for us: the one given just above
     * counts next time. */
    if (for_self && spotnik_id_equal(discovery->vote.id, search->self.self.id)
        && discovery->patience == 0 && is_enough(search, 1 + poll.for_us) && has_waited(search)) {
        spotnik_discovery_founding_set(discovery, 0); /* the founder makes a new one */
        return SPOTNIK_DISCOVERY_FOUND;
    }
    return SPOTNIK_DISCOVERY_AGAIN;
}

/* ---- members ---- */

#define KNOWN_MAX 1024

static bool is_member(const struct spotnik_member *listed, const struct spotnik_member *member,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (is_at(&member[i], listed))
            return true;
    return false;
}

/* The more members there are, the more seldom each of them asks. */
void spotnik_discovery_announce(struct spotnik_discovery *discovery,
                                const spotnik_job_status *status)
{
    struct spotnik_credentials self = spotnik_discovery_introduction(discovery);
    const struct spotnik_discovery_spec *spec = &discovery->spec;
    struct spotnik_question question[SPOTNIK_DISCOVERY_LISTED_MAX] = { { .expected = NULL } };
    struct spotnik_member *member = calloc(KNOWN_MAX, sizeof *member);
    uint64_t epoch, now_ns = spotnik_discovery_clock_ns();
    if (member != NULL && now_ns >= discovery->absent_ns) {
        uint32_t count = spotnik_runtime_members(discovery->runtime, member, KNOWN_MAX, &epoch);
        discovery->absent_ns = now_ns + discovery->times.refresh_ns * (status->size / 8);
        for (uint32_t i = 0; i < spec->count; i++) {
            question[i].expected = &spec->listed[i];
            question[i].skipped = is_member(&spec->listed[i], member, count);
        }
        spotnik_discovery_ask(&self, question, spec->count, false, NULL);
        for (uint32_t i = 0; i < spec->count; i++)
            if (question[i].reply != SPOTNIK_DISCOVERY_REPLY_NONE && question[i].answer.epoch > 0)
                (void)spotnik_runtime_is_foreign(discovery->runtime, &question[i].answer);
    }
    free(member);
}
