/* SPDX-License-Identifier: Apache-2.0 */
/* Windows for tests and the bench. The first: before and after every event enters the core, and
 * every action it asks for is done. The library never sets it. A test linked with the static
 * library does, to end the process at one exact point of a recovery. */
#ifndef SPOTNIK_RUNTIME_PROBE_H
#define SPOTNIK_RUNTIME_PROBE_H

#include "transport/transport.h"
#include "core/core.h"
#include "step/transaction.h"

/* One of both is NULL. Called under the runtime's lock, on whatever thread drives the core. */
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

struct spotnik_runtime;

/* How the view of this moment moves buckets. */
struct spotnik_net_ways {
    uint32_t members, hosts;
    struct spotnik_limits limits;
    struct spotnik_memory_status memory;
};
void spotnik_net_ways(struct spotnik_runtime *runtime, struct spotnik_net_ways *ret);

/* As it stands, in the running step or in the one before. */
struct spotnik_bucket spotnik_net_bucket(struct spotnik_runtime *runtime, uint64_t step,
                                         uint32_t number);
/* spotnik_transport_sees(). */
bool spotnik_net_sees(struct spotnik_runtime *runtime, struct spotnik_id peer);

#endif
