/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ties of views. The core asks for the witness, and a thread of its own looks into the folder
 * and answers: a file server may take any time (docs/design/0014-ties.md). An answer counts
 * for the member and the lineage that it was asked for. */
#include "runtime/inside.h"

/* While the core's actions run. What was asked before and not answered is of no use any more. */
void spotnik_tie_ask(struct spotnik_runtime *runtime, uint64_t epoch)
{
    runtime->tie = (struct spotnik_tie){ .self = runtime->config.credentials.self.id,
                                         .founding = spotnik_core_view(runtime->core)->founding.id,
                                         .epoch = epoch };
    runtime->tied = true;
    pthread_cond_signal(&runtime->tie_asked);
}

bool spotnik_runtime_tie_wait(struct spotnik_runtime *runtime, struct spotnik_tie *ret)
{
    spotnik_runtime_lock(runtime);
    while (!runtime->tied && !runtime->tie_closed)
        pthread_cond_wait(&runtime->tie_asked, &runtime->loop.lock);
    bool asked = !runtime->tie_closed;
    runtime->tied = false;
    *ret = runtime->tie;
    spotnik_runtime_unlock(runtime);
    return asked;
}

void spotnik_runtime_tie_tell(struct spotnik_runtime *runtime, const struct spotnik_tie *tie,
                              bool named)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WITNESS,
                                   .witness = { tie->epoch, named } };
    spotnik_runtime_lock(runtime);
    if (spotnik_id_equal(tie->self, runtime->config.credentials.self.id)
        && tie->founding == spotnik_core_view(runtime->core)->founding.id) {
        spotnik_runtime_dispatch(runtime, &event);
        spotnik_runtime_kick(runtime);
    }
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_tie_close(struct spotnik_runtime *runtime, bool closed)
{
    spotnik_runtime_lock(runtime);
    runtime->tie_closed = closed;
    pthread_cond_broadcast(&runtime->tie_asked);
    spotnik_runtime_unlock(runtime);
}
