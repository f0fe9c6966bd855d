/* SPDX-License-Identifier: Apache-2.0 */
/* From gradients to estimates; what is estimated how is in src/adapt/noise.h. */
#include "api/noise.h"

#include <stdlib.h>

#include "api/job.h"
#include "base/error.h"
#include "reduce/reduce.h"

#define KEEP 0.9 /* of the past, in the smoothed estimates: KungFu's */
/* a pass over memory is faster than that on any machine worth training on */
#define PASS_BYTES_PER_S 2.5e9
#define COST 0.01
#define EVERY_MAX (1u << 20)

int spotnik_noise_open(struct spotnik_job *job)
{
    if (!job->config.noise)
        return 0;
    job->noise = calloc(1, sizeof *job->noise);
    if (!job->noise)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                    "no memory to watch the noise of gradients");
    spotnik_noise_init(&job->noise->noise, KEEP);
    return 0;
}

uint32_t spotnik_noise_interval(uint64_t bytes, double step_s)
{
    double cost_s = 2 * (double)bytes / PASS_BYTES_PER_S;
    uint32_t every = 1;

    while (every < EVERY_MAX && cost_s > COST * step_s * every)
        every *= 2;
    return every;
}

void spotnik_noise_begin(struct spotnik_job *job)
{
    struct spotnik_noise_watch *watch = job->noise;

    if (!watch)
        return;
    watch->measuring = watch->every && job->step % watch->every == 0 && job->samples > 0;
    watch->bytes = 0;
    watch->norm2 = 0;
    for (uint32_t i = 0; i < SPOTNIK_NOISE_BUCKETS; i++)
        watch->used[i] = false;
}

static bool is_gradient(enum spotnik_dtype dtype, enum spotnik_op op)
{
    bool floating = dtype == SPOTNIK_F32 || dtype == SPOTNIK_F64 || dtype == SPOTNIK_F16
                    || dtype == SPOTNIK_BF16;

    return floating && op == SPOTNIK_MEAN;
}

void spotnik_noise_reduce(struct spotnik_job *job, uint32_t bucket, const void *data, size_t count,
                          enum spotnik_dtype dtype, enum spotnik_op op)
{
    struct spotnik_noise_watch *watch = job->noise;

    if (!watch || bucket >= SPOTNIK_NOISE_BUCKETS || !is_gradient(dtype, op))
        return;
    watch->used[bucket] = true;
    watch->bytes += (uint64_t)count * spotnik_dtype_size(dtype);
    if (watch->measuring)
        watch->norm2 += spotnik_reduce_norm2(data, count, dtype);
}

void spotnik_noise_seal(struct spotnik_job *job)
{
    if (job->noise && job->noise->measuring)
        spotnik_step_stats_noise_set(job, job->noise->norm2);
}

/* The rows of the step; false: a member that had samples has not measured. */
static bool step_of(const struct spotnik_step_stats *agreed, struct spotnik_noise_step *ret)
{
    double inverse = 0;

    *ret = (struct spotnik_noise_step){ .members = 0 };
    for (uint32_t i = 0; i < agreed->slots; i++) {
        const struct spotnik_step_stats_row *row = &agreed->row[i];
        if (!row->samples)
            continue;
        if (!(row->noise > 0))
            return false;
        ret->members++;
        ret->batch += row->samples;
        inverse += 1 / (double)row->samples;
        ret->members_norm2 += row->noise;
    }
    if (!ret->members)
        return false;
    ret->members_norm2 /= ret->members;
    ret->small_batch = ret->members / inverse;
    return true;
}

static double average_norm2(struct spotnik_job *job)
{
    struct spotnik_bucket_result result[SPOTNIK_NOISE_BUCKETS];
    uint32_t count =
        spotnik_runtime_results_get(job->runtime, job->step, SPOTNIK_NOISE_BUCKETS, result);
    double sum = 0;

    for (uint32_t i = 0; i < count; i++)
        if (job->noise->used[i] && result[i].data)
            sum += spotnik_reduce_norm2(result[i].data, result[i].count,
                                        (enum spotnik_dtype)result[i].dtype);
    return sum;
}

/* Mean over the members of how long the step took them. */
static double step_seconds(const struct spotnik_step_stats *agreed)
{
    double sum = 0;
    uint32_t members = 0;

    for (uint32_t i = 0; i < agreed->slots; i++) {
        const struct spotnik_step_stats_row *row = &agreed->row[i];
        sum += (double)row->compute_us + (double)row->apply_us + (double)row->wait_us;
        members += row->compute_us != 0;
    }
    return members ? sum / members / 1e6 : 0;
}

void spotnik_noise_committed(struct spotnik_job *job)
{
    struct spotnik_noise_watch *watch = job->noise;
    const struct spotnik_step_stats *agreed = spotnik_step_stats_get(job);
    struct spotnik_noise_step step;

    if (!watch || !agreed || agreed->step != job->step)
        return;
    if (watch->measuring && step_of(agreed, &step)) {
        step.average_norm2 = average_norm2(job);
        watch->steps += spotnik_noise_observe(&watch->noise, &step);
    }
    if (watch->bytes)
        watch->every = spotnik_noise_interval(watch->bytes, step_seconds(agreed));
}
