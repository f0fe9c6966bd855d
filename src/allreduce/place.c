/* SPDX-License-Identifier: Apache-2.0 */
/* The data path's two questions: what to send next, and where a frame that has arrived belongs.
 * Frames are matched by (epoch, step, bucket, number), never by order of arrival; what does not
 * match the present view is dropped or left waiting. Rules: docs/protocol.md 5, 9 and 10. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

static bool frozen(const struct spotnik_core *core)
{
    return core->frozen && !SPOTNIK_IS_PLANTED(core, COMMIT_AFTER_PROMISE);
}

static struct spotnik_chunk_header header_of(const struct spotnik_core *core, uint64_t step,
                                             uint32_t number, const struct spotnik_bucket *bucket,
                                             uint64_t sequence)
{
    SPOTNIK_ASSERT(number < SPOTNIK_BUCKETS_MAX);
    SPOTNIK_ASSERT(bucket->used);
    return (struct spotnik_chunk_header){ .dtype = bucket->dtype,
                                          .op = bucket->op,
                                          .bucket = number,
                                          .schedule = (uint8_t)bucket->schedule,
                                          .epoch = core->view.epoch,
                                          .step = step,
                                          .sequence = sequence,
                                          .count = bucket->count };
}

/* How many buckets the settled step has, by our own count or, while it is handed to us, by our
 * donor's. */
static uint64_t buckets_of(struct spotnik_core *core, uint64_t step)
{
    uint64_t count = 0;

    SPOTNIK_ASSERT(step == core->step.committed || step == core->step.committed + 1);
    if (step > core->step.committed)
        return core->allreduce->handed_buckets;
    for (uint32_t i = 0; i < core->step.last[step & 1]; i++)
        count += spotnik_transaction_bucket(&core->step, step, i)->used;
    return count;
}

static bool next_handover(struct spotnik_core *core, struct spotnik_transfer *ret)
{
    uint64_t step = core->view.settled_step, sequence;
    uint32_t number;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (!(core->view.entry[successor_rank(core)].flags & SPOTNIK_ENTRY_LAGGARD)
        || core->step.committed > step || SPOTNIK_IS_PLANTED(core, SKIP_HANDOVER))
        return false;
    if (!spotnik_transaction_next_handover(&core->step, step, core->limits.chunk_bytes, &number,
                                           &sequence))
        return false;
    const struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, number);
    struct spotnik_ring_chunk chunk =
        spotnik_transaction_handover_chunk(bucket, core->limits.chunk_bytes, sequence);
    ret->header = header_of(core, step, number, bucket, sequence);
    ret->header.handover = 1;
    ret->header.schedule = 0;
    ret->header.weight = buckets_of(core, step);
    ret->source = SPOTNIK_SOURCE_OUT;
    ret->offset = chunk.offset;
    ret->count = chunk.count;
    return true;
}

/* `to` follows us in the ring of the members, in that of the hosts, in both, or gets small buckets
 * only. */
static bool next_chunk(struct spotnik_core *core, uint32_t to, struct spotnik_transfer *ret)
{
    uint64_t step, sequence;
    uint32_t number;

    SPOTNIK_ASSERT(to < core->view.size && to != core->rank);
    struct spotnik_towards towards = { .to = to,
                                       .to_host = SPOTNIK_NO_RANK,
                                       .successor = to == successor_rank(core) };
    if (flat_streams(core)) {
        towards.next_host = to == core->allreduce->hosts.next;
        towards.to_host = allreduce_tree_of_hosts(core, to);
    }
    if (!spotnik_transaction_next(&core->step, &towards, &step, &number, &sequence))
        return false;
    const struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, number);
    ret->header = header_of(core, step, number, bucket, sequence);
    algorithm_of(bucket)->next(core, bucket, ret);
    return true;
}

static uint32_t rank_of(const struct spotnik_core *core, struct spotnik_id id)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (spotnik_id_equal(id, core->view.entry[successor_rank(core)].member.id))
        return successor_rank(core);
    if (spotnik_id_equal(id, core->view.entry[predecessor_rank(core)].member.id))
        return predecessor_rank(core);
    return peers_rank(core, id);
}

bool spotnik_core_send_next(struct spotnik_core *core, struct spotnik_id to,
                            struct spotnik_transfer *ret)
{
    if (core->role != SPOTNIK_ROLE_MEMBER || frozen(core) || core->view.size < 2)
        return false;
    uint32_t rank = rank_of(core, to);
    if (rank == SPOTNIK_NO_RANK || rank == core->rank)
        return false;
    return (rank == successor_rank(core) && next_handover(core, ret))
           || next_chunk(core, rank, ret);
}

/* Same program on both sides? */
static bool same_layout(const struct spotnik_bucket *bucket,
                        const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(bucket->used);
    return bucket->count == header->count && bucket->dtype == header->dtype
           && bucket->op == header->op;
}

static struct spotnik_placement frame_differs(struct spotnik_core *core, struct spotnik_id from,
                                              const struct spotnik_chunk_header *header)
{
    struct spotnik_held other = { from, header->count, 1, header->dtype, header->op };

    bucket_differs(core, header->step, header->bucket, &other);
    return allreduce_verdict(SPOTNIK_VERDICT_DROP);
}

/* A frame of the step just committed is late, unless it is of a bucket that we never had in it. */
static struct spotnik_placement place_late(struct spotnik_core *core, struct spotnik_id from,
                                           const struct spotnik_chunk_header *header)
{
    uint64_t step = core->step.committed;
    bool reduced_here = core->role == SPOTNIK_ROLE_MEMBER && step > core->view.settled_step;

    SPOTNIK_ASSERT(header->step <= core->step.committed);
    if (!header->handover && header->step == step && reduced_here
        && !spotnik_transaction_bucket(&core->step, step, header->bucket)->used)
        return frame_differs(core, from, header);
    return allreduce_verdict(SPOTNIK_VERDICT_DROP);
}

/* Has `from` still to send us something of a bucket of the running step? (It may have sent us
 * nothing yet of a step that goes round another ring than the next: then that one's frames
 * overtake.) */
static bool awaits(const struct spotnik_core *core, const struct spotnik_bucket *bucket,
                   struct spotnik_id from)
{
    uint32_t rank = core->role == SPOTNIK_ROLE_MEMBER ? rank_of(core, from) : SPOTNIK_NO_RANK;

    SPOTNIK_ASSERT(bucket->used);
    return rank == SPOTNIK_NO_RANK ? !bucket->complete
                                   : algorithm_of(bucket)->awaits(core, bucket, rank);
}

static bool awaits_any(struct spotnik_core *core, struct spotnik_id from, uint32_t *ret_bucket)
{
    uint64_t step = core->step.committed + 1;

    SPOTNIK_ASSERT(core->step.sealed);
    for (uint32_t i = 0; i < core->step.last[step & 1]; i++) {
        const struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, i);
        *ret_bucket = i;
        if (bucket->used && awaits(core, bucket, from))
            return true;
    }
    return false;
}

/* A frame of the step after the running one. Its sender has committed ours, and sent us all it had
 * for us. So if we have started all we will and still lack something of it, our programs differ. (A
 * frame of two steps ahead cannot come: that step needs our contribution to the next.) */
static struct spotnik_placement place_early(struct spotnik_core *core, struct spotnik_id from,
                                            const struct spotnik_chunk_header *header)
{
    /* its donor sends one step whole before the next */
    bool joiner = core->role == SPOTNIK_ROLE_JOINER;
    uint32_t bucket;

    SPOTNIK_ASSERT(header->step > core->step.committed + 1);
    if (header->step != core->step.committed + 2)
        return allreduce_verdict(joiner ? SPOTNIK_VERDICT_WAIT : SPOTNIK_VERDICT_BAD);
    if (!core->step.sealed || (!joiner && step_by_handover(core))
        || !awaits_any(core, from, &bucket))
        return allreduce_verdict(SPOTNIK_VERDICT_WAIT);
    bucket_differs(core, core->step.committed + 1, bucket,
                   &(struct spotnik_held){ .member = from });
    return allreduce_verdict(SPOTNIK_VERDICT_DROP);
}

static struct spotnik_placement place_handover(struct spotnik_core *core,
                                               const struct spotnik_bucket *bucket,
                                               const struct spotnik_chunk_header *header)
{
    uint32_t chunk_bytes = core->limits.chunk_bytes;

    SPOTNIK_ASSERT(step_by_handover(core));
    if (bucket->complete || header->sequence < bucket->handover_received)
        /* had it already, from the old ring or another donor */
        return allreduce_verdict(SPOTNIK_VERDICT_DROP);
    if (header->sequence != bucket->handover_received
        || header->sequence >= spotnik_transaction_handover_total(bucket, chunk_bytes))
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    struct spotnik_ring_chunk chunk =
        spotnik_transaction_handover_chunk(bucket, chunk_bytes, header->sequence);
    return (struct spotnik_placement){ .verdict = SPOTNIK_VERDICT_TAKE,
                                       .kind = SPOTNIK_RING_COPY,
                                       .offset = chunk.offset,
                                       .count = chunk.count };
}

/* The algorithm of a bucket, which is not known to itself before the sum of our host is there. */
static enum spotnik_schedule schedule_of(const struct spotnik_core *core,
                                         const struct spotnik_bucket *bucket)
{
    SPOTNIK_ASSERT(bucket->used);
    bool due = bucket->algorithm == ALGORITHM_HOST_MEMORY && bucket->hosts
               && allreduce_hosts_by_tree(core, bucket);
    return due ? SPOTNIK_SCHEDULE_TREE : bucket->schedule;
}

/* A frame of the running step: has the caller started that bucket, and is it ours? */
static struct spotnik_placement place_running(struct spotnik_core *core, struct spotnik_id from,
                                              const struct spotnik_chunk_header *header)
{
    uint64_t step = core->step.committed + 1;
    struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, header->bucket);

    SPOTNIK_ASSERT(header->step == step);
    if (!core->step.begun || !bucket->used)
        return core->step.begun && core->step.sealed ? frame_differs(core, from, header)
                                                     : allreduce_verdict(SPOTNIK_VERDICT_WAIT);
    if (!same_layout(bucket, header)
        || (!header->handover && header->schedule != schedule_of(core, bucket)))
        return frame_differs(core, from, header);
    if (header->handover)
        core->allreduce->handed_buckets = header->weight;
    if (handover_mismatch(core))
        return allreduce_verdict(SPOTNIK_VERDICT_DROP);
    return header->handover
               ? place_handover(core, bucket, header)
               : algorithm_of(bucket)->place(core, bucket, rank_of(core, from), header);
}

/* The frame belongs to our view (or to a joiner's stream): to which step? */
static struct spotnik_placement place_here(struct spotnik_core *core, struct spotnik_id from,
                                           const struct spotnik_chunk_header *header)
{
    uint64_t step = core->step.committed + 1;

    SPOTNIK_ASSERT(header->bucket < SPOTNIK_BUCKETS_MAX);
    if (header->step < step)
        return place_late(core, from, header);
    if (header->step > step)
        return place_early(core, from, header);
    if (!header->handover && step_by_handover(core))
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    if (header->handover && !step_by_handover(core))
        return allreduce_verdict(SPOTNIK_VERDICT_DROP);
    return place_running(core, from, header);
}

static struct spotnik_placement place_joining(struct spotnik_core *core, struct spotnik_id from,
                                              const struct spotnik_chunk_header *header)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_JOINER);
    if (!header->handover || header->epoch != 0)
        /* our predecessor in a view we are about to install */
        return allreduce_verdict(SPOTNIK_VERDICT_WAIT);
    core->allreduce->replay_due |= !core->step.begun && header->step == core->step.committed + 1;
    step_try_begin(core);
    return place_here(core, from, header);
}

struct spotnik_placement spotnik_core_place(struct spotnik_core *core, struct spotnik_id from,
                                            const struct spotnik_chunk_header *header)
{
    if (header->bucket >= SPOTNIK_BUCKETS_MAX)
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    if (core->role == SPOTNIK_ROLE_JOINER)
        return place_joining(core, from, header);
    if (core->role != SPOTNIK_ROLE_MEMBER)
        return allreduce_verdict(SPOTNIK_VERDICT_DROP);
    if (header->epoch > core->view.epoch)
        return allreduce_verdict(SPOTNIK_VERDICT_WAIT);
    if (header->epoch < core->view.epoch || frozen(core))
        return allreduce_verdict(SPOTNIK_VERDICT_DROP);
    uint32_t rank = core->view.size < 2 ? SPOTNIK_NO_RANK : rank_of(core, from);
    if (rank == SPOTNIK_NO_RANK || rank == core->rank
        || (header->handover && rank != predecessor_rank(core)))
        return allreduce_verdict(SPOTNIK_VERDICT_BAD);
    return place_here(core, from, header);
}

static bool still_wanted(const struct spotnik_core *core, const struct spotnik_chunk_header *header)
{
    if (header->bucket >= SPOTNIK_BUCKETS_MAX || !core->step.begun
        || header->step != core->step.committed + 1)
        return false;
    if (core->role == SPOTNIK_ROLE_JOINER)
        return header->handover;
    return core->role == SPOTNIK_ROLE_MEMBER && header->epoch == core->view.epoch && !frozen(core)
           && header->handover == step_by_handover(core);
}

/* The payload is in place; unless a view change came while it was read, it counts. */
void on_chunk_done(struct spotnik_core *core, const struct spotnik_chunk_header *header)
{
    if (!still_wanted(core, header))
        return;
    struct spotnik_bucket *bucket =
        spotnik_transaction_bucket(&core->step, header->step, header->bucket);
    if (!bucket->used || bucket->complete)
        return;
    if (header->handover && header->sequence == bucket->handover_received) {
        spotnik_transaction_receive_handover(&core->step, bucket, core->limits.chunk_bytes);
    } else if (!header->handover && algorithm_of(bucket)->receive) {
        algorithm_of(bucket)->receive(core, bucket, header);
    }
    step_try_commit(core);
}
