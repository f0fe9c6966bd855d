/* SPDX-License-Identifier: Apache-2.0 */
/* From the operations of reduce.h to folds of a tier: what weights mean for each type, and the
 * special weights that need no kernel. The bits are made in kernels.c. */
#include "reduce/reduce.h"

#include "base/assert.h"
#include "reduce/tiers.h"

#include <string.h>

size_t spotnik_dtype_size(enum spotnik_dtype dtype)
{
    return spotnik_dtype_bytes((uint64_t)dtype);
}

bool spotnik_reduce_supported(enum spotnik_dtype dtype, enum spotnik_op op)
{
    return spotnik_dtype_bytes((uint64_t)dtype) > 0 && spotnik_op_is_known((uint64_t)op);
}

bool spotnik_reduce_sums_mean(enum spotnik_dtype dtype)
{
    return dtype == SPOTNIK_F32 || dtype == SPOTNIK_F64;
}

static void copy(void *out, const void *from, size_t bytes)
{
    if (bytes > 0 && out != from)
        memmove(out, from, bytes);
}

static void clear(void *out, size_t bytes)
{
    if (bytes > 0)
        memset(out, 0, bytes);
}

static struct spotnik_reduce_input weighted(const void *data, uint64_t weight)
{
    return (struct spotnik_reduce_input){ .data = data,
                                          .weight64 = (double)weight,
                                          .weight32 = (float)weight };
}

static void fold(void *out, const struct spotnik_reduce_input *input, size_t inputs, size_t bytes,
                 enum spotnik_dtype dtype, enum spotnik_op op, uint64_t divisor, bool is_streamed)
{
    const struct spotnik_reduce_inputs in = { .input = input,
                                              .inputs = inputs,
                                              .bytes = bytes,
                                              .divisor64 = (double)divisor,
                                              .divisor32 = (float)divisor,
                                              .is_streamed = is_streamed };

    if (bytes > 0)
        spotnik_reduce_tier()->kernels->fold[dtype][op](out, &in);
}

void spotnik_reduce_combine(void *out, const void *received, const void *input, size_t count,
                            enum spotnik_dtype dtype, enum spotnik_op op, uint64_t weight,
                            uint64_t received_weight)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, op));
    size_t bytes = count * spotnik_dtype_size(dtype);
    bool sums = spotnik_reduce_sums_mean(dtype);

    if (op == SPOTNIK_MEAN && weight == 0) {
        copy(out, received, bytes);
        return;
    }
    if (op == SPOTNIK_MEAN && sums && weight == 1)
        op = SPOTNIK_SUM;
    const struct spotnik_reduce_input both[2] = { weighted(received, sums ? 1 : received_weight),
                                                  weighted(input, weight) };

    fold(out, both, 2, bytes, dtype, op, sums ? 1 : received_weight + weight, false);
}

void spotnik_reduce_scale(void *out, const void *input, size_t count, enum spotnik_dtype dtype,
                          uint64_t weight)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, SPOTNIK_MEAN));
    const struct spotnik_reduce_input one = weighted(input, weight);
    size_t bytes = count * spotnik_dtype_size(dtype);

    if (weight == 0)
        clear(out, bytes);
    else if (weight == 1 || !spotnik_reduce_sums_mean(dtype))
        copy(out, input, bytes);
    else
        fold(out, &one, 1, bytes, dtype, SPOTNIK_MEAN, 1, false);
}

void spotnik_reduce_divide(void *out, size_t count, enum spotnik_dtype dtype, uint64_t total)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, SPOTNIK_MEAN));
    const struct spotnik_reduce_input one = weighted(out, 1);
    size_t bytes = count * spotnik_dtype_size(dtype);

    if (total == 0)
        clear(out, bytes);
    else if (total > 1 && spotnik_reduce_sums_mean(dtype))
        fold(out, &one, 1, bytes, dtype, SPOTNIK_MEAN, total, false);
}

/* The sources that carry something, and the sum of their weights. */
static size_t gather(const struct spotnik_reduce_source *source, size_t sources,
                     struct spotnik_reduce_input *ret_input, uint64_t *ret_total)
{
    size_t inputs = 0;

    *ret_total = 0;
    for (size_t i = 0; i < sources; i++) {
        if (source[i].weight > 0)
            ret_input[inputs++] = weighted(source[i].data, source[i].weight);
        *ret_total += source[i].weight;
    }
    return inputs;
}

void spotnik_reduce_flat(void *out, const struct spotnik_reduce_source *source, size_t sources,
                         size_t count, enum spotnik_dtype dtype, enum spotnik_op op, unsigned flags)
{
    SPOTNIK_ASSERT(spotnik_reduce_supported(dtype, op));
    SPOTNIK_ASSERT(sources >= 1 && sources <= SPOTNIK_REDUCE_SOURCES_MAX);
    struct spotnik_reduce_input input[SPOTNIK_REDUCE_SOURCES_MAX];
    size_t bytes = count * spotnik_dtype_size(dtype);
    bool mean = op == SPOTNIK_MEAN, sums = spotnik_reduce_sums_mean(dtype);
    uint64_t total;
    size_t inputs = gather(source, sources, input, &total);
    uint64_t divisor = sums && (flags & SPOTNIK_REDUCE_PARTIAL) ? 1 : total;

    if (mean && total == 0)
        clear(out, bytes);
    else if (total == 0)
        copy(out, source[0].data, bytes);
    else if (inputs == 1 && (!mean || !sums || total == 1))
        copy(out, input[0].data, bytes);
    else if (mean && sums && total == inputs && divisor == 1)
        fold(out, input, inputs, bytes, dtype, SPOTNIK_SUM, 1, flags & SPOTNIK_REDUCE_STREAM);
    else
        fold(out, input, inputs, bytes, dtype, op, divisor, flags & SPOTNIK_REDUCE_STREAM);
}

/* As src/ring cuts a bucket. */
static uint64_t segment_begin(uint64_t count, uint32_t size, uint32_t segment)
{
    uint64_t rest = count % size;
    return count / size * segment + (segment < rest ? segment : rest);
}

void spotnik_reduce_rounds(void *out, const struct spotnik_reduce_source *source, uint32_t sources,
                           uint64_t count, enum spotnik_dtype dtype, enum spotnik_op op)
{
    struct spotnik_reduce_source turned[SPOTNIK_REDUCE_SOURCES_MAX];
    size_t one = spotnik_dtype_size(dtype);

    SPOTNIK_ASSERT(sources >= 2 && sources <= SPOTNIK_REDUCE_SOURCES_MAX);
    for (uint32_t segment = 0; segment < sources; segment++) {
        uint64_t begin = segment_begin(count, sources, segment),
                 end = segment_begin(count, sources, segment + 1);
        for (uint32_t i = 0; i < sources; i++) {
            const struct spotnik_reduce_source *next = &source[(segment + i) % sources];
            turned[i] = (struct spotnik_reduce_source){ (const uint8_t *)next->data + begin * one,
                                                        next->weight };
        }
        if (begin < end)
            spotnik_reduce_flat((uint8_t *)out + begin * one, turned, sources, end - begin, dtype,
                                op, 0);
    }
}

void spotnik_reduce_partials(void *out, const struct spotnik_reduce_source *source,
                             uint32_t sources, bool summed, bool last, uint64_t count,
                             enum spotnik_dtype dtype, enum spotnik_op op)
{
    struct spotnik_reduce_source part[16];
    bool sums = op == SPOTNIK_MEAN && spotnik_reduce_sums_mean(dtype);
    uint64_t total = 0;

    SPOTNIK_ASSERT(sources >= 1 && sources <= sizeof part / sizeof *part);
    for (uint32_t i = 0; i < sources; i++) {
        bool weighted_sum = sums && (i > 0 || summed);
        part[i] =
            (struct spotnik_reduce_source){ source[i].data, weighted_sum ? source[i].weight > 0
                                                                         : source[i].weight };
        total += source[i].weight;
    }
    spotnik_reduce_flat(out, part, sources, count, dtype, op, SPOTNIK_REDUCE_PARTIAL);
    if (last && op == SPOTNIK_MEAN)
        spotnik_reduce_divide(out, count, dtype, total);
}

double spotnik_reduce_norm2(const void *in, size_t count, enum spotnik_dtype dtype)
{
    if ((unsigned)dtype >= SPOTNIK_REDUCE_DTYPES)
        return 0;
    double (*norm2)(const void *, size_t) = spotnik_reduce_tier()->kernels->norm2[dtype];
    return norm2 ? norm2(in, count) : 0;
}
