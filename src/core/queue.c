/* SPDX-License-Identifier: Apache-2.0 */
/* Actions on their way to the driver. */
#include "base/assert.h"
#include "core/state.h"

struct spotnik_action *queue_action(struct spotnik_core *core, enum spotnik_action_kind kind)
{
    SPOTNIK_ASSERT(core->queue.count < core->queue.max);
    struct queued_action *slot =
        &core->queue.slot[(core->queue.head + core->queue.count++) % core->queue.max];
    slot->action = (struct spotnik_action){ .kind = kind };
    slot->message = 0;
    slot->epoch = core->view.epoch;
    slot->serial = 0;
    slot->ballot = (struct spotnik_ballot){ 0 };
    return &slot->action;
}

/* The action that was queued last. */
struct queued_action *queue_last(const struct spotnik_core *core)
{
    SPOTNIK_ASSERT(core->queue.count > 0);
    return &core->queue.slot[(core->queue.head + core->queue.count - 1) % core->queue.max];
}

/* On the memory of a bucket of `step`. */
struct spotnik_work *queue_work(struct spotnik_core *core, enum spotnik_action_kind kind,
                                uint32_t bucket, uint64_t step)
{
    struct spotnik_work *work = &queue_action(core, kind)->work;

    work->step = step;
    work->bucket = bucket;
    return work;
}

void queue_peer(struct spotnik_core *core, enum spotnik_action_kind kind,
                const struct spotnik_member *peer)
{
    queue_action(core, kind)->peer = *peer;
}
