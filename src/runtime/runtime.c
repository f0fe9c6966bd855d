/* SPDX-License-Identifier: Apache-2.0 */
/* Life cycle of the runtime: what is opened, started and freed, in which order; and what any thread
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
#include "runtime/inside.h"
#include "link/address.h"
#include "link/auth.h"

#define CORE_ALIGNMENT 64u
/* what we find ourselves comes before the view that goes round it, by less than this */

static void *aligned_new(size_t bytes)
{
    return aligned_alloc(CORE_ALIGNMENT,
                         (bytes + CORE_ALIGNMENT - 1) & ~(size_t)(CORE_ALIGNMENT - 1));
}

void spotnik_runtime_core_reset(struct spotnik_runtime *runtime)
{
    const struct spotnik_runtime_config *config = &runtime->config;
    runtime->core =
        spotnik_core_init(runtime->core_memory, &config->limits, &config->credentials.self,
                          config->members_min, config->samples, config->batch);
    spotnik_transport_core_set(runtime->transport, runtime->core, runtime->recorder);
    spotnik_recorder_begin(runtime->recorder, runtime->core, &config->credentials.self);
    spotnik_tracer_name(runtime->trace, config->credentials.self.id, spotnik_clock_ns());
}

void spotnik_runtime_turn(struct spotnik_runtime *runtime, int part, uint64_t step, uint64_t now_ns)
{
    spotnik_tracer_turn(runtime->trace, (enum spotnik_tracer_part)part, step, now_ns);
}

static int trace_get(struct spotnik_runtime *runtime)
{
    const struct spotnik_runtime_config *config = &runtime->config;
    const char *dir = config->trace;
    runtime->config.trace = NULL;
    return dir == NULL ? 0
                       : spotnik_tracer_new(dir, &config->credentials.self, config->trace_epoch_us,
                                            &runtime->trace);
}

static int recorder_get(struct spotnik_runtime *runtime)
{
    const char *dumps = runtime->config.dumps;
    struct spotnik_recorder_config config = { .limits = &runtime->config.limits,
                                              .dir = dumps,
                                              .stall_ns = runtime->config.stall_ns };
    runtime->config.dumps = NULL;
    return dumps != NULL && strcmp(dumps, "off") == 0
               ? 0
               : spotnik_recorder_new(&config, &runtime->recorder);
}

static int memory_get(struct spotnik_runtime *runtime)
{
    const struct spotnik_limits *limits = &runtime->config.limits;
    runtime->core_memory = aligned_new(spotnik_core_size(limits));
    if (runtime->core_memory == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a job of up to %u members",
                                    limits->members_max);
    spotnik_runtime_core_reset(runtime); /* after sockets_open(): the core tells others our port */
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

static int sockets_open(struct spotnik_runtime *runtime)
{
    struct spotnik_member *self = &runtime->config.credentials.self;
    if (spotnik_address_is_any(self->address))
        return spotnik_error_return(
            SPOTNIK_ERR_ARGUMENT,
            "bind to one address by which the others reach this host, not to all");
    int rc = spotnik_loop_open(&runtime->loop);
    if (rc == 0)
        rc = spotnik_acceptor_listen(runtime->links, self->address, &self->port);
    return rc != 0 ? rc : spotnik_data_poller_init(runtime);
}

static void drive(void *context, struct spotnik_event *event)
{
    spotnik_runtime_dispatch(context, event);
}

static void locks_init(struct spotnik_runtime *runtime)
{
    spotnik_loop_init(&runtime->loop, drive, runtime);
    spotnik_cond_init(&runtime->changed);
    pthread_cond_init(&runtime->tie_asked, NULL);
}

/* When this returns, our slot is signed: no peer can learn of us before our death can be certified.
 */
static int thread_start(struct spotnik_runtime *runtime)
{
    int rc = spotnik_thread_create(&runtime->thread, spotnik_progress_main, runtime);
    if (rc != 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start the progress thread: %s",
                                    strerror(rc));
    spotnik_runtime_lock(runtime);
    while (!runtime->thread_started)
        pthread_cond_wait(&runtime->changed, &runtime->loop.lock);
    spotnik_runtime_unlock(runtime);
    return 0;
}

/* The progress thread is gone, or never was. */
static void runtime_release(struct spotnik_runtime *runtime)
{
    spotnik_transport_free(runtime->transport);
    spotnik_links_free(runtime->links);
    spotnik_loop_deferred_free(&runtime->loop);
    spotnik_death_free(runtime->death);
    spotnik_data_poller_free(runtime);
    spotnik_loop_close(&runtime->loop);
    spotnik_recorder_free(runtime->recorder);
    spotnik_tracer_free(runtime->trace);
    free(runtime->core_memory);
    pthread_cond_destroy(&runtime->changed);
    pthread_cond_destroy(&runtime->tie_asked);
    explicit_bzero(&runtime->config, sizeof runtime->config);
    free(runtime);
}

static void act(void *context)
{
    spotnik_runtime_act(context);
}

static int transport_get(struct spotnik_runtime *runtime)
{
    struct spotnik_runtime_config *own = &runtime->config;
    const struct spotnik_transport_hooks hooks = { .context = runtime, .act = act };
    const char *channels = own->channels;
    own->channels = NULL;
    return spotnik_transport_new(&runtime->loop, &own->credentials, &own->limits, &runtime->stand,
                                 &hooks, channels, &runtime->transport);
}

int spotnik_runtime_new(const struct spotnik_runtime_config *config,
                        struct spotnik_runtime **ret_runtime)
{
    struct spotnik_runtime *runtime = calloc(1, sizeof *runtime);
    if (runtime == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for the runtime");
    runtime->config = *config;
    runtime->data_poller.timer.fd = runtime->data_poller.wake.fd = -1;
    self_complete(&runtime->config.credentials.self);
    locks_init(runtime);
    int rc = transport_get(runtime);
    if (rc == 0)
        rc = spotnik_arrivals_new(runtime);
    if (rc == 0)
        rc = sockets_open(runtime);
    if (rc == 0)
        rc = recorder_get(runtime);
    if (rc == 0)
        rc = trace_get(runtime);
    if (rc == 0)
        rc = memory_get(runtime);
    if (rc == 0)
        rc = spotnik_death_new(runtime->loop.wake.fd, &runtime->death);
    if (rc == 0)
        rc = spotnik_transport_open(runtime->transport, runtime->links, runtime->config.transport);
    runtime->config.transport = NULL;
    if (rc == 0)
        rc = thread_start(runtime);
    if (rc != 0) {
        runtime_release(runtime);
        return rc;
    }
    *ret_runtime = runtime;
    return 0;
}

const struct spotnik_credentials *spotnik_runtime_credentials(const struct spotnik_runtime *runtime)
{
    return &runtime->config.credentials;
}

int spotnik_runtime_found(struct spotnik_runtime *runtime, const struct spotnik_ledger *ledger,
                          const struct spotnik_founding *founding)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_FOUND, .found = { ledger, founding } };
    spotnik_runtime_lock(runtime);
    spotnik_runtime_dispatch(runtime, &event);
    spotnik_runtime_unlock(runtime);
    return 0;
}

void spotnik_runtime_resume(struct spotnik_runtime *runtime, uint64_t committed,
                            const struct spotnik_ledger *ledger)
{
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_RESUME, .resume = { committed, ledger } };
    spotnik_runtime_lock(runtime);
    runtime->stand.committed = runtime->origin = committed;
    spotnik_death_origin_set(runtime->death, committed);
    spotnik_runtime_dispatch(runtime, &event);
    spotnik_runtime_unlock(runtime);
}

bool spotnik_runtime_ledger(struct spotnik_runtime *runtime, uint64_t committed,
                            struct spotnik_ledger *ret)
{
    spotnik_runtime_lock(runtime);
    bool known = spotnik_core_ledger_known(runtime->core, committed);
    if (known)
        spotnik_ledger_copy(ret, spotnik_core_ledger(runtime->core));
    spotnik_runtime_unlock(runtime);
    return known;
}

/* Everything that belonged to the member we were. Its links say GOODBYE and end by themselves. */
static void past_forget(struct spotnik_runtime *runtime)
{
    spotnik_pending_list_cancel(runtime->links);
    spotnik_transport_forget(runtime->transport);
    runtime->stand.begun = runtime->handed_out = runtime->stand.sealed = false;
    runtime->excluded = runtime->left = runtime->stand.frozen = runtime->entering = false;
    runtime->failed = 0;
    runtime->parked_ns = 0;
}

void spotnik_runtime_forget(struct spotnik_runtime *runtime)
{
    struct spotnik_core_status status;
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    if (status.role != SPOTNIK_ROLE_IDLE) {
        spotnik_links_retire(runtime->links, SPOTNIK_GOODBYE_OVER);
        past_forget(runtime);
        spotnik_transport_renamed(runtime->transport);
        spotnik_runtime_core_reset(runtime);
        spotnik_runtime_kick(runtime);
    }
    spotnik_runtime_unlock(runtime);
}

int spotnik_runtime_join(struct spotnik_runtime *runtime, struct spotnik_id id, uint64_t committed)
{
    struct spotnik_core_status status;
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    if (status.role != SPOTNIK_ROLE_IDLE) {
        spotnik_links_retire(runtime->links, SPOTNIK_GOODBYE_OVER);
        past_forget(runtime);
    } else
        /* the new core knows none of them */
        spotnik_links_retire(runtime->links, SPOTNIK_GOODBYE_SHUTDOWN);
    runtime->config.credentials.self.id = id;
    spotnik_death_renew(runtime->death, id);
    spotnik_transport_renamed(runtime->transport);
    spotnik_runtime_core_reset(runtime);
    runtime->stand.committed = committed;
    runtime->origin = spotnik_death_origin(runtime->death);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_JOIN, .join.committed = committed };
    spotnik_runtime_dispatch(runtime, &event);
    spotnik_runtime_kick(runtime);
    spotnik_runtime_unlock(runtime);
    return 0;
}

void spotnik_runtime_rename(struct spotnik_runtime *runtime, struct spotnik_id id)
{
    spotnik_runtime_lock(runtime);
    runtime->config.credentials.self.id = id;
    spotnik_death_renew(runtime->death, id);
    spotnik_transport_renamed(runtime->transport);
    spotnik_runtime_core_reset(runtime);
    spotnik_runtime_unlock(runtime);
}

/* A joiner that has a notice and has not asked yet is about to go. If it asked now, the others
 * would let in, and lose, a member that never took a step. */
void spotnik_runtime_enter(struct spotnik_runtime *runtime, const struct spotnik_member *sponsor)
{
    spotnik_runtime_lock(runtime);
    if (runtime->entering || !spotnik_runtime_is_noticed(runtime)) {
        runtime->entering = true;
        spotnik_loop_tell(&runtime->loop, SPOTNIK_EVENT_ENTER_READY, sponsor);
        spotnik_runtime_kick(runtime);
    }
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_notice(struct spotnik_runtime *runtime)
{
    __atomic_store_n(&runtime->noticed, 1, __ATOMIC_SEQ_CST);
    spotnik_wake(runtime->loop.wake.fd);
}

bool spotnik_runtime_is_noticed(const struct spotnik_runtime *runtime)
{
    return __atomic_load_n(&runtime->noticed, __ATOMIC_SEQ_CST) != 0
           || spotnik_death_leave_requested(runtime->death);
}

void spotnik_runtime_tell_agent(struct spotnik_runtime *runtime, uint64_t step, uint64_t what,
                                double value, double limit)
{
    spotnik_death_tell(runtime->death, step, what, value, limit);
}

void spotnik_runtime_tell_over(struct spotnik_runtime *runtime, bool late)
{
    spotnik_death_over(runtime->death, late);
}

void spotnik_runtime_tell_last(struct spotnik_runtime *runtime)
{
    spotnik_death_left(runtime->death, true);
}

void spotnik_runtime_tell_minority(struct spotnik_runtime *runtime, uint64_t step, uint64_t digest)
{
    spotnik_death_minority(runtime->death, step, digest);
}

void spotnik_runtime_tell_checkpoint(struct spotnik_runtime *runtime, bool failed,
                                     uint64_t completed)
{
    spotnik_death_checkpoint(runtime->death, failed, completed);
}

bool spotnik_runtime_is_heard(const struct spotnik_runtime *runtime)
{
    return spotnik_death_is_heard(runtime->death);
}

void spotnik_runtime_say(struct spotnik_runtime *runtime, uint32_t kind, uint64_t epoch,
                         const char *text)
{
    spotnik_death_say(runtime->death, kind, epoch, text);
}

void spotnik_runtime_tell_waiting(struct spotnik_runtime *runtime, uint64_t ns, uint64_t of_ns)
{
    spotnik_death_tell_waiting(runtime->death, ns / SPOTNIK_MS, of_ns / SPOTNIK_MS);
}

void spotnik_runtime_vote_set(struct spotnik_runtime *runtime, const struct spotnik_member *vote)
{
    spotnik_runtime_lock(runtime);
    runtime->vote = *vote;
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_greet(struct spotnik_runtime *runtime, const struct spotnik_member *peer)
{
    spotnik_runtime_lock(runtime);
    if (!runtime->stopping)
        spotnik_pending_dial(runtime->links, peer, SPOTNIK_PURPOSE_CONTROL);
    spotnik_runtime_unlock(runtime);
}

uint64_t spotnik_runtime_refusals(struct spotnik_runtime *runtime, char *text, size_t size)
{
    spotnik_runtime_lock(runtime);
    uint64_t count = spotnik_pending_list_refusals(runtime->links, text, size);
    spotnik_runtime_unlock(runtime);
    return count;
}

struct spotnik_id spotnik_runtime_id(struct spotnik_runtime *runtime)
{
    spotnik_runtime_lock(runtime);
    struct spotnik_id id = runtime->config.credentials.self.id;
    spotnik_runtime_unlock(runtime);
    return id;
}

uint32_t spotnik_runtime_members(struct spotnik_runtime *runtime, struct spotnik_member *ret,
                                 uint32_t max, uint64_t *ret_epoch)
{
    spotnik_runtime_lock(runtime);
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    uint32_t count = view->size < max ? view->size : max;
    for (uint32_t i = 0; i < count; i++)
        ret[i] = view->entry[i].member;
    *ret_epoch = view->epoch;
    spotnik_runtime_unlock(runtime);
    return count;
}

void spotnik_runtime_status(struct spotnik_runtime *runtime, spotnik_job_status *ret)
{
    struct spotnik_core_status status;
    memset(ret, 0, sizeof *ret);
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    struct spotnik_id id = runtime->config.credentials.self.id;
    snprintf(ret->member, sizeof ret->member, "%016llx%016llx", (unsigned long long)id.high,
             (unsigned long long)id.low);
    ret->view_epoch = status.epoch;
    ret->rank = status.rank;
    ret->size = status.size;
    ret->step_committed = status.committed;
    ret->step_stable = status.stable;
    ret->parked = status.parked;
    ret->joining = status.role == SPOTNIK_ROLE_JOINER;
    struct spotnik_transport_counts counts = spotnik_transport_counts_get(runtime->transport);
    ret->bytes_sent = counts.bytes_sent;
    ret->bytes_received = counts.bytes_received;
    ret->control_messages = status.messages_sent;
    ret->losses = status.losses;
    ret->joins = status.joins;
    ret->leaves = status.leaves;
    ret->linked = spotnik_core_linked(runtime->core);
    ret->recovery_count = runtime->recovery_count;
    memcpy(ret->recovery, runtime->recovery, runtime->recovery_count * sizeof *ret->recovery);
    spotnik_runtime_unlock(runtime);
}

void spotnik_runtime_troubles(struct spotnik_runtime *runtime, struct spotnik_troubles *ret)
{
    spotnik_runtime_lock(runtime);
    struct spotnik_transport_counts counts = spotnik_transport_counts_get(runtime->transport);
    struct spotnik_core_status status;
    spotnik_core_status(runtime->core, &status);
    *ret = runtime->troubles;
    ret->paths_broken = status.paths_broken;
    ret->altered = spotnik_seal_failures();
    ret->bytes_shared = counts.bytes_shared;
    ret->steps_stalled = spotnik_recorder_stalls(runtime->recorder);
    spotnik_runtime_unlock(runtime);
}

uint32_t spotnik_runtime_channels(struct spotnik_runtime *runtime,
                                  struct spotnik_channel_status *ret, uint32_t max)
{
    spotnik_runtime_lock(runtime);
    uint32_t count = spotnik_transport_channels(runtime->transport, ret, max);
    spotnik_runtime_unlock(runtime);
    return count;
}

uint64_t spotnik_runtime_path(struct spotnik_runtime *runtime, char *text, size_t size)
{
    char from[SPOTNIK_ADDRESS_TEXT], to[SPOTNIK_ADDRESS_TEXT];
    struct spotnik_core_status status;

    *text = 0;
    spotnik_runtime_lock(runtime);
    spotnik_core_status(runtime->core, &status);
    spotnik_runtime_unlock(runtime);
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

void spotnik_runtime_free(struct spotnik_runtime *runtime, bool goodbye)
{
    if (runtime == NULL)
        return;
    spotnik_runtime_lock(runtime);
    runtime->stopping = true;
    runtime->abrupt = !goodbye;
    spotnik_runtime_changed(runtime);
    spotnik_runtime_kick(runtime);
    spotnik_runtime_unlock(runtime);
    pthread_join(runtime->thread, NULL);
    runtime_release(runtime);
}
