/* SPDX-License-Identifier: Apache-2.0 */
/* When steps are reduced in shared memory instead of round the ring
 * (docs/design/0007-data-path.md). The same decides when they are reduced in the memory of each
 * host, and between hosts round a ring of those: then members of different hosts need not share.
 *
 * All members of a view must choose alike, and neither way to that costs a message. First way: the
 * choice comes with the view. Every report in PREPARE names the members that it shares no memory
 * with. The proposal says whether all remaining members share it, and they install that word with
 * the view. Second way: a new member has no memory yet, so the first step of the view goes round
 * the ring. Its chunks carry one bit, "all contributors so far share memory with the whole view".
 * A member that commits that step in this view has the word of all members, as have all others
 * that commit it. From the next step on they reduce flat, until the next view. The driver decides
 * how to share and reduce memory.
 *
 * A step that one member has committed flat lies open to all: every other member of that view has
 * all its shares mapped. So if the next view settles that step, and all of it share memory,
 * members take large results from there. Then no member hands them over. Rules: docs/protocol.md 9
 * and 10. */
#include <string.h>

#include "base/assert.h"
#include "allreduce/allreduce.h"

static uint32_t find(const struct spotnik_flat_mode *flat, struct spotnik_id id)
{
    SPOTNIK_ASSERT(flat->count <= flat->max);
    uint32_t at = 0;
    while (at < flat->count && !spotnik_id_equal(flat->peer[at], id))
        at++;
    return at;
}

/* Do we lack memory that we should share with this member? */
static bool is_apart(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    if (rank == core->rank
        || (core->limits.hierarchy && !spotnik_hosts_mate(&core->view, rank, core->rank)))
        return false;
    return find(&core->allreduce->flat, core->view.entry[rank].member.id)
           == core->allreduce->flat.count;
}

/* What we say of ourselves in this step, the same for all its buckets. */
void flat_latch(struct spotnik_core *core)
{
    core->allreduce->flat.ours = core->role == SPOTNIK_ROLE_MEMBER;
    for (uint32_t rank = 0; rank < core->view.size && core->allreduce->flat.ours; rank++)
        core->allreduce->flat.ours = !is_apart(core, rank);
}

/* Our word in PREPARE. Once it has failed in a view, the next one begins on the ring, or two
 * might fail for ever. */
uint64_t flat_apart(const struct spotnik_core *core)
{
    uint64_t apart = 0;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->allreduce->flat.failed)
        return UINT64_MAX;
    for (uint32_t rank = 0; rank < core->view.size; rank++)
        if (is_apart(core, rank))
            apart |= UINT64_C(1) << rank % 64;
    return apart;
}

/* Do all members of the view have one address? */
static bool is_near(const struct spotnik_core *core)
{
    const struct spotnik_view *view = &core->view;

    for (uint32_t rank = 1; rank < view->size; rank++)
        if (memcmp(view->entry[rank].member.address, view->entry[0].member.address,
                   sizeof(view->entry[0].member.address))
            != 0)
            return false;
    return true;
}

void flat_install(struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    core->allreduce->near = is_near(core);
    core->allreduce->flat.failed = false;
    core->allreduce->flat.on = core->chosen.flat;
    core->allreduce->holders =
        spotnik_hosts_holders(&core->view, core->allreduce->holder, core->allreduce->scratch);
    core->allreduce->hosts =
        core->limits.hierarchy ? spotnik_hosts_of(&core->view, core->rank, core->allreduce->holder,
                                                  core->allreduce->holders)
                               : (struct spotnik_hosts){ .count = 1 };
    flat_latch(core);
    core->allreduce->flat.on |=
        core->allreduce->flat.ours && SPOTNIK_IS_PLANTED(core, FLAT_UNASKED);
}

/* After a commit. A member that was handed the result has no other's word; but then a view has
 * begun with it, as for all members. */
void flat_settle(struct spotnik_core *core, bool handed)
{
    uint64_t generation = core->step.committed & 1;

    SPOTNIK_ASSERT(!core->step.begun);
    if (core->role != SPOTNIK_ROLE_MEMBER || core->view.size < 2 || handed)
        return;
    core->allreduce->flat.on |= core->allreduce->flat.agreed[generation];
    core->allreduce->flat.on |=
        core->allreduce->flat.ours && SPOTNIK_IS_PLANTED(core, FLAT_UNASKED);
}

/* Several hosts, and not one member on each. */
static bool are_hosts_mixed(const struct spotnik_core *core)
{
    return core->allreduce->hosts.count > 1 && core->allreduce->hosts.count < core->view.size;
}

/* Do we hold the stream of our host? It may be used in this view, now or after its first step. */
bool flat_streams(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->allreduce->holders >= 1);
    return are_hosts_mixed(core) && core->allreduce->hosts.place == 0;
}

/* Does the stream of our host, which we hold, go to this member? */
bool flat_streams_to(const struct spotnik_core *core, uint32_t rank)
{
    SPOTNIK_ASSERT(rank < core->view.size);
    return flat_streams(core) && rank == core->allreduce->hosts.next;
}

/* What is always true in a view. */
void flat_check(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->allreduce->hosts.count >= 1
                   && core->allreduce->hosts.count <= core->view.size);
    SPOTNIK_ASSERT(core->allreduce->holders >= 1 && core->allreduce->holders <= core->view.size);
    SPOTNIK_ASSERT(core->allreduce->flat.count <= core->allreduce->flat.max);
}

/* The running step is reduced on each host and between hosts. */
bool flat_by_hosts(const struct spotnik_core *core)
{
    return core->allreduce->flat.on && are_hosts_mixed(core);
}

/* The result of all has come round: the others on our host wait for it. */
void flat_spread(struct spotnik_core *core, uint32_t number, const struct spotnik_bucket *bucket,
                 uint64_t step)
{
    SPOTNIK_ASSERT(bucket->used && bucket->complete);
    if (bucket->summed)
        queue_work(core, SPOTNIK_ACTION_SPREAD, number, step);
}

/* Every member of a view that was chosen flat was in the view before, and so says the same of each
 * bucket. */
static bool lies_there(const struct spotnik_core *core, const struct spotnik_bucket *bucket)
{
    uint64_t epoch = core->allreduce->flat.begun_epoch[core->view.settled_step & 1];

    SPOTNIK_ASSERT(core->view.settled_step > 0);
    return core->chosen.flat && epoch != 0 && epoch + 1 == core->view.epoch && bucket->used
           && bucket->flat && bucket->count * bucket->element_bytes > core->limits.flat_small_bytes;
}

/* A new view: what needs no handing over, and, if we lag, what we take ourselves. */
void flat_take_late(struct spotnik_core *core)
{
    uint64_t step = core->view.settled_step;

    SPOTNIK_ASSERT(core->role == SPOTNIK_ROLE_MEMBER);
    if (core->step.committed > step || core->step.committed + 1 < step)
        return;
    for (uint32_t i = 0; i < core->step.last[step & 1]; i++) {
        struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, i);
        if (!lies_there(core, bucket))
            continue;
        bucket->handed = spotnik_transaction_handover_total(bucket, core->limits.chunk_bytes);
        if (!bucket->complete)
            queue_work(core, SPOTNIK_ACTION_FLAT_LATE, i, step);
    }
}

void on_shared(struct spotnik_core *core, const struct spotnik_event_shared *shared)
{
    struct spotnik_flat_mode *flat = &core->allreduce->flat;
    uint32_t at = find(flat, shared->peer.id);

    if (!shared->open && at < flat->count)
        flat->peer[at] = flat->peer[--flat->count];
    else if (shared->open && at == flat->count && flat->count < flat->max)
        flat->peer[flat->count++] = shared->peer.id;
}
