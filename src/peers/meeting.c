/* SPDX-License-Identifier: Apache-2.0 */
/* What follows when our lineage meets another one of the same job, or an operator has a word for us
 * (docs/design/0028-lineages.md). Which of two stands is decided in member/founding.c; here it is
 * said, handed on to the members of our view, and done. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "link/address.h"
#include "peers/inside.h"

#define KNOWN_MAX 1024
#define WORD_NS (500 * SPOTNIK_MS)

bool spotnik_peers_may_follow(struct spotnik_peers *peers, const struct spotnik_answer *answer)
{
    struct spotnik_founding past = spotnik_engine_past(peers->engine);
    const struct spotnik_founding *theirs = &answer->presence.founding;
    return !spotnik_founding_differs(&past, theirs)
           || (theirs->root == past.root && theirs->generation > past.generation);
}

/* ---- handing it on ---- */

struct errand {
    const struct spotnik_credentials *self;
    const struct spotnik_member *member;
    uint32_t count, next; /* next: taken by __atomic builtins */
    enum spotnik_word word;
    uint64_t argument;
};

static void *errand_run(void *context)
{
    struct errand *errand = context;
    char line[80];
    for (uint32_t i; (i = __atomic_fetch_add(&errand->next, 1, __ATOMIC_RELAXED)) < errand->count;)
        if (!spotnik_id_equal(errand->member[i].id, errand->self->self.id))
            (void)spotnik_net_say(errand->self, errand->member[i].address, errand->member[i].port,
                                  errand->word, errand->argument, WORD_NS, line, sizeof line);
    return NULL;
}

static void say_to(struct spotnik_peers *peers, const struct spotnik_member *member, uint32_t count,
                   enum spotnik_word word, uint64_t argument)
{
    enum { HELPERS = 16 };
    struct spotnik_credentials self = spotnik_peers_introduction(peers);
    struct errand errand = {
        .self = &self, .member = member, .count = count, .word = word, .argument = argument
    };
    pthread_t helper[HELPERS];
    uint32_t helpers = 0;
    while (helpers < HELPERS && helpers + 1 < count
           && spotnik_thread_create(&helper[helpers], errand_run, &errand) == 0)
        helpers++;
    errand_run(&errand);
    for (uint32_t i = 0; i < helpers; i++)
        pthread_join(helper[i], NULL);
    explicit_bzero(&self, sizeof self);
}

static void view_tell(struct spotnik_peers *peers, enum spotnik_word word, uint64_t argument)
{
    struct spotnik_member *member = calloc(KNOWN_MAX, sizeof *member);
    uint64_t epoch;
    uint32_t count =
        member != NULL ? spotnik_engine_members(peers->engine, member, KNOWN_MAX, &epoch) : 0;
    say_to(peers, member, count, word, argument);
    free(member);
}

/* ---- what came of it ---- */

static void describe(const struct spotnik_encounter *encounter, const char *what, char *text,
                     size_t size)
{
    char address[SPOTNIK_ADDRESS_TEXT];
    const struct spotnik_presence *ours = &encounter->ours, *theirs = &encounter->theirs;
    spotnik_address_format(address, encounter->peer.address, encounter->peer.port);
    if (encounter->told)
        snprintf(
            text, size,
            "this lineage (%016llx) yields to %016llx, says %s; this member stops after step %llu",
            (unsigned long long)ours->founding.id, (unsigned long long)theirs->founding.id, address,
            (unsigned long long)ours->step);
    else
        snprintf(text, size,
                 "%s has another %s of this job: %016llx, %s step %llu, and ours is %016llx, %s "
                 "step %llu; %s. See them with "
                 "\"spotnik lineage\"",
                 address, encounter->fork ? "history" : "lineage",
                 (unsigned long long)theirs->founding.id, theirs->parked ? "parked at" : "at",
                 (unsigned long long)theirs->step, (unsigned long long)ours->founding.id,
                 ours->parked ? "parked at" : "at", (unsigned long long)ours->step, what);
}

/* A parked member of an older generation that is not further loses nothing by joining the next
 * one. */
static bool follows(const struct spotnik_encounter *encounter)
{
    const struct spotnik_presence *ours = &encounter->ours, *theirs = &encounter->theirs;
    return !encounter->told && !encounter->fork && ours->parked
           && ours->founding.root == theirs->founding.root && theirs->step >= ours->step;
}

static void yield(struct spotnik_peers *peers, const struct spotnik_encounter *encounter)
{
    char text[400];
    if (follows(encounter)) {
        describe(encounter, "this member joins it", text, sizeof text);
        spotnik_engine_lineage_tell(peers->engine, text);
        spotnik_engine_over(peers->engine);
        return;
    }
    describe(encounter,
             encounter->fork ? "ours yields, and this member stops"
                             : "ours is the younger one, and this member stops",
             text, sizeof text);
    spotnik_engine_lineage_tell(peers->engine, text);
    uint64_t argument = encounter->told   ? encounter->argument
                        : encounter->fork ? encounter->ours.chain
                                          : encounter->theirs.founding.id;
    pthread_mutex_lock(&peers->lock);
    peers->superseded = true; /* nothing more is published */
    pthread_mutex_unlock(&peers->lock);
    view_tell(peers, encounter->fork ? SPOTNIK_WORD_FORK : SPOTNIK_WORD_STANDS, argument);
    spotnik_engine_yield(peers->engine, text,
                         encounter->told
                             || encounter->ours.founding.root != encounter->theirs.founding.root);
}

/* Those we meet, we meet every second. */
static bool is_news(struct spotnik_peers *peers, const struct spotnik_encounter *encounter)
{
    bool news = peers->met != encounter->theirs.founding.id || peers->met_as != encounter->meeting;
    peers->met = encounter->theirs.founding.id;
    peers->met_as = encounter->meeting;
    return news;
}

void spotnik_peers_meetings(struct spotnik_peers *peers)
{
    struct spotnik_encounter encounter;
    spotnik_job_status status;
    char text[400];
    if (!spotnik_engine_encounter_take(peers->engine, &encounter))
        return;
    spotnik_engine_status(peers->engine, &status);
    if (encounter.meeting == SPOTNIK_MEETING_YIELD) {
        yield(peers, &encounter);
    } else if (encounter.meeting != SPOTNIK_MEETING_NOTHING) {
        describe(&encounter,
                 encounter.meeting == SPOTNIK_MEETING_STAND
                     ? "that one yields, and ours goes on"
                     : "neither yields: one is parked, and the other is further",
                 text, sizeof text);
        if (is_news(peers, &encounter))
            spotnik_engine_lineage_tell(peers->engine, text);
        if (encounter.fork && encounter.meeting == SPOTNIK_MEETING_STAND) /* it may not know */
            say_to(peers, &encounter.peer, 1, SPOTNIK_WORD_FORK, encounter.theirs.chain);
    }
    if (encounter.forced)
        spotnik_peers_force(peers, &status);
}
