/* SPDX-License-Identifier: Apache-2.0 */
/* May this member go on? The keeper of our place in the folder tells the runtime two things: when
 * it looked there last, and that another lineage has the job. The runtime tells it which processes
 * asked us. Decides nothing itself. */
#include <stdio.h>
#include <string.h>

#include "base/time.h"
#include "runtime/inside.h"

/* ---- processes that asked us ---- */

/* after this, without another question, a process is forgotten */
#define CALLER_NS (10 * SPOTNIK_S)

void spotnik_caller_note(struct spotnik_runtime *runtime, const struct spotnik_member *peer)
{
    struct spotnik_caller *oldest = &runtime->called[0];
    for (uint32_t i = 0; i < SPOTNIK_CALLERS_KEPT; i++) {
        struct spotnik_caller *caller = &runtime->called[i];
        bool same = spotnik_id_equal(caller->peer.id, peer->id);
        if (same || caller->heard_ns < oldest->heard_ns)
            oldest = caller;
        if (same)
            break;
    }
    *oldest = (struct spotnik_caller){ .peer = *peer, .heard_ns = spotnik_clock_ns() };
}

uint32_t spotnik_runtime_callers(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max)
{
    uint32_t count = 0;
    spotnik_runtime_lock(runtime);
    for (uint32_t i = 0; i < SPOTNIK_CALLERS_KEPT && count < max; i++)
        if (runtime->called[i].heard_ns != 0
            && spotnik_time_since(spotnik_clock_ns(), runtime->called[i].heard_ns) < CALLER_NS)
            ret[count++] = runtime->called[i].peer;
    spotnik_runtime_unlock(runtime);
    return count;
}

/* ---- commits ---- */

static void bar(struct spotnik_runtime *runtime, bool barred)
{
    runtime->driving = true;
    spotnik_recorder_bar(runtime->recorder, barred);
    spotnik_core_bar(runtime->core, barred);
    spotnik_runtime_act(runtime);
    runtime->driving = false;
    if (!barred)
        spotnik_runtime_kick(runtime);
}

/* The process was stopped, and others may have founded the job again meanwhile. Where events went
 * on it is the folder that hangs, and training does not wait for a folder. */
static bool was_stopped(const struct spotnik_runtime *runtime, uint64_t now_ns)
{
    uint64_t stale_ns = runtime->awake.stale_ns;
    return runtime->awake.look_ns != 0
           && spotnik_time_since(now_ns, runtime->awake.look_ns) > stale_ns - stale_ns / 16
           && spotnik_time_since(now_ns, runtime->awake.event_ns) > stale_ns / 2;
}

/* The same holds where this member is cut off from its majority for long: a founder leaves the old
 * view by founding, and the rest of that view may have waited for this. */
static bool is_parked_long(const struct spotnik_runtime *runtime)
{
    return runtime->awake.look_ns != 0 && runtime->parked_ns != 0
           && spotnik_time_since(spotnik_clock_ns(), runtime->parked_ns)
                  > runtime->awake.stale_ns / 2;
}

/* Before each event: one of them may complete a step. */
void spotnik_awake_check(struct spotnik_runtime *runtime)
{
    uint64_t now_ns = spotnik_clock_boot_ns();
    if (was_stopped(runtime, now_ns) || is_parked_long(runtime))
        runtime->awake.barred_ns = now_ns;
    runtime->awake.event_ns = now_ns;
    if (runtime->awake.barred_ns == 0)
        return;
    spotnik_recorder_bar(runtime->recorder, true);
    spotnik_core_bar(runtime->core, true);
}

void spotnik_runtime_looked(struct spotnik_runtime *runtime, uint64_t begun_boot_ns,
                            uint64_t stale_ns)
{
    spotnik_runtime_lock(runtime);
    bool lifts = runtime->awake.barred_ns != 0 && begun_boot_ns >= runtime->awake.barred_ns;
    runtime->awake.look_ns = begun_boot_ns;
    runtime->awake.stale_ns = stale_ns;
    if (lifts)
        runtime->awake.barred_ns = 0;
    if (lifts && runtime->ended == 0)
        bar(runtime, false);
    spotnik_runtime_unlock(runtime);
}

bool spotnik_runtime_is_barred(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    bool barred = runtime->awake.barred_ns != 0 && runtime->parked_ns == 0;
    spotnik_runtime_unlock(runtime);
    return barred;
}

void spotnik_runtime_end(struct spotnik_runtime *runtime, int error, const char *why)
{
    spotnik_runtime_lock(runtime);
    if (runtime->ended == 0) {
        runtime->ended = error;
        if (error == SPOTNIK_ERR_LINEAGE)
            spotnik_death_refused(runtime->death);
        snprintf(runtime->end, sizeof runtime->end, "%s", why);
        bar(runtime, true);
        spotnik_runtime_changed(runtime);
    }
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_over(struct spotnik_runtime *runtime)
{
    struct spotnik_core_status status;
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    if (status.role == SPOTNIK_ROLE_MEMBER && status.parked) {
        runtime->excluded = true;
        bar(runtime, true); /* what we hold now is what counts */
        spotnik_runtime_changed(runtime);
    }
    spotnik_runtime_unlock(runtime);
}
