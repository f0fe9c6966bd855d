/* SPDX-License-Identifier: Apache-2.0 */
/* May this member go on? The keeper of our place in the folder tells the engine two things: when it
 * looked there last, and that another lineage has the job. The engine tells it which processes
 * asked us. Decides nothing itself. */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "engine/inside.h"

/* ---- processes that asked us ---- */

/* after this, without another question, a process is forgotten */
#define CALLER_NS (10 * SPOTNIK_S)

void spotnik_caller_note(struct spotnik_engine *engine, const struct spotnik_member *peer)
{
    struct spotnik_caller *oldest = &engine->called[0];
    for (uint32_t i = 0; i < SPOTNIK_CALLERS_KEPT; i++) {
        struct spotnik_caller *caller = &engine->called[i];
        bool same = spotnik_id_equal(caller->peer.id, peer->id);
        if (same || caller->heard_ns < oldest->heard_ns)
            oldest = caller;
        if (same)
            break;
    }
    *oldest = (struct spotnik_caller){ .peer = *peer, .heard_ns = spotnik_clock_ns() };
}

uint32_t spotnik_engine_callers(struct spotnik_engine *engine, struct spotnik_member *ret,
                                uint32_t max)
{
    uint32_t count = 0;
    spotnik_engine_lock(engine);
    for (uint32_t i = 0; i < SPOTNIK_CALLERS_KEPT && count < max; i++)
        if (engine->called[i].heard_ns != 0
            && spotnik_time_since(spotnik_clock_ns(), engine->called[i].heard_ns) < CALLER_NS)
            ret[count++] = engine->called[i].peer;
    spotnik_engine_unlock(engine);
    return count;
}

/* ---- commits ---- */

static void bar(struct spotnik_engine *engine, bool barred)
{
    engine->driving = true;
    spotnik_recorder_bar(engine->recorder, barred);
    spotnik_core_bar(engine->core, barred);
    spotnik_engine_act(engine);
    engine->driving = false;
    if (!barred)
        spotnik_engine_kick(engine);
}

/* The process was stopped, and others may have founded the job again meanwhile. Where events went
 * on it is the folder that hangs, and training does not wait for a folder. */
static bool was_stopped(const struct spotnik_engine *engine, uint64_t now_ns)
{
    uint64_t stale_ns = engine->awake.stale_ns;
    return engine->awake.look_ns != 0
           && spotnik_time_since(now_ns, engine->awake.look_ns) > stale_ns - stale_ns / 16
           && spotnik_time_since(now_ns, engine->awake.event_ns) > stale_ns / 2;
}

/* So may it be where this member is cut off from its majority for long: whoever founds leaves the
 * old view by that, and may be what the rest of it waited for to go on. */
static bool is_parked_long(const struct spotnik_engine *engine)
{
    return engine->awake.look_ns != 0 && engine->parked_ns != 0
           && spotnik_time_since(spotnik_clock_ns(), engine->parked_ns)
                  > engine->awake.stale_ns / 2;
}

/* Before each event: one of them may complete a step. */
void spotnik_awake_check(struct spotnik_engine *engine)
{
    uint64_t now_ns = spotnik_clock_boot_ns();
    if (was_stopped(engine, now_ns) || is_parked_long(engine))
        engine->awake.barred_ns = now_ns;
    engine->awake.event_ns = now_ns;
    if (engine->awake.barred_ns == 0)
        return;
    spotnik_recorder_bar(engine->recorder, true);
    spotnik_core_bar(engine->core, true);
}

void spotnik_engine_looked(struct spotnik_engine *engine, uint64_t begun_boot_ns, uint64_t stale_ns)
{
    spotnik_engine_lock(engine);
    bool lifts = engine->awake.barred_ns != 0 && begun_boot_ns >= engine->awake.barred_ns;
    engine->awake.look_ns = begun_boot_ns;
    engine->awake.stale_ns = stale_ns;
    if (lifts)
        engine->awake.barred_ns = 0;
    if (lifts && engine->ended == 0)
        bar(engine, false);
    spotnik_engine_unlock(engine);
}

bool spotnik_engine_is_barred(struct spotnik_engine *engine)
{
    spotnik_engine_lock(engine);
    bool barred = engine->awake.barred_ns != 0 && engine->parked_ns == 0;
    spotnik_engine_unlock(engine);
    return barred;
}

void spotnik_engine_end(struct spotnik_engine *engine, int error, const char *why)
{
    spotnik_engine_lock(engine);
    if (engine->ended == 0) {
        engine->ended = error;
        if (error == SPOTNIK_ERR_LINEAGE)
            spotnik_death_refused(engine->death);
        snprintf(engine->end, sizeof engine->end, "%s", why);
        bar(engine, true);
        spotnik_engine_changed(engine);
    }
    spotnik_engine_unlock(engine);
}

void spotnik_engine_over(struct spotnik_engine *engine)
{
    struct spotnik_core_status status;
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    if (status.role == SPOTNIK_ROLE_MEMBER && status.parked) {
        engine->excluded = true;
        bar(engine, true); /* what we hold now is what counts */
        spotnik_engine_changed(engine);
    }
    spotnik_engine_unlock(engine);
}
