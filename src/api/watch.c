/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher of a job: when there is one, what it sees, and the calls of spotnik/watch.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/clock.h"
#include "base/error.h"
#include "adapt/policy.h"
#include "store/store.h"

#define TOKEN_MAX 256

static struct spotnik_watch *watch_of(struct spotnik_job *job)
{
    return __atomic_load_n(&job->watch, __ATOMIC_ACQUIRE);
}

uint64_t spotnik_job_batch(const struct spotnik_job *job, uint32_t size)
{
    if (!job->config.samples)
        return 0;
    return job->config.batch ? job->config.batch : job->config.batch_per_member * size;
}

void spotnik_job_show(struct spotnik_job *job)
{
    __atomic_store_n(&job->shown.founding, job->registry.founding, __ATOMIC_RELAXED);
    __atomic_store_n(&job->shown.outside, job->outside, __ATOMIC_RELAXED);
}

/* The part that ends belongs to the begun step; what ends with a step's begin, to that step. */
void spotnik_job_turn(struct spotnik_job *job, enum spotnik_pace_part part)
{
    uint64_t now_ns = spotnik_clock_ns();

    spotnik_pace_turn(&job->pace, part, now_ns);
    spotnik_runtime_turn(job->runtime, (int)part, job->step, now_ns);
}

/* ---- what it sees ---- */

static void look_at_sync(struct spotnik_job *job, struct spotnik_watched *ret)
{
    const struct spotnik_sync_shown *shown = &job->sync_shown;

    snprintf(ret->strategy, sizeof ret->strategy, "%s", shown->strategy);
    snprintf(ret->policy, sizeof ret->policy, "%s", shown->policy);
    snprintf(ret->reason, sizeof ret->reason, "%s",
             spotnik_sync_reason_text((enum spotnik_sync_reason)shown->reason));
    ret->switches = shown->switches;
    ret->switched_step = shown->switched_step;
}

static void look(void *context, struct spotnik_watched *ret)
{
    struct spotnik_job *job = context;

    memset(ret, 0, sizeof *ret);
    snprintf(ret->job, sizeof ret->job, "%s", job->name);
    ret->now_ns = spotnik_clock_ns();
    ret->born_ns = job->born_ns;
    ret->steps_per_s = spotnik_rate_per_s(&job->rate);
    ret->dollars_per_hour = job->shown.dollars_per_hour;
    ret->founding = __atomic_load_n(&job->shown.founding, __ATOMIC_RELAXED);
    ret->outside = __atomic_load_n(&job->shown.outside, __ATOMIC_RELAXED);
    ret->noticed = spotnik_job_is_noticed(job);
    spotnik_runtime_status(job->runtime, &ret->status);
    spotnik_runtime_troubles(job->runtime, &ret->troubles);
    ret->member_count = spotnik_runtime_members(job->runtime, ret->member, SPOTNIK_WATCHED_MEMBERS,
                                                &ret->view_epoch);
    ret->channel_count =
        spotnik_runtime_channels(job->runtime, ret->channel, SPOTNIK_WATCHED_LANES);
    ret->lineages_told =
        spotnik_runtime_lineage_told(job->runtime, ret->lineage, sizeof ret->lineage);
    ret->refusals = spotnik_runtime_refusals(job->runtime, ret->refusal, sizeof ret->refusal);
    spotnik_runtime_path(job->runtime, ret->path, sizeof ret->path);
    ret->steps_max = job->config.steps_max;
    ret->samples = job->config.samples;
    ret->batch = spotnik_job_batch(job, ret->status.size);
    spotnik_pace_read(&job->pace, &ret->pace);
    spotnik_counters_read(&job->shown.counters, &ret->counters);
    ret->observed_count = spotnik_observed_read(&job->shown.observed, ret->observed);
    /* spotnik_leave() takes `peers` and `checkpoint` away under it */
    pthread_mutex_lock(&job->rate.lock);
    if (job->checkpoint) {
        ret->checkpoint.size = sizeof ret->checkpoint;
        spotnik_checkpoint_info_get(job->checkpoint, &ret->checkpoint);
        ret->checkpoint.size = sizeof ret->checkpoint;
    }
    if (job->peers)
        spotnik_discovery_warning(job->peers, ret->warning, sizeof ret->warning);
    if (job->pausing[0])
        snprintf(ret->warning, sizeof ret->warning, "%s", job->pausing);
    ret->shares = job->batch_info;
    look_at_sync(job, ret);
    pthread_mutex_unlock(&job->rate.lock);
    spotnik_job_warn_barred(job, ret->warning, sizeof ret->warning);
}

/* ---- when there is one ---- */

/* A number of dollars below @p bound from the environment; 0 where nothing is said. */
static int dollars(const char *variable, double bound, const char *what, double *ret)
{
    const char *text = getenv(variable);
    char *end;

    *ret = 0;
    if (!text || !*text)
        return 0;
    double value = strtod(text, &end);
    if (*end || !(value >= 0 && value < bound))
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "%s is \"%.40s\"; it must be %s",
                                    variable, text, what);
    *ret = value;
    return 0;
}

int spotnik_job_price(struct spotnik_job *job)
{
    double budget; /* only checked here: the watch reads it again */
    int rc = dollars("SPOTNIK_BUDGET", 1e15, "the job's budget in dollars", &budget);

    return rc ? rc
              : dollars("SPOTNIK_PRICE", 1e6, "this member's dollars per hour",
                        &job->shown.dollars_per_hour);
}

/* SPOTNIK_EVENTS names a folder, or is "off"; else the log is beside the checkpoints, if they are in
 * a folder. */
static const char *events_dir(const struct spotnik_job *job, char *path, size_t size)
{
    const char *wanted = getenv("SPOTNIK_EVENTS");

    if (wanted && *wanted)
        return strcmp(wanted, "off") ? wanted : NULL;
    if (!job->checkpoint_dir[0] || spotnik_objects_is_bucket(job->checkpoint_dir))
        return NULL;
    snprintf(path, size, "%s/events", job->checkpoint_dir);
    return path;
}

/* The first line of the file. 0 or ARGUMENT. */
static int read_token(char token[TOKEN_MAX])
{
    const char *path = getenv("SPOTNIK_HTTP_TOKEN_FILE");

    token[0] = 0;
    if (!path || !*path)
        return 0;
    FILE *file = fopen(path, "re");
    bool read = file && fgets(token, TOKEN_MAX, file);
    if (file)
        fclose(file);
    token[strcspn(token, "\r\n")] = 0;
    if (read && token[0])
        return 0;
    return spotnik_error_return(
        SPOTNIK_ERR_ARGUMENT,
        "SPOTNIK_HTTP_TOKEN_FILE names %.200s, which holds no token or cannot be read", path);
}

static void say(void *context, uint32_t kind, uint64_t epoch, const char *text)
{
    struct spotnik_job *job = context;

    spotnik_runtime_say(job->runtime, kind, epoch, text);
}

static int open_watch(struct spotnik_job *job, const char *http, const char *events)
{
    char token[TOKEN_MAX];
    struct spotnik_watch_config config = { .context = job,
                                           .look = look,
                                           .status_text = spotnik_job_status_plain,
                                           .say = say,
                                           .credentials = spotnik_runtime_credentials(job->runtime),
                                           .http = http && *http ? http : NULL,
                                           .events_dir = events,
                                           .events_asked_for = getenv("SPOTNIK_EVENTS") != NULL };
    struct spotnik_watch *watch = NULL;
    int rc = read_token(token);

    config.token = token[0] ? token : NULL;
    spotnik_job_show(job);
    if (!rc)
        rc = spotnik_watch_new(&config, &watch);
    __atomic_store_n(&job->watch, watch, __ATOMIC_RELEASE);
    return rc;
}

int spotnik_job_watch_open(struct spotnik_job *job)
{
    char path[SPOTNIK_CHECKPOINT_DIR_MAX + 16];
    const char *http = getenv("SPOTNIK_HTTP"), *events = events_dir(job, path, sizeof path);

    bool wanted = (http && *http) || events || spotnik_runtime_is_heard(job->runtime);

    return wanted ? open_watch(job, http, events) : 0;
}

void spotnik_job_watch_close(struct spotnik_job *job)
{
    struct spotnik_watch *watch = watch_of(job);

    if (watch)
        spotnik_watch_quit(watch, job->shown.how ? job->shown.how
                                                 : "abandoned: to the others this member is lost");
}

void spotnik_job_watch_free(struct spotnik_job *job)
{
    spotnik_watch_free(watch_of(job));
}

/* ---- the public calls ---- */

int spotnik_observe(spotnik_job *job, const char *name, double value)
{
    if (!job)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no job was given");
    return spotnik_observed_put(&job->shown.observed, name, value);
}

static int need_watch(spotnik_job *job)
{
    if (!job)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no job was given");
    return watch_of(job) ? 0 : open_watch(job, NULL, NULL);
}

int spotnik_log_set(spotnik_job *job, void (*log)(void *context, const spotnik_log_entry *message),
                    void *context)
{
    int rc = need_watch(job);

    if (!rc)
        spotnik_watch_log_set(job->watch, log, context);
    return rc;
}

int spotnik_log_next(spotnik_job *job, spotnik_log_entry *ret)
{
    if (!ret || ret->size < sizeof ret->size)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "set the size of the message first");
    int rc = need_watch(job);

    return rc ? rc : spotnik_watch_log_next(job->watch, ret);
}
