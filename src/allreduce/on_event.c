/* SPDX-License-Identifier: Apache-2.0 */
/* All-reduce as src/core sees it: its memory, and one switch from event to its file. No rule of
 * the protocol is here. */
#include "allreduce/allreduce.h"

struct allreduce *allreduce_lay_out(struct carver *carver, uint32_t members, uint32_t entries)
{
    struct allreduce scratch, *real = carve(carver, sizeof(*real)),
                              *allreduce = real ? real : &scratch;

    allreduce->holder = carve(carver, members * sizeof(*allreduce->holder));
    allreduce->scratch = carve(carver, 4 * (size_t)members * sizeof(*allreduce->scratch));
    allreduce->consumed = carve(carver, members * sizeof(*allreduce->consumed));
    for (int i = 0; i < 4; i++)
        allreduce->carried[i >> 1][i & 1] = carve(carver, 2 * members * sizeof(uint64_t));
    allreduce->flat.max = entries;
    allreduce->flat.peer = carve(carver, allreduce->flat.max * sizeof(*allreduce->flat.peer));
    for (int i = 0; i < 2; i++)
        allreduce->flat.carried[i] = carve(carver, 2 * members * sizeof(bool));
    return real;
}

bool allreduce_take(struct spotnik_core *core, const struct spotnik_event *event)
{
    switch (event->kind) {
    case SPOTNIK_EVENT_STEP_BEGIN:
        on_step_begin(core);
        return true;
    case SPOTNIK_EVENT_WEIGHT:
        on_weight(core, event->weight);
        return true;
    case SPOTNIK_EVENT_DECLINE:
        on_decline(core);
        return true;
    case SPOTNIK_EVENT_BUCKET_START:
        on_bucket_start(core, &event->start);
        return true;
    case SPOTNIK_EVENT_STEP_SEAL:
        on_step_seal(core);
        return true;
    case SPOTNIK_EVENT_DEAL:
        on_deal(core, &event->deal);
        return true;
    case SPOTNIK_EVENT_CHUNK_DONE:
        on_chunk_done(core, &event->chunk.header);
        return true;
    case SPOTNIK_EVENT_SHARED:
        on_shared(core, &event->shared);
        return true;
    case SPOTNIK_EVENT_FLAT_DONE:
        on_flat_done(core, &event->flat);
        return true;
    case SPOTNIK_EVENT_FLAT_FAILED:
        on_flat_failed(core, &event->failure);
        return true;
    default:
        return false;
    }
}
