/* SPDX-License-Identifier: Apache-2.0 */
/* The bookkeeping of pieces that have been moved. Decides nothing about when; see early.h. */
#include "transport/early.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

#define ALIGNMENT 4096u

static void start(struct spotnik_early *early, uint64_t step)
{
    early->step = step;
    early->count = 0;
    early->refused = false;
    early->lent = NULL;
    early->shown = 0;
}

void spotnik_early_lend(struct spotnik_early *early, uint64_t step, const void *input)
{
    start(early, step);
    early->lent = input;
}

void spotnik_early_add(struct spotnik_early *early, uint64_t step, size_t begin, size_t end)
{
    if (early->step != step)
        start(early, step);
    if (early->refused || begin == end)
        return;
    struct spotnik_early_range *last = early->count > 0 ? &early->range[early->count - 1] : NULL;
    if (last != NULL && last->end == begin)
        last->end = end;
    else if (early->count < SPOTNIK_EARLY_RANGES)
        early->range[early->count++] = (struct spotnik_early_range){ begin, end, begin };
}

static struct spotnik_early_range *due(struct spotnik_early *early)
{
    for (uint32_t i = 0; i < early->count; i++)
        if (early->range[i].moved < early->range[i].end)
            return &early->range[i];
    return NULL;
}

bool spotnik_early_is_due(struct spotnik_early *early, uint64_t step)
{
    return early->step == step && !early->refused && due(early) != NULL;
}

static bool room_get(struct spotnik_early *early, size_t bytes)
{
    size_t rounded = (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
    if (early->saved_bytes >= bytes)
        return true;
    free(early->saved);
    early->saved = rounded >= bytes ? aligned_alloc(ALIGNMENT, rounded) : NULL;
    early->saved_bytes = early->saved != NULL ? rounded : 0;
    return early->saved != NULL;
}

void spotnik_early_move(struct spotnik_early *early, uint8_t *data, const uint8_t *result,
                        size_t bytes, size_t most)
{
    struct spotnik_early_range *range = due(early);
    SPOTNIK_ASSERT(range != NULL && range->end <= bytes);
    /* nothing has been moved: room is got before the first piece */
    if (early->lent == NULL && !room_get(early, bytes)) {
        early->refused = true;
        early->count = 0;
        return;
    }
    size_t at = range->moved, left = range->end - at, some = left < most ? left : most;
    if (early->lent == NULL)
        memcpy(early->saved + at, data + at, some);
    memcpy(data + at, result + at, some);
    range->moved += some;
}

void spotnik_early_undo(struct spotnik_early *early, uint8_t *data)
{
    const uint8_t *input = early->lent != NULL ? early->lent : early->saved;
    for (uint32_t i = 0; i < early->count; i++) {
        const struct spotnik_early_range *range = &early->range[i];
        if (range->moved > range->begin)
            memcpy(data + range->begin, input + range->begin, range->moved - range->begin);
    }
    early->count = 0;
    early->lent = NULL;
}

static int by_begin(const void *a, const void *b)
{
    const struct spotnik_early_range *one = a, *other = b;
    return one->begin < other->begin ? -1 : one->begin > other->begin;
}

void spotnik_early_finish(struct spotnik_early *early, uint8_t *data, const uint8_t *result,
                          size_t bytes)
{
    size_t at = 0;
    qsort(early->range, early->count, sizeof early->range[0], by_begin);
    for (uint32_t i = 0; i < early->count; i++) {
        SPOTNIK_ASSERT(early->range[i].begin >= at);
        memcpy(data + at, result + at, early->range[i].begin - at);
        at = early->range[i].moved;
    }
    memcpy(data + at, result + at, bytes - at);
    early->count = 0;
}

void spotnik_early_free(struct spotnik_early *early)
{
    if (early != NULL)
        free(early->saved);
    free(early);
}
