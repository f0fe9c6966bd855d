/* SPDX-License-Identifier: Apache-2.0 */
/* Exact ties of views. The core asks for the witness, and a thread of its own looks into the folder
 * and answers: a file server may take any time (docs/design/0014-ties.md). An answer counts
 * for the member and the lineage that it was asked for. */
#include "engine/inside.h"

/* While the core's actions run. What was asked before and not answered is of no use any more. */
void spotnik_tie_ask(struct spotnik_engine *engine, uint64_t epoch)
{
    engine->tie = (struct spotnik_tie){ .self = engine->config.credentials.self.id,
                                        .founding = spotnik_core_view(engine->core)->founding.id,
                                        .epoch = epoch };
    engine->tied = true;
    pthread_cond_signal(&engine->tie_asked);
}

bool spotnik_engine_tie_wait(struct spotnik_engine *engine, struct spotnik_tie *ret)
{
    spotnik_engine_lock(engine);
    while (!engine->tied && !engine->tie_closed)
        pthread_cond_wait(&engine->tie_asked, &engine->loop.lock);
    bool asked = !engine->tie_closed;
    engine->tied = false;
    *ret = engine->tie;
    spotnik_engine_unlock(engine);
    return asked;
}

void spotnik_engine_tie_tell(struct spotnik_engine *engine, const struct spotnik_tie *tie,
                             bool named)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WITNESS,
                                   .witness = { tie->epoch, named } };
    spotnik_engine_lock(engine);
    if (spotnik_id_equal(tie->self, engine->config.credentials.self.id)
        && tie->founding == spotnik_core_view(engine->core)->founding.id) {
        spotnik_engine_drive(engine, &event);
        spotnik_engine_kick(engine);
    }
    spotnik_engine_unlock(engine);
}

void spotnik_engine_tie_close(struct spotnik_engine *engine, bool closed)
{
    spotnik_engine_lock(engine);
    engine->tie_closed = closed;
    pthread_cond_broadcast(&engine->tie_asked);
    spotnik_engine_unlock(engine);
}
