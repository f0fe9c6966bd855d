/* SPDX-License-Identifier: Apache-2.0 */
#include "base/parallel.h"

#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "base/thread.h"
#include "spotnik/spotnik.h"

struct run {
    int (*each)(void *context, uint32_t number);
    void *context;
    uint32_t count;
    pthread_mutex_t lock; /* of the rest */
    uint32_t next;
    int rc;
    char why[512];
};

static uint32_t number_take(struct run *run)
{
    pthread_mutex_lock(&run->lock);
    uint32_t number = run->rc == 0 && run->next < run->count ? run->next++ : run->count;
    pthread_mutex_unlock(&run->lock);
    return number;
}

static void failure_note(struct run *run, int rc)
{
    pthread_mutex_lock(&run->lock);
    if (run->rc == 0)
        snprintf(run->why, sizeof run->why, "%s", spotnik_last_error());
    run->rc = run->rc != 0 ? run->rc : rc;
    pthread_mutex_unlock(&run->lock);
}

static void *work(void *argument)
{
    struct run *run = argument;
    for (uint32_t number; (number = number_take(run)) < run->count;) {
        int rc = run->each(run->context, number);
        if (rc != 0)
            failure_note(run, rc);
    }
    return NULL;
}

int spotnik_parallel(uint32_t count, uint32_t threads, int (*each)(void *context, uint32_t number),
                     void *context)
{
    struct run run = {
        .each = each, .context = context, .count = count, .lock = PTHREAD_MUTEX_INITIALIZER
    };
    pthread_t thread[SPOTNIK_PARALLEL_MAX];
    uint32_t started = 0;
    threads = threads < count ? threads : count;
    /* Without a thread the others do its work. */
    while (started + 1 < threads && started < SPOTNIK_PARALLEL_MAX
           && spotnik_thread_create(&thread[started], work, &run) == 0)
        started++;
    work(&run);
    while (started > 0)
        pthread_join(thread[--started], NULL);
    pthread_mutex_destroy(&run.lock);
    return run.rc != 0 ? spotnik_error_return(run.rc, "%s", run.why) : 0;
}
