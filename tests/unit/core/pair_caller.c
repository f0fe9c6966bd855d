/* SPDX-License-Identifier: Apache-2.0 */
/* The caller of a simulated node: begins steps, starts buckets, seals, and tells what it got. See
 * pair.h. */
#include "pair.h"

static void start_buckets(struct pair *pair, uint32_t index)
{
    struct node *node = &pair->node[index];
    struct spotnik_range ranges[SPOTNIK_RANGES_MAX];
    uint32_t count;

    node->samples = node->drawn[node->step] = spotnik_core_share(node->core, ranges, &count);
    for (uint32_t b = 0; b < BUCKETS; b++)
        for (uint64_t i = 0; i < COUNT; i++)
            node->in[b][i] = pair_input(index, node->step, b, i);
    if (node->weight)
        pair_event(pair, index,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_WEIGHT, .weight = node->weight });
    for (uint32_t b = 0; b < node->buckets; b++)
        pair_event(pair, index,
                   (struct spotnik_event){ .kind = SPOTNIK_EVENT_BUCKET_START,
                                           .start = { .bucket = b,
                                                      .count = node->count[b],
                                                      .dtype = SPOTNIK_F64,
                                                      .op = (uint8_t)node->op,
                                                      .element_bytes = 8 } });
}

/* What the caller got of its last step. */
static void tell_result(struct pair *pair, uint32_t index)
{
    struct node *node = &pair->node[index];
    uint64_t step = pair_status(pair, index).committed;
    uint64_t wrong = step == node->wrong_step ? node->wrong_value : 0;

    if (step == node->told)
        return;
    node->told = step;
    pair_event(pair, index,
               (struct spotnik_event){ .kind = SPOTNIK_EVENT_RESULT,
                                       .result = { step, 1000 * step + wrong } });
}

/* The caller's loop, one call at a time. */
bool pair_call(struct pair *pair, uint32_t index)
{
    struct node *node = &pair->node[index];

    if (!node->begun && !node->wants && !node->idle
        && pair_status(pair, index).committed < node->goal) {
        tell_result(pair, index);
        node->wants = true;
        pair_event(pair, index, (struct spotnik_event){ .kind = SPOTNIK_EVENT_STEP_BEGIN });
        return true;
    }
    if (node->begun && !node->sealed && !node->hold) {
        node->sealed = true;
        start_buckets(pair, index);
        pair_event(pair, index, (struct spotnik_event){ .kind = SPOTNIK_EVENT_STEP_SEAL });
        return true;
    }
    return false;
}
