/* SPDX-License-Identifier: Apache-2.0 */
/* In memory that all members of the view share (docs/design/0007-data-path.md): the driver reduces
 * it. flat.c decides when a view does. Rules: docs/protocol.md 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

static bool takes(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    (void)bucket;
    return core->allreduce->flat.on && core->view.size >= 2 && core->allreduce->hosts.count <= 1;
}

void allreduce_memory_start(struct spotnik_core *core, uint32_t number,
                            struct spotnik_bucket *bucket, enum spotnik_host_part part)
{
    SPOTNIK_ASSERT(core->allreduce->flat.on);
    SPOTNIK_ASSERT(core->view.size >= 2);
    spotnik_transaction_start_flat(&core->step, bucket);
    bucket->hosts = part == SPOTNIK_PART_HOLDER;
    struct spotnik_work *work =
        queue_work(core, SPOTNIK_ACTION_FLAT, number, core->step.committed + 1);
    work->flat.part = part;
    work->flat.hosts = part == SPOTNIK_PART_ALL ? 1 : core->allreduce->hosts.count;
    work->flat.host = core->allreduce->hosts.index;
    work->flat.count = bucket->count;
    work->flat.weight = bucket->weight;
}

static void start(struct spotnik_core *core, uint32_t number, struct spotnik_bucket *bucket)
{
    core->allreduce->flat.begun_epoch[(core->step.committed + 1) & 1] = core->view.epoch;
    allreduce_memory_start(core, number, bucket, SPOTNIK_PART_ALL);
}

static struct spotnik_placement place(const struct spotnik_core *core,
                                      const struct spotnik_bucket *bucket, uint32_t rank,
                                      const struct spotnik_chunk_header *header)
{
    (void)core, (void)bucket, (void)rank, (void)header;
    return allreduce_verdict(SPOTNIK_VERDICT_BAD);
}

/* In memory, the shares of all. */
static bool awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                   uint32_t rank)
{
    SPOTNIK_ASSERT(bucket->flat);
    (void)core, (void)rank;
    return !bucket->complete;
}

const struct algorithm algorithm_memory = {
    .takes = takes, .start = start, .place = place, .awaits = awaits
};
