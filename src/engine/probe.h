/* SPDX-License-Identifier: Apache-2.0 */
/* A window for tests: before and after every event enters the core and every action it asks for is
 * done. The library never sets it; a test linked with the static library does, to end the process
 * at one exact point of a recovery. */
#ifndef SPOTNIK_ENGINE_PROBE_H
#define SPOTNIK_ENGINE_PROBE_H

#include "core/core.h"

/* One of both is NULL. Called under the engine's lock, on whatever thread drives the core. */
typedef void spotnik_net_probe_function(const struct spotnik_event *event,
                                        const struct spotnik_action *action, bool done);

/* Set before the first job of the process begins, and never changed. */
extern spotnik_net_probe_function *spotnik_net_probe;

static inline void spotnik_net_look(const struct spotnik_event *event,
                                    const struct spotnik_action *action, bool done)
{
    if (__builtin_expect(spotnik_net_probe != NULL, 0))
        spotnik_net_probe(event, action, done);
}

#endif
