/* SPDX-License-Identifier: Apache-2.0 */
/* FLAT_DONE and FLAT_FAILED: what has become of a bucket in shared memory. Rules: docs/protocol.md
 * 9. */
#include "base/assert.h"
#include "allreduce/allreduce.h"

static bool still_wanted(const struct spotnik_core *core, const struct spotnik_bucket_at *at)
{
    return core->role == SPOTNIK_ROLE_MEMBER && !core->frozen && core->allreduce->flat.on
           && core->step.begun && at->epoch == core->view.epoch
           && at->step == core->step.committed + 1 && at->bucket < SPOTNIK_BUCKETS_MAX;
}

void on_flat_done(struct spotnik_core *core, const struct spotnik_event_flat *done)
{
    if (!still_wanted(core, &done->at))
        return;
    struct spotnik_bucket *bucket =
        spotnik_transaction_bucket(&core->step, done->at.step, done->at.bucket);
    if (!bucket->used || bucket->complete)
        return;
    if (bucket->hosts) {
        allreduce_hosts_summed(core, bucket, done);
        return;
    }
    if (!bucket->flat)
        return;
    spotnik_transaction_receive_flat(&core->step, bucket);
    step_try_commit(core);
}

/* Our memory fails us, and no other member knows: the step is reduced again, in a view of the same
 * members and round the ring. (Only a proposal made earlier, and found again, may say otherwise
 * once more.) */
void on_flat_failed(struct spotnik_core *core, const struct spotnik_event_failure *failure)
{
    SPOTNIK_ASSERT(failure->error != 0);
    if (!still_wanted(core, &failure->at))
        return;
    if (failure->error == SPOTNIK_ERR_MISMATCH) {
        bucket_differs(core, failure->at.step, failure->at.bucket, &failure->other);
        return;
    }
    core->allreduce->flat.failed = true;
    core->news.failed = true;
}
