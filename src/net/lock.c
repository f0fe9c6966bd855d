/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's lock. Whoever wants it queues at a second mutex first: the progress thread, which takes it
 * again at once after every release, thereby lets the caller's thread in between. */
#include "net/state.h"

void spotnik_engine_lock(struct spotnik_engine *engine)
{
    pthread_mutex_lock(&engine->queue);
    pthread_mutex_lock(&engine->lock);
    pthread_mutex_unlock(&engine->queue);
}

void spotnik_engine_unlock(struct spotnik_engine *engine)
{
    pthread_mutex_unlock(&engine->lock);
}
