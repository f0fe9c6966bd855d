/* SPDX-License-Identifier: Apache-2.0 */
/* KungFu's gradient variance (OSDI'20): sum over the buckets of || mean_k(g_k^2) - (mean_k g_k)^2
 * ||, elementwise squares, Euclidean norm. g_k is member k's gradient, and means are those of MEAN,
 * weighted by samples. The second mean is what the step carries anyway. The first one is an
 * all-reduce of the squares of all gradient buckets, as one bucket of the library's own, every
 * `every` steps. All members and joiners that repeat a step do it in the same steps: the step's
 * number alone decides. For people to look at. Caller's thread. */
#ifndef SPOTNIK_API_VARIANCE_H
#define SPOTNIK_API_VARIANCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/noise.h"

#define SPOTNIK_VARIANCE_BUCKET 254 /* no strategy has it, nor the census; or the next one down */

struct spotnik_variance {
    uint64_t every;
    double value;   /* of the last measured step */
    uint64_t steps; /* measured */
    bool measuring; /* the begun step */
    bool started;   /* its squares are under way, in bucket */
    uint32_t number;
    struct spotnik_variance_part {
        uint32_t bucket;
        enum spotnik_dtype dtype;
        const void *data;
        size_t count;
    } part[SPOTNIK_NOISE_BUCKETS]; /* of the begun step, in order of their start */
    uint32_t parts;
    void *squares; /* F64 where a gradient is, else F32 */
    size_t squares_bytes, count;
    enum spotnik_dtype dtype;
};

struct spotnik_job;

/* As those of noise.h. */
int spotnik_variance_open(struct spotnik_job *job);
void spotnik_variance_begin(struct spotnik_job *job);
void spotnik_variance_reduce(struct spotnik_job *job, uint32_t bucket, const void *data,
                             size_t count, enum spotnik_dtype dtype);
void spotnik_variance_committed(struct spotnik_job *job);

/* Before the commit, once however often it is called. Takes the highest bucket up to 254 that the
 * program has not used. Errors: LIMIT (there is none), MEMORY, or as allreduce. */
int spotnik_variance_seal(struct spotnik_job *job);

/* Of one bucket: the sum over its elements of (mean of squares - square of mean)^2. */
double spotnik_variance_norm2(const void *squares, enum spotnik_dtype squares_dtype,
                              const void *mean, enum spotnik_dtype dtype, size_t count);

#endif
