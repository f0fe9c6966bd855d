/* SPDX-License-Identifier: Apache-2.0 */
/* How the job is doing: numbers for the program, JSON for questions from outside, and the rate of
 * steps.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/clock.h"
#include "base/time.h"
#include "link/address.h"

#define RATE_WINDOW_NS SPOTNIK_S

void spotnik_status(spotnik_job *job, spotnik_job_status *ret)
{
    if (!ret)
        return;
    memset(ret, 0, sizeof *ret);
    if (!spotnik_job_usable(job))
        spotnik_engine_status(job->engine, ret);
}

uint32_t spotnik_members(spotnik_job *job, spotnik_job_member *ret, uint32_t max)
{
    uint64_t epoch;
    struct spotnik_member *member =
        !spotnik_job_usable(job) && ret && max ? calloc(max, sizeof *member) : NULL;
    uint32_t count = member ? spotnik_engine_members(job->engine, member, max, &epoch) : 0;

    for (uint32_t i = 0; i < count; i++) {
        snprintf(ret[i].member, sizeof ret[i].member, "%016llx%016llx",
                 (unsigned long long)member[i].id.high, (unsigned long long)member[i].id.low);
        spotnik_address_format(ret[i].address, member[i].address, member[i].port);
    }
    free(member);
    return count;
}

void spotnik_rate_count(struct spotnik_rate *rate, uint64_t step, uint64_t now_ns)
{
    pthread_mutex_lock(&rate->lock);
    if (!rate->begun_ns || step < rate->begun_step) {
        rate->begun_ns = now_ns;
        rate->begun_step = step;
    } else if (now_ns - rate->begun_ns >= RATE_WINDOW_NS) {
        rate->from_ns = rate->begun_ns;
        rate->from_step = rate->begun_step;
        rate->to_ns = rate->begun_ns = now_ns;
        rate->to_step = rate->begun_step = step;
    }
    pthread_mutex_unlock(&rate->lock);
}

/* When no step has come for long, the silence counts too: a stalled job must not look busy. */
double spotnik_rate_per_s(struct spotnik_rate *rate)
{
    pthread_mutex_lock(&rate->lock);
    uint64_t to_ns = rate->to_ns, now_ns = spotnik_clock_ns();
    if (spotnik_time_since(now_ns, to_ns) > 3 * RATE_WINDOW_NS)
        to_ns = now_ns;
    uint64_t took_ns = to_ns - rate->from_ns, steps = rate->to_step - rate->from_step;
    bool known = rate->from_ns != 0;
    pthread_mutex_unlock(&rate->lock);
    return known && took_ns ? (double)steps * 1e9 / (double)took_ns : 0;
}

#define EXTRA_MAX (64u * 1024)

/* The progress thread answers with it: what the watcher is busy with is left out. */
size_t spotnik_job_status_text(void *context, char *text, size_t size)
{
    struct spotnik_job *job = context;

    if (!__atomic_load_n(&job->engine, __ATOMIC_ACQUIRE))
        return 0; /* asked before spotnik_engine_new() has returned */
    struct spotnik_watch *watch = __atomic_load_n(&job->watch, __ATOMIC_ACQUIRE);
    struct spotnik_watched *now = malloc(sizeof *now);
    char *extra = watch ? malloc(EXTRA_MAX) : NULL;
    size_t known = extra ? spotnik_watch_extra(watch, extra, EXTRA_MAX) : 0, length = 0;

    if (now) {
        spotnik_job_look(job, now);
        length = spotnik_status_text(now, known ? extra : NULL, text, size);
    }
    free(now);
    free(extra);
    return length;
}
