/* SPDX-License-Identifier: Apache-2.0 */
/* P4, same bits. What a view must make of a step, computed apart from the core: segment j of a
 * bucket is the sum of the members' inputs, weighted, taken from rank j on round the ring. This
 * holds whichever way the bucket went, but up a tree. Every member must have exactly these bits.
 * And after every step of the lineage all replicas are equal. */
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/hash.h"
#include "reduce/reduce.h"
#include "sim/check.h"

struct contribution {
    const unsigned char *bytes; /* of this bucket */
    uint64_t weight;
    bool summed; /* of a whole host: weighted already */
};

static uint64_t segment_begin(uint64_t count, uint32_t size, uint32_t segment)
{
    uint64_t rest = count % size;
    return count / size * segment + (segment < rest ? segment : rest);
}

static void start(const struct sim_bucket *bucket, unsigned char *out,
                  const struct contribution *from, size_t at, size_t count)
{
    if (bucket->op == SPOTNIK_MEAN && from->weight && !from->summed)
        spotnik_reduce_scale(out + at, from->bytes + at, count, bucket->dtype, from->weight);
    else
        memcpy(out + at, from->bytes + at, count * bucket->element_bytes);
}

static void segment_reduce(const struct sim_bucket *bucket, unsigned char *out,
                           const struct contribution *from, uint32_t size, uint32_t segment)
{
    uint64_t begin = segment_begin(bucket->count, size, segment);
    uint64_t count = segment_begin(bucket->count, size, segment + 1) - begin, total = 0;
    size_t at = begin * bucket->element_bytes;

    if (!count)
        return;
    for (uint32_t i = 0; i < size; i++) {
        const struct contribution *next = &from[(segment + i) % size];
        if (i == 0 || (total == 0 && next->weight))
            start(bucket, out, next, at, count);
        else if (next->weight)
            spotnik_reduce_combine(out + at, out + at, next->bytes + at, count, bucket->dtype,
                                   bucket->op,
                                   next->summed && spotnik_reduce_sums_mean(bucket->dtype)
                                       ? 1
                                       : next->weight,
                                   total);
        total += next->weight;
    }
    if (bucket->op == SPOTNIK_MEAN && size > 1)
        spotnik_reduce_divide(out + at, count, bucket->dtype, total);
}

/* In shared memory, and where all inputs meet in one place: the same order, by the kernel that
 * takes all inputs at once. For floats that is the same. */
static void segment_reduce_flat(const struct sim_bucket *bucket, unsigned char *out,
                                const struct contribution *from, uint32_t size, uint32_t segment,
                                unsigned flags)
{
    struct spotnik_reduce_source source[SIM_MEMBERS_MAX];
    uint64_t begin = segment_begin(bucket->count, size, segment);
    uint64_t count = segment_begin(bucket->count, size, segment + 1) - begin;
    size_t at = begin * bucket->element_bytes;

    for (uint32_t i = 0; i < size; i++) {
        const struct contribution *next = &from[(segment + i) % size];
        source[i] = (struct spotnik_reduce_source){ next->bytes + at, next->weight };
    }
    if (count)
        spotnik_reduce_flat(out + at, source, size, count, bucket->dtype, bucket->op, flags);
}

/* -- By hosts: the sum of each, then those round a ring in the order of their first members -- */

static uint32_t host_at(const struct sim_world *world, const struct fact_view *view, uint32_t rank)
{
    return world->process[view->member[rank]]->host;
}

static bool is_first_of_host(const struct sim_world *world, const struct fact_view *view,
                             uint32_t rank)
{
    for (uint32_t before = 0; before < rank; before++)
        if (host_at(world, view, before) == host_at(world, view, rank))
            return false;
    return true;
}

static uint32_t hosts_of(const struct sim_world *world, const struct fact_view *view)
{
    uint32_t hosts = 0;
    for (uint32_t rank = 0; rank < view->size; rank++)
        hosts += is_first_of_host(world, view, rank);
    return hosts;
}

/* `sum`: memory for it. */
static struct contribution host_contributes(const struct sim_world *world,
                                            const struct fact_view *view,
                                            const struct sim_bucket *bucket,
                                            const struct contribution *from, uint32_t first,
                                            unsigned char *sum)
{
    struct contribution mates[SIM_MEMBERS_MAX], all = { .bytes = sum, .summed = true };
    uint32_t size = 0;

    for (uint32_t rank = first; rank < view->size; rank++)
        if (host_at(world, view, rank) == host_at(world, view, first)) {
            all.weight += from[rank].weight;
            mates[size++] = from[rank];
        }
    if (size == 1)
        return mates[0];
    for (uint32_t segment = 0; segment < size; segment++)
        segment_reduce_flat(bucket, sum, mates, size, segment, SPOTNIK_REDUCE_PARTIAL);
    return all;
}

/* -- Up a tree: what is at a place, and then what its children have put together, in their order
 * -- */

/* Returns the weight of all that is in `out`. */
static uint64_t tree_reduce(const struct sim_bucket *bucket, unsigned char *out,
                            const struct contribution *from, uint32_t size, uint32_t fan,
                            uint32_t place)
{
    bool sums = bucket->op == SPOTNIK_MEAN && spotnik_reduce_sums_mean(bucket->dtype);
    size_t bytes = spotnik_sim_bucket_bytes(bucket);
    unsigned char *below = spotnik_sim_alloc(fan * bytes + 1);
    struct spotnik_reduce_source source[SIM_MEMBERS_MAX];
    uint64_t total = from[place].weight;
    uint32_t sources = 1;

    source[0] = (struct spotnik_reduce_source){ from[place].bytes,
                                                sums && from[place].summed ? total > 0 : total };
    for (uint32_t child = fan * place + 1; child <= fan * place + fan && child < size; child++) {
        unsigned char *part = below + (sources - 1) * bytes;
        uint64_t weight = tree_reduce(bucket, part, from, size, fan, child);
        source[sources++] = (struct spotnik_reduce_source){ part, sums ? weight > 0 : weight };
        total += weight;
    }
    spotnik_reduce_flat(out, source, sources, bucket->count, bucket->dtype, bucket->op,
                        SPOTNIK_REDUCE_PARTIAL);
    if (place == 0 && bucket->op == SPOTNIK_MEAN)
        spotnik_reduce_divide(out, bucket->count, bucket->dtype, total);
    free(below);
    return total;
}

static enum spotnik_schedule choose(const struct sim_world *world, uint32_t size,
                                    const struct sim_bucket *bucket)
{
    uint64_t bytes = spotnik_sim_bucket_bytes(bucket);
    return bytes > world->options.limits.chunk_bytes
               ? SPOTNIK_SCHEDULE_RING
               : spotnik_choice_take(world->options.limits.choice, size, false, bytes);
}

static void reduce_by_hosts(const struct sim_world *world, const struct fact_view *view,
                            const struct sim_bucket *bucket, unsigned char *out,
                            const struct contribution *from)
{
    /* in scale mode there are hundreds */
    struct contribution *host = spotnik_sim_alloc(view->size * sizeof(*host));
    size_t bytes = spotnik_sim_bucket_bytes(bucket);
    unsigned char *sums = spotnik_sim_alloc(view->size * bytes + 1);
    uint32_t hosts = 0;

    for (uint32_t rank = 0; rank < view->size; rank++)
        if (is_first_of_host(world, view, rank)) {
            host[hosts] = host_contributes(world, view, bucket, from, rank, sums + hosts * bytes);
            hosts++;
        }
    if (hosts > 2 && choose(world, hosts, bucket) != SPOTNIK_SCHEDULE_RING)
        tree_reduce(bucket, out, host, hosts, world->options.limits.fan, 0);
    else
        for (uint32_t segment = 0; segment < hosts; segment++)
            segment_reduce(bucket, out, host, hosts, segment);
    free(sums);
    free(host);
}

/* Whichever way the view reduces the step. */
static void reduce(const struct sim_world *world, const struct fact_view *view, uint64_t step,
                   const struct sim_bucket *bucket, unsigned char *out,
                   const struct contribution *from)
{
    bool in_memory = view->flat_from && step >= view->flat_from;
    enum spotnik_schedule schedule = choose(world, view->size, bucket);
    bool treed = schedule == SPOTNIK_SCHEDULE_TREE
                 && (step > view->settled + 1 || hosts_of(world, view) == view->size);
    bool flat =
        in_memory || schedule == SPOTNIK_SCHEDULE_DIRECT || schedule == SPOTNIK_SCHEDULE_HUB;

    if (view->size == 1) {
        memcpy(out, from[0].bytes, spotnik_sim_bucket_bytes(bucket));
    } else if (in_memory && world->options.limits.hierarchy && hosts_of(world, view) > 1) {
        reduce_by_hosts(world, view, bucket, out, from);
    } else if (treed && !in_memory) {
        tree_reduce(bucket, out, from, view->size, world->options.limits.fan, 0);
    } else {
        for (uint32_t segment = 0; segment < view->size; segment++)
            if (flat)
                segment_reduce_flat(bucket, out, from, view->size, segment, 0);
            else
                segment_reduce(bucket, out, from, view->size, segment);
    }
}

static bool gather(struct sim_world *world, const struct fact_view *view, uint64_t step,
                   uint32_t number, struct contribution *from)
{
    size_t at = 0;

    for (uint32_t i = 0; i < number; i++)
        at += spotnik_sim_bucket_bytes(&world->bucket[i]);
    for (uint32_t rank = 0; rank < view->size; rank++) {
        const struct fact_input *input = spotnik_fact_input_of(world, view->member[rank], step);
        if (!input || !input->filled)
            return false;
        from[rank].bytes = input->bytes + at;
        from[rank].weight =
            world->bucket[number].op == SPOTNIK_MEAN ? input->weight : input->has_share;
    }
    return true;
}

static bool compute(struct sim_world *world, const struct fact_view *view, uint64_t step,
                    uint64_t *ret_digest)
{
    struct contribution *from = spotnik_sim_alloc(view->size * sizeof(*from));
    struct spotnik_hash hash;
    bool complete = true;

    spotnik_hash_begin(&hash);
    for (uint32_t i = 0; i < world->options.buckets && complete; i++) {
        const struct sim_bucket *bucket = &world->bucket[i];
        unsigned char *out = spotnik_sim_alloc(spotnik_sim_bucket_bytes(bucket) + 1);
        complete = gather(world, view, step, i, from);
        if (complete)
            reduce(world, view, step, bucket, out, from);
        spotnik_hash_add(&hash, out, spotnik_sim_bucket_bytes(bucket));
        free(out);
    }
    *ret_digest = spotnik_hash_end(&hash);
    free(from);
    return complete;
}

/* Digest of all buckets of `step` as reduced in view `epoch`. False: some member had put nothing
 * in. */
bool spotnik_check_bits_expected(struct sim_world *world, uint64_t epoch, uint64_t step,
                                 uint64_t *ret_digest)
{
    struct sim_facts *facts = world->facts;
    const struct fact_view *view = spotnik_fact_view_of(world, epoch);

    for (size_t i = facts->result_count; i-- > 0;)
        if (facts->result[i].epoch == epoch && facts->result[i].step == step) {
            *ret_digest = facts->result[i].digest;
            return true;
        }
    if (!view || !compute(world, view, step, ret_digest))
        return false;
    if (facts->result_count == facts->result_capacity) {
        facts->result_capacity = facts->result_capacity ? 2 * facts->result_capacity : 64;
        facts->result = realloc(facts->result, facts->result_capacity * sizeof(*facts->result));
        SPOTNIK_ASSERT(facts->result != NULL);
    }
    facts->result[facts->result_count++] = (struct fact_result){ step, epoch, *ret_digest };
    return true;
}

void spotnik_check_bits_end(struct sim_world *world)
{
    const struct sim_facts *facts = world->facts;
    size_t *first =
        /* 1 + index of a commit of each step */
        spotnik_sim_alloc((facts->steps_max + 2) * sizeof(*first));

    for (size_t i = 0; i < facts->commit_count; i++) {
        const struct fact_commit *commit = &facts->commit[i];
        bool outside = commit->epoch == 0 && facts->process[commit->process].entered_epoch == 0;
        if (outside || spotnik_fact_is_orphan(world, commit) || commit->step == 0)
            continue;
        if (!first[commit->step])
            first[commit->step] = i + 1;
        else if (facts->commit[first[commit->step] - 1].state != commit->state)
            spotnik_sim_fail(world, "P4", "%u and %u differ after step %llu",
                             facts->commit[first[commit->step] - 1].process, commit->process,
                             (unsigned long long)commit->step);
    }
    free(first);
}
