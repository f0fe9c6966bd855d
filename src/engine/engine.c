/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle of the engine: what is opened, started and freed, in which order; and what any thread
 * may ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/wake.h"
#include "engine/inside.h"
#include "link/address.h"
#include "link/auth.h"

#define CORE_ALIGNMENT 64u
/* what we find ourselves comes before the view that goes round it, by less than this */

static void *aligned_new(size_t bytes)
{
    return aligned_alloc(CORE_ALIGNMENT,
                         (bytes + CORE_ALIGNMENT - 1) & ~(size_t)(CORE_ALIGNMENT - 1));
}

void spotnik_engine_core_reset(struct spotnik_engine *engine)
{
    const struct spotnik_engine_config *config = &engine->config;
    engine->core =
        spotnik_core_init(engine->core_memory, &config->limits, &config->credentials.self,
                          config->members_min, config->samples, config->batch);
    spotnik_carriage_core_set(engine->carriage, engine->core, engine->recorder);
    spotnik_recorder_begin(engine->recorder, engine->core, &config->credentials.self);
    spotnik_tracer_name(engine->trace, config->credentials.self.id, spotnik_clock_ns());
}

void spotnik_engine_turn(struct spotnik_engine *engine, int part, uint64_t step, uint64_t now_ns)
{
    spotnik_tracer_turn(engine->trace, (enum spotnik_tracer_part)part, step, now_ns);
}

static int trace_get(struct spotnik_engine *engine)
{
    const struct spotnik_engine_config *config = &engine->config;
    const char *dir = config->trace;
    engine->config.trace = NULL;
    return dir == NULL ? 0
                       : spotnik_tracer_new(dir, &config->credentials.self, config->trace_epoch_us,
                                            &engine->trace);
}

static int recorder_get(struct spotnik_engine *engine)
{
    const char *dumps = engine->config.dumps;
    struct spotnik_recorder_config config = { .limits = &engine->config.limits,
                                              .dir = dumps,
                                              .stall_ns = engine->config.stall_ns };
    engine->config.dumps = NULL;
    return dumps != NULL && strcmp(dumps, "off") == 0
               ? 0
               : spotnik_recorder_new(&config, &engine->recorder);
}

static int memory_get(struct spotnik_engine *engine)
{
    const struct spotnik_limits *limits = &engine->config.limits;
    engine->core_memory = aligned_new(spotnik_core_size(limits));
    if (engine->core_memory == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a job of up to %u members",
                                    limits->members_max);
    spotnik_engine_core_reset(engine); /* after sockets_open(): the core tells others our port */
    return 0;
}

/* Equal for members of one host: of one boot of one kernel. */
static uint64_t host_number(void)
{
    char text[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file != NULL) {
        size_t size = fread(text, 1, sizeof text, file);
        fclose(file);
        return spotnik_hash_bytes(text, size) | 1;
    }
    return 1;
}

static void self_complete(struct spotnik_member *self)
{
    while (spotnik_id_is_none(self->id))
        spotnik_auth_random(&self->id, sizeof self->id);
    if (self->host == 0)
        self->host = host_number();
}

static int sockets_open(struct spotnik_engine *engine)
{
    struct spotnik_member *self = &engine->config.credentials.self;
    if (spotnik_address_is_any(self->address))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "bind to one address by which the others reach this host, not to all");
    int rc = spotnik_loop_open(&engine->loop);
    if (rc == 0)
        rc = spotnik_door_listen(engine->links, self->address, &self->port);
    return rc != 0 ? rc : spotnik_attend_init(engine);
}

static void drive(void *context, struct spotnik_event *event)
{
    spotnik_engine_drive(context, event);
}

static void locks_init(struct spotnik_engine *engine)
{
    spotnik_loop_init(&engine->loop, drive, engine);
    spotnik_cond_init(&engine->changed);
    pthread_cond_init(&engine->tie_asked, NULL);
}

/* When this returns, our slot is signed: nobody can learn of us before our death can be
 * certified. */
static int thread_start(struct spotnik_engine *engine)
{
    int rc = spotnik_thread_create(&engine->thread, spotnik_progress_main, engine);
    if (rc != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start the progress thread: %s",
                                    strerror(rc));
    spotnik_engine_lock(engine);
    while (!engine->thread_started)
        pthread_cond_wait(&engine->changed, &engine->loop.lock);
    spotnik_engine_unlock(engine);
    return 0;
}

/* The progress thread is gone, or never was. */
static void engine_release(struct spotnik_engine *engine)
{
    spotnik_carriage_free(engine->carriage);
    spotnik_links_free(engine->links);
    spotnik_loop_graves_free(&engine->loop);
    spotnik_death_free(engine->death);
    spotnik_attend_free(engine);
    spotnik_loop_close(&engine->loop);
    spotnik_recorder_free(engine->recorder);
    spotnik_tracer_free(engine->trace);
    free(engine->core_memory);
    pthread_cond_destroy(&engine->changed);
    pthread_cond_destroy(&engine->tie_asked);
    explicit_bzero(&engine->config, sizeof engine->config);
    free(engine);
}

static void act(void *context)
{
    spotnik_engine_act(context);
}

static int carriage_get(struct spotnik_engine *engine)
{
    struct spotnik_engine_config *own = &engine->config;
    const struct spotnik_carriage_hooks hooks = { .context = engine, .act = act };
    const char *lanes = own->lanes;
    own->lanes = NULL;
    return spotnik_carriage_new(&engine->loop, &own->credentials, &own->limits, &engine->stand,
                                &hooks, lanes, &engine->carriage);
}

int spotnik_engine_new(const struct spotnik_engine_config *config,
                       struct spotnik_engine **ret_engine)
{
    struct spotnik_engine *engine = calloc(1, sizeof *engine);
    if (engine == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the engine");
    engine->config = *config;
    engine->attend.timer.fd = engine->attend.wake.fd = -1;
    self_complete(&engine->config.credentials.self);
    locks_init(engine);
    int rc = carriage_get(engine);
    if (rc == 0)
        rc = spotnik_arrivals_new(engine);
    if (rc == 0)
        rc = sockets_open(engine);
    if (rc == 0)
        rc = recorder_get(engine);
    if (rc == 0)
        rc = trace_get(engine);
    if (rc == 0)
        rc = memory_get(engine);
    if (rc == 0)
        rc = spotnik_death_new(engine->loop.wake.fd, &engine->death);
    if (rc == 0)
        rc = spotnik_carriage_open(engine->carriage, engine->links, engine->config.transport);
    engine->config.transport = NULL;
    if (rc == 0)
        rc = thread_start(engine);
    if (rc != 0) {
        engine_release(engine);
        return rc;
    }
    *ret_engine = engine;
    return 0;
}

const struct spotnik_credentials *spotnik_engine_credentials(const struct spotnik_engine *engine)
{
    return &engine->config.credentials;
}

int spotnik_engine_found(struct spotnik_engine *engine, const struct spotnik_ledger *ledger,
                         const struct spotnik_founding *founding)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FOUND, .found = { ledger, founding } };
    spotnik_engine_lock(engine);
    spotnik_engine_drive(engine, &event);
    spotnik_engine_unlock(engine);
    return 0;
}

void spotnik_engine_resume(struct spotnik_engine *engine, uint64_t committed,
                           const struct spotnik_ledger *ledger)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_RESUME, .resume = { committed, ledger } };
    spotnik_engine_lock(engine);
    engine->stand.committed = engine->origin = committed;
    spotnik_death_origin_set(engine->death, committed);
    spotnik_engine_drive(engine, &event);
    spotnik_engine_unlock(engine);
}

bool spotnik_engine_ledger(struct spotnik_engine *engine, uint64_t committed,
                           struct spotnik_ledger *ret)
{
    spotnik_engine_lock(engine);
    bool known = spotnik_core_ledger_known(engine->core, committed);
    if (known)
        spotnik_ledger_copy(ret, spotnik_core_ledger(engine->core));
    spotnik_engine_unlock(engine);
    return known;
}

/* Everything that belonged to the member we were. Its links say GOODBYE and end by themselves. */
static void past_forget(struct spotnik_engine *engine)
{
    spotnik_openings_cancel(engine->links);
    spotnik_carriage_forget(engine->carriage);
    engine->stand.begun = engine->handed_out = engine->stand.sealed = false;
    engine->excluded = engine->left = engine->stand.frozen = engine->entering = false;
    engine->failed = 0;
    engine->parked_ns = 0;
}

void spotnik_engine_forget(struct spotnik_engine *engine)
{
    struct spotnik_core_status status;
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    if (status.role != SPOTNIK_ROLE_IDLE) {
        spotnik_links_retire(engine->links, SPOTNIK_GOODBYE_OVER);
        past_forget(engine);
        spotnik_carriage_renamed(engine->carriage);
        spotnik_engine_core_reset(engine);
        spotnik_engine_kick(engine);
    }
    spotnik_engine_unlock(engine);
}

int spotnik_engine_join(struct spotnik_engine *engine, struct spotnik_id id, uint64_t committed)
{
    struct spotnik_core_status status;
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    if (status.role != SPOTNIK_ROLE_IDLE) {
        spotnik_links_retire(engine->links, SPOTNIK_GOODBYE_OVER);
        past_forget(engine);
    } else
        /* the new core knows none of them */
        spotnik_links_retire(engine->links, SPOTNIK_GOODBYE_SHUTDOWN);
    engine->config.credentials.self.id = id;
    spotnik_death_renew(engine->death, id);
    spotnik_carriage_renamed(engine->carriage);
    spotnik_engine_core_reset(engine);
    engine->stand.committed = committed;
    engine->origin = spotnik_death_origin(engine->death);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_JOIN, .join.committed = committed };
    spotnik_engine_drive(engine, &event);
    spotnik_engine_kick(engine);
    spotnik_engine_unlock(engine);
    return 0;
}

void spotnik_engine_rename(struct spotnik_engine *engine, struct spotnik_id id)
{
    spotnik_engine_lock(engine);
    engine->config.credentials.self.id = id;
    spotnik_death_renew(engine->death, id);
    spotnik_carriage_renamed(engine->carriage);
    spotnik_engine_core_reset(engine);
    spotnik_engine_unlock(engine);
}

/* A joiner that has a notice and has not asked yet is about to go. If it asked now, the others
 * would let in, and lose, a member that never took a step. */
void spotnik_engine_enter(struct spotnik_engine *engine, const struct spotnik_member *sponsor)
{
    spotnik_engine_lock(engine);
    if (engine->entering || !spotnik_engine_is_noticed(engine)) {
        engine->entering = true;
        spotnik_loop_tell(&engine->loop, SPOTNIK_EVENT_ENTER_READY, sponsor);
        spotnik_engine_kick(engine);
    }
    spotnik_engine_unlock(engine);
}

void spotnik_engine_notice(struct spotnik_engine *engine)
{
    __atomic_store_n(&engine->noticed, 1, __ATOMIC_SEQ_CST);
    spotnik_wake(engine->loop.wake.fd);
}

bool spotnik_engine_is_noticed(const struct spotnik_engine *engine)
{
    return __atomic_load_n(&engine->noticed, __ATOMIC_SEQ_CST) != 0
           || spotnik_death_leave_requested(engine->death);
}

void spotnik_engine_tell_agent(struct spotnik_engine *engine, uint64_t step, uint64_t what,
                               double value, double limit)
{
    spotnik_death_tell(engine->death, step, what, value, limit);
}

void spotnik_engine_tell_over(struct spotnik_engine *engine, bool late)
{
    spotnik_death_over(engine->death, late);
}

void spotnik_engine_tell_last(struct spotnik_engine *engine)
{
    spotnik_death_left(engine->death, true);
}

void spotnik_engine_tell_minority(struct spotnik_engine *engine, uint64_t step, uint64_t digest)
{
    spotnik_death_minority(engine->death, step, digest);
}

void spotnik_engine_tell_checkpoint(struct spotnik_engine *engine, bool failed, uint64_t completed)
{
    spotnik_death_checkpoint(engine->death, failed, completed);
}

bool spotnik_engine_is_heard(const struct spotnik_engine *engine)
{
    return spotnik_death_is_heard(engine->death);
}

void spotnik_engine_say(struct spotnik_engine *engine, uint32_t kind, uint64_t epoch,
                        const char *text)
{
    spotnik_death_say(engine->death, kind, epoch, text);
}

void spotnik_engine_tell_waiting(struct spotnik_engine *engine, uint64_t ns, uint64_t of_ns)
{
    spotnik_death_tell_waiting(engine->death, ns / SPOTNIK_MS, of_ns / SPOTNIK_MS);
}

void spotnik_engine_vote_set(struct spotnik_engine *engine, const struct spotnik_member *vote)
{
    spotnik_engine_lock(engine);
    engine->vote = *vote;
    spotnik_engine_unlock(engine);
}

void spotnik_engine_greet(struct spotnik_engine *engine, const struct spotnik_member *peer)
{
    spotnik_engine_lock(engine);
    if (!engine->stopping)
        spotnik_opening_dial(engine->links, peer, SPOTNIK_PURPOSE_CONTROL);
    spotnik_engine_unlock(engine);
}

uint64_t spotnik_engine_refusals(struct spotnik_engine *engine, char *text, size_t size)
{
    spotnik_engine_lock(engine);
    uint64_t count = spotnik_openings_refusals(engine->links, text, size);
    spotnik_engine_unlock(engine);
    return count;
}

struct spotnik_id spotnik_engine_id(struct spotnik_engine *engine)
{
    spotnik_engine_lock(engine);
    struct spotnik_id id = engine->config.credentials.self.id;
    spotnik_engine_unlock(engine);
    return id;
}

uint32_t spotnik_engine_members(struct spotnik_engine *engine, struct spotnik_member *ret,
                                uint32_t max, uint64_t *ret_epoch)
{
    spotnik_engine_lock(engine);
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    uint32_t count = view->size < max ? view->size : max;
    for (uint32_t i = 0; i < count; i++)
        ret[i] = view->entry[i].member;
    *ret_epoch = view->epoch;
    spotnik_engine_unlock(engine);
    return count;
}

void spotnik_engine_status(struct spotnik_engine *engine, spotnik_job_status *ret)
{
    struct spotnik_core_status status;
    memset(ret, 0, sizeof *ret);
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    struct spotnik_id id = engine->config.credentials.self.id;
    snprintf(ret->member, sizeof ret->member, "%016llx%016llx", (unsigned long long)id.high,
             (unsigned long long)id.low);
    ret->view_epoch = status.epoch;
    ret->rank = status.rank;
    ret->size = status.size;
    ret->step_committed = status.committed;
    ret->step_stable = status.stable;
    ret->parked = status.parked;
    ret->joining = status.role == SPOTNIK_ROLE_JOINER;
    struct spotnik_carriage_counts counts = spotnik_carriage_counts_get(engine->carriage);
    ret->bytes_sent = counts.bytes_sent;
    ret->bytes_received = counts.bytes_received;
    ret->control_messages = status.messages_sent;
    ret->losses = status.losses;
    ret->joins = status.joins;
    ret->leaves = status.leaves;
    ret->linked = spotnik_core_linked(engine->core);
    ret->recovery_count = engine->recovery_count;
    memcpy(ret->recovery, engine->recovery, engine->recovery_count * sizeof *ret->recovery);
    spotnik_engine_unlock(engine);
}

void spotnik_engine_troubles(struct spotnik_engine *engine, struct spotnik_troubles *ret)
{
    spotnik_engine_lock(engine);
    struct spotnik_carriage_counts counts = spotnik_carriage_counts_get(engine->carriage);
    struct spotnik_core_status status;
    spotnik_core_status(engine->core, &status);
    *ret = engine->troubles;
    ret->paths_broken = status.paths_broken;
    ret->bytes_shared = counts.bytes_shared;
    ret->steps_stalled = spotnik_recorder_stalls(engine->recorder);
    spotnik_engine_unlock(engine);
}

uint32_t spotnik_engine_lanes(struct spotnik_engine *engine, struct spotnik_lane_status *ret,
                              uint32_t max)
{
    spotnik_engine_lock(engine);
    uint32_t count = spotnik_carriage_lanes(engine->carriage, ret, max);
    spotnik_engine_unlock(engine);
    return count;
}

uint64_t spotnik_engine_path(struct spotnik_engine *engine, char *text, size_t size)
{
    char from[SPOTNIK_ADDRESS_TEXT], to[SPOTNIK_ADDRESS_TEXT];
    struct spotnik_core_status status;

    *text = 0;
    spotnik_engine_lock(engine);
    spotnik_core_status(engine->core, &status);
    spotnik_engine_unlock(engine);
    const struct spotnik_path *path = &status.path;
    if (path->seen_ns == 0)
        return 0;
    snprintf(
        text, size,
        "nothing gets through from %s to %s, though both live; one of the two stays out of the "
        "view until it does",
        spotnik_address_format(from, path->from.address, path->from.port),
        spotnik_address_format(to, path->to.address, path->to.port));
    return spotnik_time_since(spotnik_clock_ns(), path->seen_ns);
}

void spotnik_engine_free(struct spotnik_engine *engine, bool goodbye)
{
    if (engine == NULL)
        return;
    spotnik_engine_lock(engine);
    engine->stopping = true;
    engine->abrupt = !goodbye;
    spotnik_engine_changed(engine);
    spotnik_engine_kick(engine);
    spotnik_engine_unlock(engine);
    pthread_join(engine->thread, NULL);
    engine_release(engine);
}
