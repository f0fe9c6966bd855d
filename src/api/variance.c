/* SPDX-License-Identifier: Apache-2.0 */
/* Squares of what every member contributes, and what is made of their mean. */
#include "api/variance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "reduce/compress.h"

#define WIDENED 1024 /* halves at once */

int spotnik_variance_open(struct spotnik_job *job)
{
    if (job->config.noise < SPOTNIK_NOISE_VARIANCE)
        return 0;
    job->variance = calloc(1, sizeof *job->variance);
    if (!job->variance)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY,
                                    "no memory to watch the variance of gradients");
    job->variance->every = job->config.noise_every;
    return 0;
}

void spotnik_variance_begin(struct spotnik_job *job)
{
    struct spotnik_variance *variance = job->variance;

    if (!variance)
        return;
    variance->measuring = job->step % variance->every == 0;
    variance->started = false;
    variance->parts = 0;
}

void spotnik_variance_reduce(struct spotnik_job *job, uint32_t bucket, const void *data,
                             size_t count, enum spotnik_dtype dtype)
{
    struct spotnik_variance *variance = job->variance;

    if (variance && variance->measuring)
        variance->part[variance->parts++] =
            (struct spotnik_variance_part){ bucket, dtype, data, count };
}

static void square_f32(float *out, const float *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] * in[i];
}

static void square_f64(double *out, const double *in, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = in[i] * in[i];
}

static void square_halves(float *out, const unsigned char *in, size_t count,
                          enum spotnik_dtype dtype)
{
    for (size_t some; count > 0; count -= some, out += some, in += 2 * some) {
        some = count < WIDENED ? count : WIDENED;
        spotnik_compress_widen(out, in, some, dtype);
        square_f32(out, out, some);
    }
}

/* Returns where the next one goes. A caller's memory is as aligned as its type asks for. */
static void *square(const struct spotnik_variance *variance,
                    const struct spotnik_variance_part *part, void *out)
{
    if (variance->dtype == SPOTNIK_F32) {
        if (part->dtype == SPOTNIK_F32)
            square_f32(out, part->data, part->count);
        else
            square_halves(out, part->data, part->count, part->dtype);
        return (float *)out + part->count;
    }
    double *to = out;

    if (part->dtype == SPOTNIK_F64) {
        square_f64(to, part->data, part->count);
        return to + part->count;
    }
    float wide[WIDENED]; /* a wider sum than theirs, beside gradients of F64 */
    for (size_t i = 0, some; i < part->count; i += some) {
        some = part->count - i < WIDENED ? part->count - i : WIDENED;
        if (part->dtype == SPOTNIK_F32)
            square_f32(wide, (const float *)part->data + i, some);
        else
            square_halves(wide, (const unsigned char *)part->data + 2 * i, some, part->dtype);
        for (size_t k = 0; k < some; k++)
            to[i + k] = (double)wide[k];
    }
    return to + part->count;
}

/* How much there is, and as what. */
static size_t plan(struct spotnik_variance *variance)
{
    variance->dtype = SPOTNIK_F32;
    variance->count = 0;
    for (uint32_t i = 0; i < variance->parts; i++) {
        variance->count += variance->part[i].count;
        if (variance->part[i].dtype == SPOTNIK_F64)
            variance->dtype = SPOTNIK_F64;
    }
    return variance->count * (variance->dtype == SPOTNIK_F64 ? sizeof(double) : sizeof(float));
}

int spotnik_variance_seal(struct spotnik_job *job)
{
    struct spotnik_variance *variance = job->variance;

    if (!variance || !variance->measuring || variance->started || !variance->parts || job->excluded)
        return 0;
    for (variance->number = SPOTNIK_VARIANCE_BUCKET; job->started[variance->number];)
        if (variance->number-- == 0)
            return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                        "SPOTNIK_NOISE=variance needs one of buckets 0 to %d",
                                        SPOTNIK_VARIANCE_BUCKET);
    size_t bytes = plan(variance);
    void *to = spotnik_job_grow(job, variance->squares, &variance->squares_bytes, bytes);

    if (!to)
        return SPOTNIK_ERR_MEMORY;
    variance->squares = to;
    for (uint32_t i = 0; i < variance->parts; i++)
        to = square(variance, &variance->part[i], to);
    int rc = spotnik_engine_allreduce_from(job->engine, variance->number, variance->squares,
                                           variance->count, variance->dtype, SPOTNIK_MEAN);
    variance->started = rc == 0;
    return rc;
}

static double mean_at(const void *mean, enum spotnik_dtype dtype, size_t i)
{
    float wide;

    if (dtype == SPOTNIK_F64)
        return ((const double *)mean)[i];
    if (dtype == SPOTNIK_F32)
        return (double)((const float *)mean)[i];
    spotnik_compress_widen(&wide, (const unsigned char *)mean + 2 * i, 1, dtype);
    return (double)wide;
}

static double f32_norm2(const float *squares, const float *mean, size_t count)
{
    double sum[4] = { 0 };

    for (size_t i = 0; i < count; i++) {
        double away = (double)squares[i] - (double)mean[i] * (double)mean[i];
        sum[i % 4] += away * away;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

double spotnik_variance_norm2(const void *squares, enum spotnik_dtype squares_dtype,
                              const void *mean, enum spotnik_dtype dtype, size_t count)
{
    double sum = 0;

    if (squares_dtype == SPOTNIK_F32 && dtype == SPOTNIK_F32)
        return f32_norm2(squares, mean, count);
    for (size_t i = 0; i < count; i++) {
        double m = mean_at(mean, dtype, i);
        double away = mean_at(squares, squares_dtype, i) - m * m;
        sum += away * away;
    }
    return sum;
}

void spotnik_variance_committed(struct spotnik_job *job)
{
    struct spotnik_variance *variance = job->variance;
    struct spotnik_bucket_result result[SPOTNIK_VARIANCE_BUCKET + 1];

    if (!variance || !variance->started)
        return;
    uint32_t count =
        spotnik_engine_results_get(job->engine, job->step, SPOTNIK_VARIANCE_BUCKET + 1, result);
    const unsigned char *squares = count > variance->number ? result[variance->number].data : NULL;
    size_t element = variance->dtype == SPOTNIK_F64 ? sizeof(double) : sizeof(float);
    double sum = 0;

    variance->started = false;
    for (uint32_t i = 0; i < variance->parts; i++) {
        const struct spotnik_variance_part *part = &variance->part[i];
        if (!squares || !result[part->bucket].data || result[part->bucket].count != part->count)
            return;
        sum += sqrt(spotnik_variance_norm2(squares, variance->dtype, result[part->bucket].data,
                                           part->dtype, part->count));
        squares += part->count * element;
    }
    variance->value = sum;
    variance->steps++;
}
