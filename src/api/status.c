/* SPDX-License-Identifier: Apache-2.0 */
/* How the job is doing: numbers for the program, JSON for questions from outside, and the rate of
 * steps.
 * */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapt/policy.h"
#include "api/job.h"
#include "base/clock.h"
#include "base/time.h"
#include "link/address.h"
#include "metrics/status.h"

#define RATE_WINDOW_NS SPOTNIK_S
#define MEMBERS_SHOWN 256
#define LANES_SHOWN 16

void spotnik_status(spotnik_job *job, spotnik_job_status *ret)
{
    if (!ret)
        return;
    memset(ret, 0, sizeof *ret);
    if (!spotnik_job_handle_check(job))
        spotnik_runtime_status(job->runtime, ret);
}

uint32_t spotnik_members(spotnik_job *job, spotnik_job_member *ret, uint32_t max)
{
    uint64_t epoch;
    struct spotnik_member *member =
        !spotnik_job_handle_check(job) && ret && max ? calloc(max, sizeof *member) : NULL;
    uint32_t count = member ? spotnik_runtime_members(job->runtime, member, max, &epoch) : 0;

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

/* `shown` keeps the strings. */
static struct spotnik_status_sync sync_status(struct spotnik_job *job,
                                              struct spotnik_sync_shown *shown)
{
    pthread_mutex_lock(&job->rate.lock);
    *shown = job->sync_shown;
    pthread_mutex_unlock(&job->rate.lock);
    return (struct spotnik_status_sync){
        .strategy = shown->strategy,
        .policy = shown->policy,
        .reason = spotnik_sync_reason_text((enum spotnik_sync_reason)shown->reason),
        .asynchronous = shown->mode == SPOTNIK_SYNC_ASYNCHRONOUS,
        .switches = shown->switches,
        .switched_step = shown->switched_step,
        .value = shown->value,
        .limit = shown->limit,
        .throughput = shown->throughput,
        .waiting = shown->waiting,
    };
}

void spotnik_job_warn_barred(const struct spotnik_job *job, char *text, size_t size)
{
    if (spotnik_runtime_is_barred(job->runtime))
        snprintf(text, size,
                 "no step is committed: the place where members meet does not answer, and must "
                 "be looked at first");
}

void spotnik_job_pausing_set(struct spotnik_job *job, const char *text)
{
    pthread_mutex_lock(&job->rate.lock);
    snprintf(job->pausing, sizeof job->pausing, "%s", text);
    pthread_mutex_unlock(&job->rate.lock);
}

/* What spotnik_leave() takes away: read under its lock. False: there are no checkpoints. */
static bool guarded_read(struct spotnik_job *job, char *warning, size_t size,
                         spotnik_batch_info *ret_batch,
                         struct spotnik_checkpoint_health *ret_health)
{
    warning[0] = '\0';
    pthread_mutex_lock(&job->rate.lock);
    if (job->peers)
        spotnik_discovery_warning(job->peers, warning, size);
    if (!warning[0])
        snprintf(warning, size, "%s", job->advice);
    if (job->pausing[0])
        snprintf(warning, size, "%s", job->pausing);
    *ret_batch = job->batch_info;
    bool has_checkpoints = job->checkpoint != NULL;
    if (has_checkpoints)
        spotnik_checkpoint_health_get(job->checkpoint, ret_health);
    pthread_mutex_unlock(&job->rate.lock);
    return has_checkpoints;
}

static size_t status_text(struct spotnik_job *job, const char *extra, char *text, size_t size)
{
    struct spotnik_member member[MEMBERS_SHOWN];
    struct spotnik_observed_value observed[SPOTNIK_OBSERVED_MAX];
    struct spotnik_counters counters;
    struct spotnik_channel_status channel[LANES_SHOWN];
    struct spotnik_donor_status donor;
    spotnik_job_status status;
    char warning[320], refusal[256] = "", path[256] = "", lineage[400] = "";
    struct spotnik_presence presence;

    struct spotnik_runtime *runtime = __atomic_load_n(&job->runtime, __ATOMIC_ACQUIRE);

    if (!runtime)
        return 0; /* asked before spotnik_runtime_new() has returned */
    spotnik_runtime_status(runtime, &status);
    spotnik_donor_status(job->donor, &donor);
    spotnik_batch_info batch;
    struct spotnik_checkpoint_health health;
    bool has_checkpoints = guarded_read(job, warning, sizeof warning, &batch, &health);
    spotnik_job_warn_barred(job, warning, sizeof warning);
    spotnik_runtime_presence(runtime, &presence);
    spotnik_runtime_lineage_told(runtime, lineage, sizeof lineage);
    struct spotnik_status_more more = {
        .presence = presence.founding.id || lineage[0] ? &presence : NULL,
        .lineage = lineage,
        .batch = &batch,
        .steps_max = job->config.steps_max,
        .step_samples = spotnik_job_batch(job, status.size),
        .dollars_per_hour = job->shown.dollars_per_hour,
        .counters = &counters,
        .observed = observed,
        .observed_count = spotnik_observed_read(&job->shown.observed, observed),
        .extra = extra,
        .checkpoint = has_checkpoints ? &health : NULL,
        .job_name = job->name,
        .from = spotnik_job_from_name(job),
        .pid = getpid(),
        .noticed = spotnik_job_is_noticed(job),
        .now_ns = spotnik_clock_ns(),
        .steps_per_s = spotnik_rate_per_s(&job->rate),
        .members_needed = spotnik_runtime_members_needed(runtime),
        .member = member,
        .channel = channel,
        .donor_sessions = donor.sessions,
        .donor_log_bytes = donor.log_bytes,
        .donor_dropped = donor.dropped,
        .warning = warning,
        .refusals = spotnik_runtime_refusals(runtime, refusal, sizeof refusal),
        .refusal = refusal,
        .path_age_ns = spotnik_runtime_path(runtime, path, sizeof path),
        .path = path,
    };
    struct spotnik_sync_shown shown;
    struct spotnik_status_sync sync = sync_status(job, &shown);

    more.sync = shown.strategy[0] ? &sync : NULL;
    spotnik_pace_read(&job->pace, &more.pace);
    spotnik_counters_read(&job->shown.counters, &counters);
    more.uptime_ns = more.now_ns - job->born_ns;
    more.channel_count = spotnik_runtime_channels(runtime, channel, LANES_SHOWN);
    more.member_count = spotnik_runtime_members(runtime, member, MEMBERS_SHOWN, &more.view_epoch);
    return spotnik_status_text(&status, &more, text, size);
}

size_t spotnik_job_status_plain(void *job, char *text, size_t size)
{
    return status_text(job, NULL, text, size);
}

#define EXTRA_MAX (64u * 1024)

/* The progress thread answers with it: what the watcher is busy with is left out. */
size_t spotnik_job_status_text(void *context, char *text, size_t size)
{
    struct spotnik_job *job = context;
    struct spotnik_watch *watch = __atomic_load_n(&job->watch, __ATOMIC_ACQUIRE);
    char *extra = watch ? malloc(EXTRA_MAX) : NULL;
    size_t known = extra ? spotnik_watch_extra(watch, extra, EXTRA_MAX) : 0;
    size_t length = status_text(job, known ? extra : NULL, text, size);

    free(extra);
    return length;
}
