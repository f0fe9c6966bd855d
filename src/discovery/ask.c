/* SPDX-License-Identifier: Apache-2.0 */
/* Asking processes what they know of the job, many at a time: the silent take half a second each.
 * And what they said, for the error message. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/thread.h"
#include "discovery/inside.h"

/* so that a round of hundreds of silent members does not outlast what counts of it (gap_max_ns) */
#define THREADS_MAX 128

struct crowd {
    const struct spotnik_credentials *self;
    struct spotnik_question *question;
    uint32_t count, next; /* next: taken by __atomic builtins */
    bool enough, met;
    const struct spotnik_founding *ours; /* NULL: any job will do */
};

/* It has nothing to do with the process that had this address before. */
static bool is_of_another_job(const struct crowd *crowd, struct spotnik_question *question)
{
    const struct spotnik_presence *theirs = &question->answer.presence;
    char job[120];
    if (crowd->ours == NULL || !spotnik_founding_is_foreign(crowd->ours, &theirs->founding))
        return false;
    spotnik_presence_describe(theirs, job, sizeof job);
    snprintf(question->text, sizeof question->text, "another job of this name, %s, answers", job);
    return true;
}

static enum spotnik_discovery_reply classify(const struct crowd *crowd,
                                             const struct spotnik_question *question)
{
    const struct spotnik_answer *answer = &question->answer;
    const struct spotnik_member *expected = question->expected;
    /* an answer from ourselves never counts */
    bool echo = spotnik_id_equal(answer->self.id, crowd->self->self.id);
    if (answer->epoch > 0 && !echo)
        return answer->parked ? SPOTNIK_DISCOVERY_REPLY_PARKED : SPOTNIK_DISCOVERY_REPLY_IN_VIEW;
    bool expects = !spotnik_id_is_none(expected->id),
         same = spotnik_id_equal(expected->id, answer->self.id);
    if (expects && same)
        return SPOTNIK_DISCOVERY_REPLY_IDLE;
    if (expects && answer->self.host == expected->host && answer->self.host != 0)
        /* two processes of one host do not listen on one port */
        return SPOTNIK_DISCOVERY_REPLY_GONE;
    if (echo)
        return SPOTNIK_DISCOVERY_REPLY_ECHO;
    return expects ? SPOTNIK_DISCOVERY_REPLY_OTHER : SPOTNIK_DISCOVERY_REPLY_IDLE;
}

static void ask(const struct crowd *crowd, struct spotnik_question *question)
{
    bool refused;
    if (question->expected->port == 0) { /* a name that has no address now (dns.h) */
        question->reply = SPOTNIK_DISCOVERY_REPLY_SILENT;
        question->refusal = 0;
        snprintf(question->text, sizeof question->text, "its name has no address now");
        return;
    }
    int rc = spotnik_net_ask(crowd->self, question->expected->address, question->expected->port,
                             SPOTNIK_DISCOVERY_ASK_NS, &question->answer, &refused);
    question->refusal = 0;
    question->text[0] = '\0';
    if (rc == 0) {
        question->reply = is_of_another_job(crowd, question) ? SPOTNIK_DISCOVERY_REPLY_OTHER
                                                             : classify(crowd, question);
        return;
    }
    snprintf(question->text, sizeof question->text, "%s", spotnik_last_error());
    question->refusal = rc != SPOTNIK_ERR_PEERS ? rc : 0;
    question->reply =
        rc != SPOTNIK_ERR_PEERS ? SPOTNIK_DISCOVERY_REPLY_REFUSES : SPOTNIK_DISCOVERY_REPLY_SILENT;
}

static void *work(void *context)
{
    struct crowd *crowd = context;
    for (;;) {
        uint32_t i = __atomic_fetch_add(&crowd->next, 1, __ATOMIC_RELAXED);
        if (i >= crowd->count || __atomic_load_n(&crowd->met, __ATOMIC_RELAXED))
            return NULL;
        if (crowd->question[i].skipped)
            continue;
        ask(crowd, &crowd->question[i]);
        if (crowd->enough && crowd->question[i].reply == SPOTNIK_DISCOVERY_REPLY_IN_VIEW)
            __atomic_store_n(&crowd->met, true, __ATOMIC_RELAXED);
    }
}

void spotnik_discovery_ask(const struct spotnik_credentials *self,
                           struct spotnik_question *question, uint32_t count, bool enough,
                           const struct spotnik_founding *ours)
{
    struct crowd crowd = {
        .self = self, .question = question, .count = count, .enough = enough, .ours = ours
    };
    pthread_t helper[THREADS_MAX];
    uint32_t helpers = 0, asked = 0;
    for (uint32_t i = 0; i < count; i++)
        asked += !question[i].skipped;
    while (helpers < THREADS_MAX && helpers + 1 < asked
           && spotnik_thread_create(&helper[helpers], work, &crowd) == 0)
        helpers++;
    work(&crowd); /* where no thread can be had, it takes longer */
    for (uint32_t i = 0; i < helpers; i++)
        pthread_join(helper[i], NULL);
}

void spotnik_discovery_say(struct spotnik_discovery_search *search, const char *format, ...)
{
    size_t have = strlen(search->said);
    va_list arguments;
    if (have + 4 >= sizeof search->said)
        return;
    if (have > 0) {
        memcpy(search->said + have, "; ", 3);
        have += 2;
    }
    va_start(arguments, format);
    vsnprintf(search->said + have, sizeof search->said - have, format, arguments);
    va_end(arguments);
}
