/* SPDX-License-Identifier: Apache-2.0 */
/* The life of a request: started by the caller, carried out by a thread that asks one member after
 * the other, waited for, freed. Its memory is the caller's again when it has ended. */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/dtype.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/time.h"
#include "base/wake.h"
#include "p2p/param_store.h"
#include "p2p/inside.h"
#include "transfer/thread.h"

/* ---- the thread ---- */

static bool is_cancelled(struct spotnik_request *request)
{
    pthread_mutex_lock(&request->p2p->lock);
    bool cancelled = request->cancelled || request->p2p->stopping;
    pthread_mutex_unlock(&request->p2p->lock);
    return cancelled;
}

bool spotnik_request_is_over(struct spotnik_request *request)
{
    return is_cancelled(request) || spotnik_clock_ns() >= request->until_ns;
}

bool spotnik_request_goes_on(void *context)
{
    struct spotnik_request *request = context;

    return !spotnik_request_is_over(request)
           && spotnik_peer_is_in_view(request->p2p, request->peer.id);
}

struct spotnik_pipe spotnik_request_pipe(struct spotnik_request *request,
                                         struct spotnik_duplex *duplex)
{
    return (struct spotnik_pipe){
        .duplex = duplex,
        .wake_fd = request->wake_fd,
        .silence_ns = request->p2p->silence_ns,
        .until_ns = request->until_ns,
        .goes_on = spotnik_request_goes_on,
        .context = request,
    };
}

static enum spotnik_asked converse(struct spotnik_request *request, struct spotnik_duplex *duplex)
{
    struct spotnik_pipe pipe = spotnik_request_pipe(request, duplex);
    enum spotnik_asked asked = spotnik_pull_ask(request, &pipe);

    if (asked == SPOTNIK_ASKED_ARRIVED || asked == SPOTNIK_ASKED_ABSENT
        || asked == SPOTNIK_ASKED_OTHER)
        spotnik_peer_keep(request->p2p, request->peer.id, duplex);
    else
        spotnik_duplex_close(duplex);
    return asked == SPOTNIK_ASKED_LOST && spotnik_request_is_over(request) ? SPOTNIK_ASKED_OVER
                                                                           : asked;
}

/* A kept connection may have ended since: then on a new one. A view that changes cuts a dial short;
 * dial again. */
static enum spotnik_asked ask(struct spotnik_request *request)
{
    enum spotnik_asked asked = spotnik_import_pull(request);

    if (asked != SPOTNIK_ASKED_NOT)
        return asked;
    struct spotnik_duplex duplex;
    asked = SPOTNIK_ASKED_LOST;
    if (spotnik_peer_kept(request->p2p, request->peer.id, &duplex))
        asked = converse(request, &duplex);
    uint64_t changed = 1;
    while (asked == SPOTNIK_ASKED_LOST && changed != 0 && spotnik_request_goes_on(request)) {
        if (spotnik_peer_dial(request->p2p, &request->peer, request->wake_fd, &duplex) == 0) {
            asked = converse(request, &duplex);
            break;
        }
        changed = spotnik_wake_take(request->wake_fd);
    }
    return asked == SPOTNIK_ASKED_LOST && spotnik_request_is_over(request) ? SPOTNIK_ASKED_OVER
                                                                           : asked;
}

static void run_turns(struct spotnik_request *request)
{
    enum spotnik_asked asked = SPOTNIK_ASKED_ABSENT;

    while ((asked == SPOTNIK_ASKED_ABSENT || asked == SPOTNIK_ASKED_LOST)
           && spotnik_peer_choose(request))
        asked = ask(request);
    if (asked == SPOTNIK_ASKED_ARRIVED)
        request->arrival.source = request->peer.id.high;
    else
        request->arrival.version = 0;
    if (asked != SPOTNIK_ASKED_OTHER)
        return;
    request->error = SPOTNIK_ERR_MISMATCH;
}

/* A request to the store goes to no member in particular. */
static void run_store(struct spotnik_request *request)
{
    bool complete = request->kind == SPOTNIK_REQUEST_PUSH ? spotnik_param_store_push(request)
                                                          : spotnik_param_store_fetch(request);

    request->arrival.version = complete ? request->sequence : 0;
}

static void run_asking(struct spotnik_request *request)
{
    request->asked = calloc(SPOTNIK_P2P_MEMBERS_MAX, sizeof *request->asked);
    if (!request->asked)
        request->error = SPOTNIK_ERR_MEMORY;
    else
        run_turns(request);
    free(request->asked);
}

static void *run(void *argument)
{
    struct spotnik_request *request = argument;
    struct spotnik_p2p *p2p = request->p2p;

    if (request->param_store)
        run_store(request);
    else
        run_asking(request);
    pthread_mutex_lock(&p2p->lock);
    request->ended = true;
    pthread_cond_broadcast(&p2p->changed);
    pthread_mutex_unlock(&p2p->lock);
    return NULL;
}

/* ---- the caller ---- */

static void take_out(struct spotnik_request *request)
{
    struct spotnik_request **at = &request->p2p->requests;

    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->p2p->request_count--;
}

/* Under the lock. */
static int admit(struct spotnik_p2p *p2p, struct spotnik_request *request)
{
    if (p2p->stopping || !p2p->runtime)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "the job has ended");
    if (p2p->request_count >= SPOTNIK_P2P_REQUESTS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "at most %d requests at a time: free those that have ended",
                                    SPOTNIK_P2P_REQUESTS_MAX);
    int rc = spotnik_thread_start(run, request, &request->thread);
    if (rc)
        return rc;
    request->started = true;
    request->next = p2p->requests;
    p2p->requests = request;
    p2p->request_count++;
    return 0;
}

static int start(struct spotnik_p2p *p2p, const struct spotnik_request *wanted, uint64_t timeout_ns,
                 struct spotnik_request **ret)
{
    struct spotnik_request *request = malloc(sizeof *request);

    if (!request)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a request");
    *request = *wanted;
    request->generation = spotnik_fork_generation();
    request->p2p = p2p;
    request->until_ns =
        timeout_ns ? spotnik_time_add(spotnik_clock_ns(), timeout_ns) : SPOTNIK_NEVER;
    request->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = request->wake_fd < 0
                 ? spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make an eventfd: %m")
                 : 0;
    if (!rc) {
        request->self = spotnik_discovery_self(p2p);
        pthread_mutex_lock(&p2p->lock);
        rc = admit(p2p, request);
        pthread_mutex_unlock(&p2p->lock);
    }
    if (!rc) {
        *ret = request;
        return 0;
    }
    close(request->wake_fd);
    free(request);
    return rc;
}

static void name_set(struct spotnik_request *request, const char *name)
{
    memcpy(request->name, name, strlen(name) + 1);
}

int spotnik_p2p_pull(struct spotnik_p2p *p2p, const char *name, uint32_t rank, uint64_t version_min,
                     void *data, uint64_t count, enum spotnik_dtype dtype, uint64_t timeout_ns,
                     struct spotnik_request **ret_request)
{
    struct spotnik_request wanted = { .kind = SPOTNIK_REQUEST_PULL,
                                      .rank = rank,
                                      .version_min = version_min,
                                      .data = data,
                                      .bytes = count * spotnik_dtype_bytes(dtype),
                                      .dtype = dtype };

    name_set(&wanted, name);
    return start(p2p, &wanted, timeout_ns, ret_request);
}

/* A request to the store, whose layout must fit. Sets wanted->param_store. */
static int param_store_get(struct spotnik_p2p *p2p, const char *name, uint64_t count,
                           struct spotnik_request *wanted)
{
    pthread_mutex_lock(&p2p->lock);
    wanted->param_store = spotnik_param_store_find(p2p, name);
    pthread_mutex_unlock(&p2p->lock);
    if (wanted->param_store) {
        pthread_mutex_lock(&wanted->param_store->lock);
        bool opened = wanted->param_store->opened;
        pthread_mutex_unlock(&wanted->param_store->lock);
        wanted->param_store = opened ? wanted->param_store : NULL;
    }
    if (!wanted->param_store)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "the store %s is not open; call spotnik_store_open() first",
                                    name);
    if (wanted->param_store->count != count)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the store %s has %llu elements", name,
                                    (unsigned long long)wanted->param_store->count);
    name_set(wanted, name);
    return 0;
}

/* Numbers follow each other, so one push waits for the one before. */
static int push_admit(struct spotnik_param_store *param_store, struct spotnik_request *wanted)
{
    pthread_mutex_lock(&param_store->lock);
    bool busy = param_store->pushing;
    if (!busy) {
        param_store->pushing = true;
        wanted->sequence = ++param_store->sequence;
    }
    pthread_mutex_unlock(&param_store->lock);
    return busy ? spotnik_error_return(SPOTNIK_ERR_STATE,
                                       "one push at a time: wait for the last one to %s",
                                       param_store->name)
                : 0;
}

int spotnik_p2p_push(struct spotnik_p2p *p2p, const char *name, const float *update, uint64_t count,
                     uint64_t timeout_ns, struct spotnik_request **ret_request)
{
    struct spotnik_request wanted = { .kind = SPOTNIK_REQUEST_PUSH,
                                      .data = (uint8_t *)(uintptr_t)update,
                                      .bytes = count * sizeof *update,
                                      .dtype = SPOTNIK_F32 };
    int rc = param_store_get(p2p, name, count, &wanted);

    if (!rc)
        rc = push_admit(wanted.param_store, &wanted);
    if (rc)
        return rc;
    rc = start(p2p, &wanted, timeout_ns, ret_request);
    if (rc) {
        pthread_mutex_lock(&wanted.param_store->lock);
        wanted.param_store->pushing = false;
        pthread_mutex_unlock(&wanted.param_store->lock);
    }
    return rc;
}

int spotnik_p2p_fetch(struct spotnik_p2p *p2p, const char *name, float *data, uint64_t count,
                      uint64_t timeout_ns, struct spotnik_request **ret_request)
{
    struct spotnik_request wanted = { .kind = SPOTNIK_REQUEST_FETCH,
                                      .data = (uint8_t *)(void *)data,
                                      .sequence = 1,
                                      .bytes = count * sizeof *data,
                                      .dtype = SPOTNIK_F32 };
    int rc = param_store_get(p2p, name, count, &wanted);

    return rc ? rc : start(p2p, &wanted, timeout_ns, ret_request);
}

static void arrival_give(const struct spotnik_request *request, spotnik_arrival *ret)
{
    uint32_t size =
        ret->size < sizeof request->arrival ? ret->size : (uint32_t)sizeof request->arrival;

    if (size <= sizeof ret->size)
        return;
    memcpy((uint8_t *)ret + sizeof ret->size, (const uint8_t *)&request->arrival + sizeof ret->size,
           size - sizeof ret->size);
}

int spotnik_request_wait(spotnik_request *request, uint64_t timeout_ns, spotnik_arrival *ret)
{
    if (!request)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "no request was given");
    if (request->generation != spotnik_fork_generation())
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "this process was forked from the member that made the request "
                                    "for %s; wait for it there",
                                    request->name);
    struct spotnik_p2p *p2p = request->p2p;
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    bool late = timeout_ns == 0;

    pthread_mutex_lock(&p2p->lock);
    while (!request->ended && !late)
        late = !spotnik_cond_wait(&p2p->changed, &p2p->lock, until_ns);
    bool ended = request->ended;
    pthread_mutex_unlock(&p2p->lock);
    if (!ended)
        return spotnik_error_return(SPOTNIK_ERR_AGAIN, "the request for %s has not ended yet",
                                    request->name);
    if (request->error == SPOTNIK_ERR_MISMATCH)
        return spotnik_error_return(request->error,
                                    "%s is of another size or type on the member of rank %u",
                                    request->name, request->arrival.rank);
    if (request->error)
        return spotnik_error_return(request->error, "no memory for the request for %s",
                                    request->name);
    if (ret)
        arrival_give(request, ret);
    return 0;
}

void spotnik_request_free(spotnik_request *request)
{
    if (!request || request->generation != spotnik_fork_generation())
        return; /* the thread that serves it, and its lock, are the parent's */
    struct spotnik_p2p *p2p = request->p2p;

    pthread_mutex_lock(&p2p->lock);
    request->cancelled = true;
    spotnik_wake(request->wake_fd);
    bool started = request->started;
    request->started = false;
    pthread_mutex_unlock(&p2p->lock);
    if (started)
        pthread_join(request->thread, NULL);
    pthread_mutex_lock(&p2p->lock);
    take_out(request);
    pthread_mutex_unlock(&p2p->lock);
    close(request->wake_fd);
    free(request);
}
