/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's lock. A thread that wants it while another does queues at a second mutex first. So the progress thread, which takes it
 * again at once after every release, lets the caller's thread in between, and the other way round. A thread that finds it free and the
 * queue empty takes it at once. */
#include "net/state.h"

void spotnik_engine_lock(struct spotnik_engine *engine)
{
    if (__atomic_load_n(&engine->queued, __ATOMIC_RELAXED) == 0 && pthread_mutex_trylock(&engine->lock) == 0)
        return;
    pthread_mutex_lock(&engine->queue);
    __atomic_store_n(&engine->queued, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&engine->lock);
    __atomic_store_n(&engine->queued, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&engine->queue);
}

void spotnik_engine_unlock(struct spotnik_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}
