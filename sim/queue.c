/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap; see queue.h. */
#include "sim/queue.h"

#include <stdlib.h>

#include "base/assert.h"

static bool before(const struct spotnik_sim_happening *a, const struct spotnik_sim_happening *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void grow(struct spotnik_sim_queue *queue)
{
    queue->capacity = queue->capacity ? 2 * queue->capacity : 256;
    queue->heap = realloc(queue->heap, queue->capacity * sizeof(*queue->heap));
    SPOTNIK_ASSERT(queue->heap != NULL);
}

void spotnik_sim_queue_push(struct spotnik_sim_queue *queue, struct spotnik_sim_happening happening)
{
    if (queue->count == queue->capacity)
        grow(queue);
    happening.order = queue->order++;
    size_t at = queue->count++;
    while (at > 0 && before(&happening, &queue->heap[(at - 1) / 2])) {
        queue->heap[at] = queue->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    queue->heap[at] = happening;
}

bool spotnik_sim_queue_pop(struct spotnik_sim_queue *queue, struct spotnik_sim_happening *ret)
{
    if (!queue->count)
        return false;
    *ret = queue->heap[0];
    struct spotnik_sim_happening last = queue->heap[--queue->count];
    size_t at = 0;
    for (;;) {
        size_t child = 2 * at + 1;
        if (child >= queue->count)
            break;
        if (child + 1 < queue->count && before(&queue->heap[child + 1], &queue->heap[child]))
            child++;
        if (!before(&queue->heap[child], &last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    if (queue->count)
        queue->heap[at] = last;
    return true;
}

void spotnik_sim_queue_free(struct spotnik_sim_queue *queue)
{
    free(queue->heap);
    *queue = (struct spotnik_sim_queue){ .heap = NULL };
}
