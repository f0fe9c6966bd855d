/* SPDX-License-Identifier: Apache-2.0 */
/* Messages of the library as a C program gets them. Claims: the callback of spotnik_log_set() and
 * spotnik_log_next() get what happens to the job, with id, name and level; of one id at most one
 * message in five seconds gets through, and the next one says how many were held back; another id
 * is not held back by it. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/time.h"
#include "place.h"
#include "watch/inside.h"
#include "tests.h"

enum { KEPT = 64 };

struct heard {
    spotnik_log_entry entry[KEPT];
    unsigned count;
    sem_t one_more;
};

static void hear(void *context, const spotnik_log_entry *message)
{
    struct heard *heard = context;

    if (heard->count < KEPT)
        heard->entry[heard->count++] = *message;
    sem_post(&heard->one_more);
}

TEST(of_a_job)
{
    struct place place;
    struct heard heard = { .count = 0 };
    spotnik_log_entry again = { .size = sizeof again };
    spotnik_config config;
    spotnik_job *job = NULL;

    sem_init(&heard.one_more, 0, 0);
    place_open(&place);
    place_config(&place, &config);
    assert_int_equal(spotnik_join(&config, &job), 0);
    assert_int_equal(spotnik_log_set(job, hear, &heard), 0);
    spotnik_notice(job);
    sem_wait(&heard.one_more);
    assert_int_equal(spotnik_log_set(job, NULL, NULL), 0); /* none runs from here on */
    assert_int_equal(spotnik_log_next(job, &again), 1);
    /* the watcher starts with the first to ask, and that it did came before the callback */
    assert_string_equal(again.id, "S100");
    assert_int_equal(spotnik_log_next(job, &again), 1);
    assert_string_equal(again.id, "S130");
    assert_string_equal(again.id, heard.entry[0].id);
    assert_string_equal(again.text, heard.entry[0].text);
    for (unsigned i = 0; i < heard.count; i++) {
        assert_true(heard.entry[i].id[0] == 'S' && strlen(heard.entry[i].id) == 4
                    && heard.entry[i].name[0] != '\0');
        assert_true(heard.entry[i].level == SPOTNIK_INFO
                    || heard.entry[i].level == SPOTNIK_WARNING);
    }
    spotnik_leave(job);
    place_close(&place);
    sem_destroy(&heard.one_more);
}

TEST(held_back)
{
    struct spotnik_watch *watch = calloc(1, sizeof *watch);
    struct spotnik_watched *fresh = calloc(1, sizeof *fresh);
    struct heard heard = { .count = 0 };
    spotnik_job_status status = { .step_committed = 812 };

    assert_true(watch && fresh);
    sem_init(&heard.one_more, 0, 0);
    pthread_mutex_init(&watch->lock, NULL);
    pthread_mutex_init(&watch->log_lock, NULL);
    watch->file = -1;
    watch->fresh = fresh;
    spotnik_watch_log_set(watch, hear, &heard);
    for (uint64_t i = 0; i < 10; i++) {
        fresh->now_ns = 1000 * SPOTNIK_S + i * 400 * SPOTNIK_MS;
        spotnik_watch_say(watch, &status, SPOTNIK_SAID_REFUSED, "", "stranger %u", (unsigned)i);
    }
    spotnik_watch_say(watch, &status, SPOTNIK_SAID_PARKED, "", "another");
    fresh->now_ns = 1005 * SPOTNIK_S;
    spotnik_watch_say(watch, &status, SPOTNIK_SAID_REFUSED, "", "stranger 10");

    assert_int_equal(heard.count, 3);
    assert_string_equal(heard.entry[0].id, "S160");
    assert_string_equal(heard.entry[0].text, "stranger 0");
    assert_int_equal(heard.entry[0].held_back, 0);
    assert_int_equal(heard.entry[0].step, 812);
    assert_string_equal(heard.entry[1].id, "S120");
    assert_string_equal(heard.entry[2].text, "stranger 10");
    assert_int_equal(heard.entry[2].held_back, 9);
    for (uint32_t i = 0; i < watch->event_count; i++)
        free(watch->event[i].line);
    pthread_mutex_destroy(&watch->lock);
    pthread_mutex_destroy(&watch->log_lock);
    sem_destroy(&heard.one_more);
    free(fresh);
    free(watch);
}
