/* SPDX-License-Identifier: Apache-2.0 */
/* A mismatch (docs/protocol.md 9): what two members have of one bucket. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

static struct spotnik_held held_by_us(struct spotnik_core *core, uint64_t step, uint32_t number)
{
    struct spotnik_held held = { .member = core->self.id };

    if (number == SPOTNIK_MISMATCH_OF_NUMBER) {
        held.has = 1;
        held.count = core->step.started;
        return held;
    }
    const struct spotnik_bucket *bucket = spotnik_transaction_bucket(&core->step, step, number);
    if (bucket->used) {
        held.has = 1;
        held.count = bucket->count;
        held.dtype = bucket->dtype;
        held.op = bucket->op;
    }
    return held;
}

/* A bucket of ours is not the one of the same number elsewhere, or goes by another algorithm. */
void bucket_differs(struct spotnik_core *core, uint64_t step, uint32_t bucket,
                    const struct spotnik_held *other)
{
    struct spotnik_mismatch found = { .step = step,
                                      .bucket = bucket,
                                      .held = { held_by_us(core, step, bucket), *other } };

    SPOTNIK_ASSERT(bucket <= SPOTNIK_MISMATCH_OF_NUMBER);
    mismatch_end(core, &found);
}
