/* SPDX-License-Identifier: Apache-2.0 */
/* What a runtime shows to tests and the bench. */
#include "runtime/probe.h"

#include "runtime/inside.h"
#include "member/hosts.h"

void spotnik_net_ways(struct spotnik_runtime *runtime, struct spotnik_net_ways *ret)
{
    spotnik_runtime_lock(runtime);
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    ret->members = view->size;
    ret->hosts = spotnik_hosts_count(view);
    ret->limits = runtime->config.limits;
    spotnik_transport_memory(runtime->transport, &ret->memory);
    spotnik_runtime_unlock(runtime);
}

struct spotnik_bucket spotnik_net_bucket(struct spotnik_runtime *runtime, uint64_t step,
                                         uint32_t number)
{
    spotnik_runtime_lock(runtime);
    struct spotnik_bucket bucket = *spotnik_core_bucket(runtime->core, step, number);
    spotnik_runtime_unlock(runtime);
    return bucket;
}

bool spotnik_net_sees(struct spotnik_runtime *runtime, struct spotnik_id peer)
{
    spotnik_runtime_lock(runtime);
    bool sees = spotnik_transport_sees(runtime->transport, peer);
    spotnik_runtime_unlock(runtime);
    return sees;
}
