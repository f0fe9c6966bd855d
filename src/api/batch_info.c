/* SPDX-License-Identifier: Apache-2.0 */
/* What others see of dynamic batching and gradient noise: a copy made after each commit, for any
 * thread. */
#include <math.h>
#include <string.h>

#include "api/job.h"

static void shares_fill(const struct spotnik_job *job, spotnik_batch_info *info)
{
    const struct spotnik_batching_state *now = &job->batching->now;

    info->dynamic = 1;
    info->members = now->controller.size;
    info->adjustments = now->controller.adjustments;
    for (uint32_t i = 0; i < info->members; i++) {
        uint64_t samples = now->controller.member[i].samples;
        if (now->share[i] == job->share && job->share < job->shares)
            info->share = samples;
        if (i == 0 || samples < info->share_least)
            info->share_least = samples;
        if (samples > info->share_most)
            info->share_most = samples;
    }
}

static void noise_fill(const struct spotnik_noise_watch *watch, spotnik_batch_info *info)
{
    info->noise_steps = watch->steps;
    info->noise_scale = spotnik_noise_scale(&watch->noise);
    info->noise_error = sqrt(spotnik_noise_error2(&watch->noise));
}

static void times_fill(const struct spotnik_step_stats *agreed, spotnik_batch_info *info)
{
    for (uint32_t i = 0; i < agreed->slots; i++) {
        uint32_t compute_us = agreed->row[i].compute_us;
        if (compute_us && (!info->compute_least_us || compute_us < info->compute_least_us))
            info->compute_least_us = compute_us;
        if (compute_us > info->compute_most_us)
            info->compute_most_us = compute_us;
    }
}

void spotnik_batch_publish(struct spotnik_job *job)
{
    spotnik_batch_info info = { .size = sizeof info };

    if (!job->batching && !job->noise)
        return;
    if (job->batching)
        shares_fill(job, &info);
    times_fill(spotnik_step_stats_get(job), &info);
    if (job->noise)
        noise_fill(job->noise, &info);
    pthread_mutex_lock(&job->rate.lock);
    job->batch_info = info;
    pthread_mutex_unlock(&job->rate.lock);
}

void spotnik_batch_status(spotnik_job *job, spotnik_batch_info *ret)
{
    spotnik_batch_info info = { .size = 0 };

    if (!ret || ret->size < sizeof ret->size)
        return;
    if (!spotnik_job_handle_check(job)) {
        pthread_mutex_lock(&job->rate.lock);
        info = job->batch_info;
        pthread_mutex_unlock(&job->rate.lock);
    }
    info.size = ret->size < sizeof info ? ret->size : sizeof info;
    memcpy(ret, &info, info.size);
}
