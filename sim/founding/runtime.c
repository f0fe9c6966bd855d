/* SPDX-License-Identifier: Apache-2.0 */
/* What the peers folder asks of the runtime and of the network, answered by the world. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/time.h"
#include "link/auth.h"
#include "discovery/inside.h"
#include "task.h"
#include "world.h"

#define ROUND_TRIP_NS SPOTNIK_MS

bool world_runs(const struct spotnik_runtime *process)
{
    return process->alive && process->paused_until_ns <= task_now_ns();
}

static bool is_cut(uint32_t a, uint32_t b)
{
    return world.host[a].cut[b] || world.host[b].cut[a];
}

bool world_reach(const struct spotnik_runtime *a, const struct spotnik_runtime *b)
{
    return world_runs(a) && world_runs(b) && !is_cut(a->host, b->host)
           && !world.host[a->host].rejects[b->host] && !world.host[b->host].rejects[a->host];
}

static struct spotnik_runtime *at_address(const uint8_t address[16], uint16_t port)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct spotnik_member *self = &world.process[i].credentials.self;
        if (world.process[i].alive && self->port == port && memcmp(self->address, address, 16) == 0)
            return &world.process[i];
    }
    return NULL;
}

/* The last byte of an address is its host. */
static int dial(const uint8_t address[16], uint16_t port, uint64_t timeout_ns,
                struct spotnik_runtime **ret)
{
    const struct spotnik_runtime *caller = task_process();
    uint32_t host = address[15];

    *ret = at_address(address, port);
    if (world.host[caller->host].rejects[host]
        || (world.host[host].boot != 0 && *ret == NULL && !is_cut(caller->host, host))) {
        task_sleep(ROUND_TRIP_NS);
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "refused");
    }
    if (*ret == NULL || is_cut(caller->host, host) || !world_runs(*ret)) {
        task_sleep(timeout_ns);
        return spotnik_error_return(SPOTNIK_ERR_PEERS, "no answer");
    }
    task_sleep(task_below(4 * ROUND_TRIP_NS));
    return (*ret)->alive ? 0 : spotnik_error_return(SPOTNIK_ERR_PEERS, "no answer");
}

int spotnik_net_ask(const struct spotnik_credentials *credentials, const uint8_t address[16],
                    uint16_t port, uint64_t timeout_ns, struct spotnik_answer *ret_answer,
                    bool *ret_refused)
{
    struct spotnik_runtime *peer;
    int rc = dial(address, port, timeout_ns, &peer);

    (void)credentials;
    memset(ret_answer, 0, sizeof *ret_answer);
    if (ret_refused != NULL)
        *ret_refused = false;
    if (rc != 0)
        return rc;
    ret_answer->epoch = peer->lineage != NULL ? peer->epoch : 0;
    ret_answer->parked = peer->parked;
    ret_answer->self = peer->credentials.self;
    spotnik_runtime_presence(peer, &ret_answer->presence);
    return 0;
}

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    return &runtime->credentials;
}

struct spotnik_id spotnik_runtime_id(struct spotnik_runtime *runtime)
{
    return runtime->credentials.self.id;
}

void spotnik_runtime_presence(struct spotnik_runtime *runtime, struct spotnik_presence *ret)
{
    *ret = (struct spotnik_presence){ .size = 0 };
    if (runtime->lineage != NULL)
        *ret = (struct spotnik_presence){ .founding = runtime->lineage->founding,
                                          .step = runtime->step,
                                          .size = runtime->lineage->size };
}

struct spotnik_founding spotnik_runtime_past(struct spotnik_runtime *runtime)
{
    return runtime->past;
}

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    *ret = (spotnik_job_status){ .view_epoch = runtime->lineage != NULL ? runtime->epoch : 0,
                                 .step_committed = runtime->step,
                                 .size = runtime->lineage != NULL ? runtime->lineage->size : 0,
                                 .parked = runtime->parked,
                                 .joining = runtime->joining };
}

uint32_t spotnik_runtime_members(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max, uint64_t *ret_epoch)
{
    uint32_t count = 0;

    *ret_epoch = runtime->epoch;
    for (uint32_t i = 0; runtime->lineage != NULL && i < runtime->lineage->size && count < max; i++)
        ret[count++] = runtime->lineage->member[i]->credentials.self;
    return count;
}

uint32_t spotnik_runtime_callers(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max)
{
    (void)runtime, (void)ret, (void)max;
    return 0;
}

void spotnik_runtime_vote_set(struct spotnik_runtime *runtime,
                              const struct spotnik_member *membership)
{
    (void)runtime, (void)membership;
}

bool spotnik_runtime_is_foreign(struct spotnik_runtime *runtime,
                                const struct spotnik_answer *answer)
{
    struct spotnik_presence ours;

    spotnik_runtime_presence(runtime, &ours);
    return spotnik_founding_is_foreign(&ours.founding, &answer->presence.founding);
}

void spotnik_presence_describe(const struct spotnik_presence *presence, char *text, size_t size)
{
    snprintf(text, size, "%016llx", (unsigned long long)presence->founding.id);
}

void spotnik_runtime_lineage_tell(struct spotnik_runtime *runtime, const char *text)
{
    world_tell("%u: %s", runtime->number, text);
}

bool spotnik_runtime_ledger(struct spotnik_runtime *runtime, uint64_t committed,
                            struct spotnik_ledger *ret)
{
    (void)ret;
    return runtime->lineage != NULL && runtime->step == committed;
}

/* The other one tells of its view, if it can. */
void spotnik_runtime_greet(struct spotnik_runtime *runtime, const struct spotnik_member *peer)
{
    const struct spotnik_runtime *other = at_address(peer->address, peer->port);

    if (other != NULL && runtime->lineage != NULL && other->lineage == runtime->lineage
        && other->epoch > runtime->epoch && world_reach(runtime, other) && !other->parked)
        runtime->out = true;
}

void spotnik_runtime_over(struct spotnik_runtime *runtime)
{
    if (runtime->parked)
        runtime->out = true;
}

void spotnik_runtime_end(struct spotnik_runtime *runtime, int error, const char *why)
{
    world_tell("%u ends: %s", runtime->number, why);
    world.replaced += error == SPOTNIK_ERR_LINEAGE;
    runtime->ended = error;
    lineage_leave(runtime);
}

bool spotnik_runtime_is_noticed(const struct spotnik_runtime *runtime)
{
    return runtime->noticed_ns != 0;
}

void spotnik_runtime_looked(struct spotnik_runtime *runtime, uint64_t begun_boot_ns,
                            uint64_t stale_ns)
{
    (void)stale_ns; /* of all */
    runtime->looked_ns = begun_boot_ns - runtime->clock_ns;
    if (runtime->looked_ns >= runtime->barred_ns)
        runtime->barred_ns = 0;
}

bool spotnik_runtime_is_barred(struct spotnik_runtime *runtime)
{
    return runtime->barred_ns != 0 && !runtime->parked;
}

void spotnik_runtime_tell_waiting(struct spotnik_runtime *runtime, uint64_t ns, uint64_t of_ns)
{
    (void)runtime, (void)ns, (void)of_ns;
}

/* ---- ties ---- */

bool spotnik_runtime_tie_wait(struct spotnik_runtime *runtime, struct spotnik_tie *ret)
{
    while (!runtime->tie_asked && !runtime->tie_closed)
        task_wait(&runtime->tie, UINT64_MAX);
    runtime->tie_asked = false;
    *ret = runtime->tie;
    return !runtime->tie_closed;
}

void spotnik_runtime_tie_tell(struct spotnik_runtime *runtime, const struct spotnik_tie *tie,
                              bool named)
{
    world_tell("%u: the witness %s it for epoch %llu", runtime->number,
               named ? "names" : "does not name", (unsigned long long)tie->epoch);
    if (named && runtime->lineage != NULL && runtime->lineage->founding.id == tie->founding) {
        for (uint32_t i = 0; i < world.process_count; i++)
            if (&world.process[i] != runtime && world.process[i].alive
                && world.process[i].tie_named == tie->epoch
                && world.process[i].lineage == runtime->lineage)
                world_break("the witness names %u and %u for epoch %llu", world.process[i].number,
                            runtime->number, (unsigned long long)tie->epoch);
        runtime->tie_named = tie->epoch;
    }
}

void spotnik_runtime_tie_close(struct spotnik_runtime *runtime, bool closed)
{
    runtime->tie_closed = closed;
    task_wake(&runtime->tie);
}

/* ---- what no seed may leave to chance ---- */

void __wrap_spotnik_auth_random(void *out, size_t size);

void __wrap_spotnik_auth_random(void *out, size_t size)
{
    for (size_t i = 0; i < size; i++)
        ((uint8_t *)out)[i] = (uint8_t)task_below(256);
}

/* ---- kernels ---- */

void spotnik_process_self(struct spotnik_process *ret)
{
    *ret = task_process()->kernel;
}

enum spotnik_liveness spotnik_process_life(const struct spotnik_process *process)
{
    if (process->boot != task_process()->kernel.boot)
        return SPOTNIK_LIFE_UNKNOWN;
    for (uint32_t i = 0; i < world.process_count; i++)
        if (memcmp(&world.process[i].kernel, process, sizeof *process) == 0)
            return world.process[i].alive ? SPOTNIK_LIFE_ALIVE : SPOTNIK_LIFE_ENDED;
    return SPOTNIK_LIFE_ENDED;
}
