/* SPDX-License-Identifier: Apache-2.0 */
/* The buckets of one simulated process: real bytes, combined by the real kernels of src/reduce
 * exactly where the core says, so that "same bits" (P4) is checked and not assumed. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/dtype.h"
#include "base/hash.h"
#include "reduce/compress.h"
#include "reduce/reduce.h"
#include "sim/world.h"

size_t spotnik_sim_bucket_bytes(const struct sim_bucket *bucket)
{
    return bucket->count * bucket->element_bytes;
}

size_t spotnik_sim_result_bytes(const struct sim_world *world)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < world->options.buckets; i++)
        bytes += spotnik_sim_bucket_bytes(&world->bucket[i]);
    return bytes;
}

static uint64_t draw_count(struct spotnik_prng *prng)
{
    switch (spotnik_prng_below(prng, 4)) {
    case 0:
        return spotnik_prng_below(prng, 2); /* nothing, or one element */
    case 1:
        return 1 + spotnik_prng_below(prng, 9); /* about as many as members */
    default:
        return 1 + spotnik_prng_below(prng, 40); /* several chunks */
    }
}

static uint64_t scramble(uint64_t x)
{
    x ^= x >> 31;
    x *= UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 29;
    x *= UINT64_C(0xBF58476D1CE4E5B9);
    return x ^ (x >> 32);
}

/* The pairs there were when the first seeds were kept: redrawing anything else would change their
 * worlds. */
static bool is_first_kind(uint8_t dtype, uint8_t op)
{
    bool is_float = dtype == SPOTNIK_F32 || dtype == SPOTNIK_F64;

    return is_float || op == SPOTNIK_MIN || op == SPOTNIK_MAX
           || (op == SPOTNIK_SUM && dtype != SPOTNIK_U8);
}

void spotnik_sim_buckets_draw(struct sim_world *world)
{
    static const uint8_t dtypes[] = { SPOTNIK_F32, SPOTNIK_F32, SPOTNIK_F64,
                                      SPOTNIK_I32, SPOTNIK_I64, SPOTNIK_U8 };
    static const uint8_t ops[] = { SPOTNIK_MEAN, SPOTNIK_MEAN, SPOTNIK_SUM, SPOTNIK_MIN,
                                   SPOTNIK_MAX };

    SPOTNIK_ASSERT(world->options.buckets <= SIM_BUCKETS);
    for (uint32_t i = 0; i < world->options.buckets; i++) {
        struct sim_bucket *bucket = &world->bucket[i];
        uint64_t other = scramble(world->options.seed * SIM_BUCKETS + i);
        bucket->dtype = dtypes[spotnik_prng_below(&world->app, sizeof(dtypes))];
        do
            bucket->op = ops[spotnik_prng_below(&world->app, sizeof(ops))];
        while (!is_first_kind(bucket->dtype, bucket->op));
        if (world->options.all_types) {
            bucket->dtype = (uint8_t)(SPOTNIK_F32 + other % SPOTNIK_DTYPE_LAST);
            bucket->op = (uint8_t)(SPOTNIK_SUM + other / SPOTNIK_DTYPE_LAST % SPOTNIK_OP_LAST);
        }
        if (world->options.blocks && scramble(other) % 2 == 0)
            bucket->dtype = SPOTNIK_Q8;
        if (world->options.elements) {
            bucket->dtype = SPOTNIK_F32;
            bucket->op = SPOTNIK_MEAN;
        }
        bucket->element_bytes = (uint32_t)spotnik_dtype_size(bucket->dtype);
        bucket->count = world->options.elements ? world->options.elements : draw_count(&world->app);
        world->state_count += (uint32_t)bucket->count;
    }
}

/* All of a block differ, so that no part of it could be another's. */
static void put_block(unsigned char *at, float value)
{
    float values[SPOTNIK_QUANT_BLOCK];

    for (int i = 0; i < SPOTNIK_QUANT_BLOCK; i++)
        values[i] = value * (1 - (float)i / 200);
    spotnik_quant_pack(at, values, SPOTNIK_QUANT_BLOCK);
}

static void put(unsigned char *at, uint8_t dtype, double value, uint64_t bits)
{
    float f32 = (float)value;
    uint32_t i32 = (uint32_t)(bits & 0xffff) - 0x8000;
    uint64_t i64 = (bits >> 20) - (UINT64_C(1) << 43);

    switch (dtype) {
    case SPOTNIK_F32:
        memcpy(at, &f32, sizeof(f32));
        break;
    case SPOTNIK_F64:
        memcpy(at, &value, sizeof(value));
        break;
    case SPOTNIK_F16:
    case SPOTNIK_BF16:
        spotnik_compress_narrow(at, &f32, 1, dtype);
        break;
    case SPOTNIK_Q8:
        put_block(at, f32);
        break;
    case SPOTNIK_I32:
    case SPOTNIK_U32:
        memcpy(at, &i32, sizeof(i32));
        break;
    case SPOTNIK_I64:
    case SPOTNIK_U64:
        memcpy(at, &i64, sizeof(i64));
        break;
    default:
        memcpy(at, &bits, spotnik_dtype_size(dtype));
        break;
    }
}

/* Small whatever it was: weights are made of it for ever. */
static double get(const unsigned char *at, uint8_t dtype)
{
    float f32 = 0;
    double f64;
    int32_t i32;
    int64_t i64;
    int16_t i16;

    switch (dtype) {
    case SPOTNIK_F32:
        memcpy(&f32, at, sizeof(f32));
        return (double)f32;
    case SPOTNIK_F64:
        memcpy(&f64, at, sizeof(f64));
        return f64;
    case SPOTNIK_F16:
    case SPOTNIK_BF16:
        spotnik_compress_widen(&f32, at, 1, dtype);
        return (double)f32;
    case SPOTNIK_Q8:
        spotnik_quant_decode(&f32, at, 1);
        return (double)f32;
    case SPOTNIK_I32:
    case SPOTNIK_U32:
        memcpy(&i32, at, sizeof(i32));
        return i32;
    case SPOTNIK_I64:
    case SPOTNIK_U64:
        memcpy(&i64, at, sizeof(i64));
        return (double)(i64 >> 24);
    case SPOTNIK_I16:
    case SPOTNIK_U16:
        memcpy(&i16, at, sizeof(i16));
        return i16;
    default:
        return *at;
    }
}

/* A function of the weights and of the samples of the share: members that differ in either show
 * it. */
void spotnik_sim_gradient(struct sim_world *world, struct sim_process *process, uint32_t number)
{
    const struct sim_bucket *bucket = &world->bucket[number];
    struct sim_app *app = &process->app;
    uint64_t mark = scramble(app->step * 1000003 + number);
    uint32_t at = 0;

    for (uint32_t i = 0; i < number; i++)
        at += (uint32_t)world->bucket[i].count;
    for (uint32_t i = 0; i < app->range_count; i++)
        mark = scramble(mark ^ (app->range[i].begin * 0x10001 + app->range[i].end));
    if (!app->range_count)
        mark = scramble(mark ^ process->index);
    for (uint64_t i = 0; i < bucket->count; i++) {
        uint64_t bits = scramble(mark + i);
        double noise = (double)(int64_t)(bits >> 12) / 4503599627370496.0 - 0.5;
        put(app->in[number] + i * bucket->element_bytes, bucket->dtype,
            0.1 * (double)app->state_vector[at + i] + noise, bits);
    }
}

void spotnik_sim_memory_scale(struct sim_world *world, struct sim_process *process,
                              const struct spotnik_work *work)
{
    if (work->bucket >= world->options.buckets || !work->scale.count)
        return;
    const struct sim_bucket *bucket = &world->bucket[work->bucket];
    size_t offset = work->scale.offset * bucket->element_bytes;
    spotnik_reduce_scale(process->app.out[work->step & 1][work->bucket] + offset,
                         process->app.in[work->bucket] + offset, work->scale.count, bucket->dtype,
                         work->scale.weight);
}

void spotnik_sim_memory_own(struct sim_world *world, struct sim_process *process,
                            const struct spotnik_work *work)
{
    if (work->bucket >= world->options.buckets)
        return;
    spotnik_sim_flat_void(process, work->step, work->bucket);
    memcpy(process->app.out[work->step & 1][work->bucket], process->app.in[work->bucket],
           spotnik_sim_bucket_bytes(&world->bucket[work->bucket]));
}

void spotnik_sim_memory_offer(struct sim_world *world, struct sim_process *process,
                              const struct spotnik_work *work)
{
    if (work->bucket < world->options.buckets)
        memcpy(process->app.offer[work->step & 1][work->bucket], process->app.in[work->bucket],
               spotnik_sim_bucket_bytes(&world->bucket[work->bucket]));
}

void spotnik_sim_memory_sum(struct sim_world *world, struct sim_process *process,
                            const struct spotnik_work *work)
{
    struct spotnik_reduce_source source[SPOTNIK_SMALL_MEMBERS_MAX];

    if (work->bucket >= world->options.buckets)
        return;
    const struct sim_bucket *bucket = &world->bucket[work->bucket];
    size_t bytes = spotnik_sim_bucket_bytes(bucket);
    spotnik_sim_flat_void(process, work->step, work->bucket);
    for (uint32_t rank = 0; rank < work->sum.members; rank++)
        source[rank] =
            (struct spotnik_reduce_source){ process->app.tray[work->bucket] + rank * bytes,
                                            process->app.tray_weight[work->bucket][rank] };
    source[work->sum.rank] =
        (struct spotnik_reduce_source){ process->app.in[work->bucket], work->sum.weight };
    spotnik_reduce_rounds(process->app.out[work->step & 1][work->bucket], source, work->sum.members,
                          bucket->count, bucket->dtype, bucket->op);
}

void spotnik_sim_memory_gather(struct sim_world *world, struct sim_process *process,
                               const struct spotnik_work *work)
{
    struct spotnik_reduce_source source[SPOTNIK_TREE_FAN_MAX + 1];
    bool summed = work->gather.summed;

    if (work->bucket >= world->options.buckets)
        return;
    const struct sim_bucket *bucket = &world->bucket[work->bucket];
    size_t bytes = spotnik_sim_bucket_bytes(bucket);
    unsigned char *out = process->app.out[work->step & 1][work->bucket];
    if (!summed)
        spotnik_sim_flat_void(process, work->step, work->bucket);
    source[0] = (struct spotnik_reduce_source){ summed ? out : process->app.in[work->bucket],
                                                work->gather.weight };
    for (uint32_t slot = 1; slot <= work->gather.children; slot++)
        source[slot] =
            (struct spotnik_reduce_source){ process->app.tray[work->bucket] + slot * bytes,
                                            process->app.tray_weight[work->bucket][slot] };
    spotnik_reduce_partials(out, source, work->gather.children + 1, summed, work->gather.finishes,
                            bucket->count, bucket->dtype, bucket->op);
}

static void keep(struct sim_world *world, struct sim_process *process,
                 const struct spotnik_chunk_header *header, const void *bytes)
{
    size_t size = spotnik_sim_bucket_bytes(&world->bucket[header->bucket]);

    SPOTNIK_ASSERT(header->sequence < SPOTNIK_SMALL_MEMBERS_MAX);
    memcpy(process->app.tray[header->bucket] + header->sequence * size, bytes, size);
    process->app.tray_weight[header->bucket][header->sequence] = header->weight;
}

static void combine(const struct sim_bucket *bucket, unsigned char *out, const unsigned char *in,
                    const void *received, const struct spotnik_chunk_header *header,
                    const struct spotnik_placement *placement)
{
    size_t count = placement->count;
    bool mean = bucket->op == SPOTNIK_MEAN;
    uint64_t weight =
        placement->summed && spotnik_reduce_sums_mean(bucket->dtype) ? 1 : placement->weight;

    if (placement->weight == 0)
        memcpy(out, received, count * bucket->element_bytes);
    else if (header->weight == 0 && placement->summed)
        (void)out; /* it is there */
    else if (header->weight == 0 && mean)
        spotnik_reduce_scale(out, in, count, bucket->dtype, placement->weight);
    else if (header->weight == 0)
        memcpy(out, in, count * bucket->element_bytes);
    else
        spotnik_reduce_combine(out, received, in, count, bucket->dtype, bucket->op, weight,
                               header->weight);
    if (mean && placement->kind == SPOTNIK_RING_REDUCE_LAST)
        spotnik_reduce_divide(out, count, bucket->dtype, placement->weight_total);
}

void spotnik_sim_memory_take(struct sim_world *world, struct sim_process *process,
                             const struct spotnik_chunk_header *header,
                             const struct spotnik_placement *placement, const void *bytes)
{
    if (header->bucket >= world->options.buckets)
        return;
    if (placement->kind == SPOTNIK_RING_KEEP) {
        keep(world, process, header, bytes);
        return;
    }
    spotnik_sim_flat_void(process, header->step, header->bucket);
    if (!placement->count)
        return;
    const struct sim_bucket *bucket = &world->bucket[header->bucket];
    SPOTNIK_ASSERT(placement->offset + placement->count <= bucket->count);
    size_t offset = placement->offset * bucket->element_bytes;
    unsigned char *out = process->app.out[header->step & 1][header->bucket] + offset;

    if (placement->kind == SPOTNIK_RING_COPY)
        memcpy(out, bytes, placement->count * bucket->element_bytes);
    else
        combine(bucket, out, placement->summed ? out : process->app.in[header->bucket] + offset,
                bytes, header, placement);
}

/* The first bytes of a copied chunk are in place before the rest has come: what follows may be
 * dropped. */
void spotnik_sim_memory_take_half(struct sim_world *world, struct sim_process *process,
                                  const struct spotnik_chunk_header *header,
                                  const struct spotnik_placement *placement, const void *bytes)
{
    if (header->bucket >= world->options.buckets || placement->kind != SPOTNIK_RING_COPY)
        return;
    const struct sim_bucket *bucket = &world->bucket[header->bucket];
    memcpy(process->app.out[header->step & 1][header->bucket]
               + placement->offset * bucket->element_bytes,
           bytes, placement->count * bucket->element_bytes / 2);
}

/* w -= 0.01 * result, with integers scaled down so that they stay small. */
void spotnik_sim_memory_apply(struct sim_world *world, struct sim_process *process, uint64_t step)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < world->options.buckets; i++) {
        const struct sim_bucket *bucket = &world->bucket[i];
        const unsigned char *out = process->app.out[step & 1][i];
        bool is_float = bucket->dtype == SPOTNIK_F32 || bucket->dtype == SPOTNIK_F64
                        || bucket->dtype == SPOTNIK_F16 || bucket->dtype == SPOTNIK_BF16
                        || bucket->dtype == SPOTNIK_Q8;
        double rate = is_float ? 0.01 : 1e-6;
        for (uint64_t k = 0; k < bucket->count; k++, at++)
            process->app.state_vector[at] -=
                (float)(rate * get(out + k * bucket->element_bytes, bucket->dtype));
    }
}

uint64_t spotnik_sim_memory_digest(const struct sim_world *world, const struct sim_process *process,
                                   uint64_t step)
{
    struct spotnik_hash hash;
    spotnik_hash_begin(&hash);
    for (uint32_t i = 0; i < world->options.buckets; i++)
        spotnik_hash_add(&hash, process->app.out[step & 1][i],
                         spotnik_sim_bucket_bytes(&world->bucket[i]));
    return spotnik_hash_end(&hash);
}
