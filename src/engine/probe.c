/* SPDX-License-Identifier: Apache-2.0 */
/* What an engine shows to tests and the bench. */
#include "engine/probe.h"

#include "engine/inside.h"
#include "member/hosts.h"

void spotnik_net_ways(struct spotnik_engine *engine, struct spotnik_net_ways *ret)
{
    spotnik_engine_lock(engine);
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    ret->members = view->size;
    ret->hosts = spotnik_hosts_count(view);
    ret->limits = engine->config.limits;
    spotnik_carriage_memory(engine->carriage, &ret->memory);
    spotnik_engine_unlock(engine);
}

struct spotnik_bucket spotnik_net_bucket(struct spotnik_engine *engine, uint64_t step,
                                         uint32_t number)
{
    spotnik_engine_lock(engine);
    struct spotnik_bucket bucket = *spotnik_core_bucket(engine->core, step, number);
    spotnik_engine_unlock(engine);
    return bucket;
}

bool spotnik_net_sees(struct spotnik_engine *engine, struct spotnik_id peer)
{
    spotnik_engine_lock(engine);
    bool sees = spotnik_carriage_sees(engine->carriage, peer);
    spotnik_engine_unlock(engine);
    return sees;
}
