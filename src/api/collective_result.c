/* SPDX-License-Identifier: Apache-2.0 */
/* The results of collectives after the commit of their step. The same on every member, since all
 * inputs are in the results themselves: the census names the contributors, not a member's idea of
 * the view. */
#include <string.h>

#include "api/job.h"
#include "base/error.h"
#include "reduce/compress.h"

void spotnik_collectives_begin(struct spotnik_collectives *all)
{
    if (!all)
        return;
    all->counted = false;
    all->number = 0;
    all->rootless = 0;
    for (uint32_t i = 0; i < SPOTNIK_CALLER_BUCKETS; i++)
        all->of[i].kind = SPOTNIK_COLLECTIVE_NONE;
}

uint32_t spotnik_census_count(const uint64_t *census, uint32_t below)
{
    uint32_t count = 0;

    for (uint32_t word = 0; word < below / 64; word++)
        count += (uint32_t)__builtin_popcountll(census[word]);
    if (below % 64)
        count += (uint32_t)__builtin_popcountll(census[below / 64]
                                                & ((UINT64_C(1) << (below % 64)) - 1));
    return count;
}

spotnik_range spotnik_part_of(size_t count, uint32_t index, uint32_t parts)
{
    uint64_t quotient = count / parts, longer = count % parts;
    uint64_t begin = quotient * index + (index < longer ? index : longer);

    return (spotnik_range){ begin, begin + quotient + (index < longer) };
}

static void copy(void *to, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(to, from, bytes);
}

/* The root has it. */
static void broadcast(struct spotnik_collectives *all, uint32_t bucket, const uint8_t *result)
{
    const struct spotnik_collective *one = &all->of[bucket];

    if (!spotnik_census_has(all->present, one->root))
        all->rootless = bucket + 1;
    else if (all->share >= all->shares || all->share != one->root)
        copy(one->data, result, one->count * one->one);
}

static void allgather(const struct spotnik_collectives *all, const struct spotnik_collective *one,
                      const uint8_t *result)
{
    size_t row = one->count * one->one;
    uint8_t *to = one->data;

    for (uint32_t slot = 0; slot < one->slots && row; slot++)
        if (spotnik_census_has(all->present, slot)) {
            memcpy(to, result + slot * row, row);
            to += row;
        }
}

static void reduce_scatter(const struct spotnik_collectives *all,
                           const struct spotnik_collective *one, const uint8_t *result)
{
    spotnik_range part = { 0, 0 };

    if (all->share < all->shares && spotnik_census_has(all->present, all->share))
        part = spotnik_part_of(one->count, spotnik_census_count(all->present, all->share),
                               spotnik_census_count(all->present, SPOTNIK_CENSUS_SHARES));
    copy((uint8_t *)one->data + part.begin * one->one, result + part.begin * one->one,
         (part.end - part.begin) * one->one);
    if (one->part)
        *one->part = part;
}

static void widen(const struct spotnik_collective *one, const void *result)
{
    if (one->wire == SPOTNIK_Q8)
        spotnik_quant_decode(one->data, result, one->count);
    else
        spotnik_compress_widen(one->data, result, one->count, one->wire);
}

void spotnik_collectives_deliver(struct spotnik_collectives *all, uint32_t bucket_count,
                                 const struct spotnik_bucket_result *result)
{
    if (!all)
        return;
    memset(all->present, 0, sizeof all->present);
    if (all->number && bucket_count > all->number)
        memcpy(all->present, result[all->number].data, sizeof all->present);
    for (uint32_t i = 0; i < SPOTNIK_CALLER_BUCKETS && i < bucket_count; i++)
        switch (all->of[i].kind) {
        case SPOTNIK_COLLECTIVE_BROADCAST:
            broadcast(all, i, result[i].data);
            break;
        case SPOTNIK_COLLECTIVE_ALLGATHER:
            allgather(all, &all->of[i], result[i].data);
            break;
        case SPOTNIK_COLLECTIVE_REDUCE_SCATTER:
            reduce_scatter(all, &all->of[i], result[i].data);
            break;
        case SPOTNIK_COLLECTIVE_COMPRESSED:
            widen(&all->of[i], result[i].data);
            break;
        case SPOTNIK_COLLECTIVE_NONE:
            break;
        }
}

int spotnik_collectives_outcome(const struct spotnik_collectives *all)
{
    if (!all || !all->rootless)
        return 0;
    uint32_t bucket = all->rootless - 1;

    return spotnik_error_return(
        SPOTNIK_ERR_ROOT,
        "bucket %u: root %u was lost before its data were with the others; it "
        "holds what it held before, every other bucket its result",
        bucket, all->of[bucket].root);
}

uint32_t spotnik_contributors(spotnik_job *job, uint32_t *ret_shares, uint32_t max)
{
    uint32_t count = 0;

    if (!job || !job->collectives)
        return 0;
    for (uint32_t share = 0; share < SPOTNIK_CENSUS_SHARES; share++)
        if (spotnik_census_has(job->collectives->present, share)) {
            if (ret_shares && count < max)
                ret_shares[count] = share;
            count++;
        }
    return count;
}
