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
#include "exchange/depot.h"
#include "exchange/inside.h"
#include "transfer/thread.h"

/* ---- the thread ---- */

static bool is_cancelled(struct spotnik_request *request)
{
    pthread_mutex_lock(&request->exchange->lock);
    bool cancelled = request->cancelled || request->exchange->stopping;
    pthread_mutex_unlock(&request->exchange->lock);
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
           && spotnik_peer_is_in_view(request->exchange, request->peer.id);
}

struct spotnik_pipe spotnik_request_pipe(struct spotnik_request *request, int fd)
{
    return (struct spotnik_pipe){
        .fd = fd,
        .wake_fd = request->wake_fd,
        .silence_ns = request->exchange->silence_ns,
        .until_ns = request->until_ns,
        .goes_on = spotnik_request_goes_on,
        .context = request,
    };
}

static enum spotnik_asked converse(struct spotnik_request *request, int fd)
{
    struct spotnik_pipe pipe = spotnik_request_pipe(request, fd);
    enum spotnik_asked asked = spotnik_pull_ask(request, &pipe);

    if (asked == SPOTNIK_ASKED_ARRIVED || asked == SPOTNIK_ASKED_ABSENT
        || asked == SPOTNIK_ASKED_OTHER)
        spotnik_peer_keep(request->exchange, request->peer.id, fd);
    else
        close(fd);
    return asked == SPOTNIK_ASKED_LOST && spotnik_request_is_over(request) ? SPOTNIK_ASKED_OVER
                                                                           : asked;
}

/* A kept connection may have ended since: then on a new one. A view that changes cuts a dial short;
 * dial again. */
static enum spotnik_asked ask(struct spotnik_request *request)
{
    enum spotnik_asked asked = spotnik_borrow_pull(request);

    if (asked != SPOTNIK_ASKED_NOT)
        return asked;
    int fd = spotnik_peer_kept(request->exchange, request->peer.id);
    asked = SPOTNIK_ASKED_LOST;
    if (fd >= 0)
        asked = converse(request, fd);
    uint64_t changed = 1;
    while (asked == SPOTNIK_ASKED_LOST && changed != 0 && spotnik_request_goes_on(request)) {
        if (spotnik_peer_dial(request->exchange, &request->peer, request->wake_fd, &fd) == 0) {
            asked = converse(request, fd);
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

/* Of the store: nobody in particular is asked. */
static void run_store(struct spotnik_request *request)
{
    bool complete = request->kind == SPOTNIK_REQUEST_PUSH ? spotnik_depot_push(request)
                                                          : spotnik_depot_fetch(request);

    request->arrival.version = complete ? request->sequence : 0;
}

static void run_asking(struct spotnik_request *request)
{
    request->asked = calloc(SPOTNIK_EXCHANGE_MEMBERS_MAX, sizeof *request->asked);
    if (!request->asked)
        request->error = SPOTNIK_ERR_MEMORY;
    else
        run_turns(request);
    free(request->asked);
}

static void *run(void *argument)
{
    struct spotnik_request *request = argument;
    struct spotnik_exchange *exchange = request->exchange;

    if (request->depot)
        run_store(request);
    else
        run_asking(request);
    pthread_mutex_lock(&exchange->lock);
    request->ended = true;
    pthread_cond_broadcast(&exchange->changed);
    pthread_mutex_unlock(&exchange->lock);
    return NULL;
}

/* ---- the caller ---- */

static void take_out(struct spotnik_request *request)
{
    struct spotnik_request **at = &request->exchange->requests;

    while (*at != request)
        at = &(*at)->next;
    *at = request->next;
    request->exchange->request_count--;
}

/* Under the lock. */
static int admit(struct spotnik_exchange *exchange, struct spotnik_request *request)
{
    if (exchange->stopping || !exchange->engine)
        return spotnik_error_return(SPOTNIK_ERR_STATE, "the job has ended");
    if (exchange->request_count >= SPOTNIK_EXCHANGE_REQUESTS_MAX)
        return spotnik_error_return(SPOTNIK_ERR_LIMIT,
                                    "at most %d requests at a time: free those that have ended",
                                    SPOTNIK_EXCHANGE_REQUESTS_MAX);
    int rc = spotnik_thread_start(run, request, &request->thread);
    if (rc)
        return rc;
    request->started = true;
    request->next = exchange->requests;
    exchange->requests = request;
    exchange->request_count++;
    return 0;
}

static int start(struct spotnik_exchange *exchange, const struct spotnik_request *wanted,
                 uint64_t timeout_ns, struct spotnik_request **ret)
{
    struct spotnik_request *request = malloc(sizeof *request);

    if (!request)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a request");
    *request = *wanted;
    request->generation = spotnik_fork_generation();
    request->exchange = exchange;
    request->until_ns =
        timeout_ns ? spotnik_time_add(spotnik_clock_ns(), timeout_ns) : SPOTNIK_NEVER;
    request->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int rc = request->wake_fd < 0
                 ? spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make an eventfd: %m")
                 : 0;
    if (!rc) {
        request->self = spotnik_peers_self(exchange);
        pthread_mutex_lock(&exchange->lock);
        rc = admit(exchange, request);
        pthread_mutex_unlock(&exchange->lock);
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

int spotnik_exchange_pull(struct spotnik_exchange *exchange, const char *name, uint32_t rank,
                          uint64_t version_min, void *data, uint64_t count,
                          enum spotnik_dtype dtype, uint64_t timeout_ns,
                          struct spotnik_request **ret_request)
{
    struct spotnik_request wanted = { .kind = SPOTNIK_REQUEST_PULL,
                                      .rank = rank,
                                      .version_min = version_min,
                                      .data = data,
                                      .bytes = count * spotnik_dtype_bytes(dtype),
                                      .dtype = dtype };

    name_set(&wanted, name);
    return start(exchange, &wanted, timeout_ns, ret_request);
}

/* Of the store, which must fit. *ret_wanted->depot. */
static int depot_get(struct spotnik_exchange *exchange, const char *name, uint64_t count,
                     struct spotnik_request *wanted)
{
    pthread_mutex_lock(&exchange->lock);
    wanted->depot = spotnik_depot_find(exchange, name);
    pthread_mutex_unlock(&exchange->lock);
    if (wanted->depot) {
        pthread_mutex_lock(&wanted->depot->lock);
        bool opened = wanted->depot->opened;
        pthread_mutex_unlock(&wanted->depot->lock);
        wanted->depot = opened ? wanted->depot : NULL;
    }
    if (!wanted->depot)
        return spotnik_error_return(SPOTNIK_ERR_STATE,
                                    "the store %s is not open; call spotnik_store_open() first",
                                    name);
    if (wanted->depot->count != count)
        return spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "the store %s has %llu elements", name,
                                    (unsigned long long)wanted->depot->count);
    name_set(wanted, name);
    return 0;
}

/* Numbers follow each other, so one push waits for the one before. */
static int push_admit(struct spotnik_depot *depot, struct spotnik_request *wanted)
{
    pthread_mutex_lock(&depot->lock);
    bool busy = depot->pushing;
    if (!busy) {
        depot->pushing = true;
        wanted->sequence = ++depot->sequence;
    }
    pthread_mutex_unlock(&depot->lock);
    return busy ? spotnik_error_return(SPOTNIK_ERR_STATE,
                                       "one push at a time: wait for the last one to %s",
                                       depot->name)
                : 0;
}

int spotnik_exchange_push(struct spotnik_exchange *exchange, const char *name, const float *update,
                          uint64_t count, uint64_t timeout_ns, struct spotnik_request **ret_request)
{
    struct spotnik_request wanted = { .kind = SPOTNIK_REQUEST_PUSH,
                                      .data = (uint8_t *)(uintptr_t)update,
                                      .bytes = count * sizeof *update,
                                      .dtype = SPOTNIK_F32 };
    int rc = depot_get(exchange, name, count, &wanted);

    if (!rc)
        rc = push_admit(wanted.depot, &wanted);
    if (rc)
        return rc;
    rc = start(exchange, &wanted, timeout_ns, ret_request);
    if (rc) {
        pthread_mutex_lock(&wanted.depot->lock);
        wanted.depot->pushing = false;
        pthread_mutex_unlock(&wanted.depot->lock);
    }
    return rc;
}

int spotnik_exchange_fetch(struct spotnik_exchange *exchange, const char *name, float *data,
                           uint64_t count, uint64_t timeout_ns,
                           struct spotnik_request **ret_request)
{
    struct spotnik_request wanted = { .kind = SPOTNIK_REQUEST_FETCH,
                                      .data = (uint8_t *)(void *)data,
                                      .sequence = 1,
                                      .bytes = count * sizeof *data,
                                      .dtype = SPOTNIK_F32 };
    int rc = depot_get(exchange, name, count, &wanted);

    return rc ? rc : start(exchange, &wanted, timeout_ns, ret_request);
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
    struct spotnik_exchange *exchange = request->exchange;
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), timeout_ns);
    bool late = timeout_ns == 0;

    pthread_mutex_lock(&exchange->lock);
    while (!request->ended && !late)
        late = !spotnik_cond_wait(&exchange->changed, &exchange->lock, until_ns);
    bool ended = request->ended;
    pthread_mutex_unlock(&exchange->lock);
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
    struct spotnik_exchange *exchange = request->exchange;

    pthread_mutex_lock(&exchange->lock);
    request->cancelled = true;
    spotnik_wake(request->wake_fd);
    bool started = request->started;
    request->started = false;
    pthread_mutex_unlock(&exchange->lock);
    if (started)
        pthread_join(request->thread, NULL);
    pthread_mutex_lock(&exchange->lock);
    take_out(request);
    pthread_mutex_unlock(&exchange->lock);
    close(request->wake_fd);
    free(request);
}
