/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the whole, and its two hooks. */
#include "exchange/exchange.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "base/wake.h"
#include "exchange/depot.h"
#include "exchange/inside.h"
#include "transfer/thread.h"

/* A reader may be starved of processors for long, and costs a buffer. */
#define READER_SILENCE_NS (10 * SPOTNIK_S)

int spotnik_exchange_new(uint64_t silence_ns, struct spotnik_exchange **ret_exchange)
{
    struct spotnik_exchange *exchange = calloc(1, sizeof *exchange);

    if (!exchange)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for exchanges");
    exchange->silence_ns = silence_ns;
    exchange->segment.fd = -1;
    pthread_mutex_init(&exchange->lock, NULL);
    pthread_mutex_init(&exchange->lend_lock, NULL);
    spotnik_cond_init(&exchange->changed);
    *ret_exchange = exchange;
    return 0;
}

void spotnik_exchange_attach(struct spotnik_exchange *exchange, struct spotnik_engine *engine)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->engine = engine;
    pthread_mutex_unlock(&exchange->lock);
}

/* ---- hooks ---- */

static struct spotnik_exchange_session *session_new(struct spotnik_exchange *exchange, int fd,
                                                    const struct spotnik_member *peer)
{
    struct spotnik_exchange_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->exchange = exchange;
    session->peer = *peer;
    session->pipe = (struct spotnik_pipe){ .fd = fd,
                                           .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                           .silence_ns = READER_SILENCE_NS,
                                           .until_ns = SPOTNIK_NEVER };
    if (session->pipe.wake_fd >= 0)
        return session;
    free(session);
    return NULL;
}

/* To a member that we cannot serve we look dead: it turns to another. */
void spotnik_exchange_accept(struct spotnik_exchange *exchange, int fd,
                             const struct spotnik_member *peer)
{
    struct spotnik_exchange_session *session = NULL;

    pthread_mutex_lock(&exchange->lock);
    if (!exchange->stopping && exchange->session_count < SPOTNIK_EXCHANGE_SESSIONS_MAX)
        session = session_new(exchange, fd, peer);
    if (session && spotnik_thread_start(spotnik_exchange_serve, session, NULL) == 0) {
        session->next = exchange->sessions;
        exchange->sessions = session;
        exchange->session_count++;
    } else {
        if (session)
            close(session->pipe.wake_fd);
        free(session);
        close(fd);
    }
    pthread_mutex_unlock(&exchange->lock);
}

void spotnik_exchange_view(struct spotnik_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    for (struct spotnik_request *request = exchange->requests; request; request = request->next)
        spotnik_wake(request->wake_fd);
    for (struct spotnik_depot *depot = exchange->depots; depot; depot = depot->next)
        spotnik_wake(depot->wake_fd);
    spotnik_kept_prune(exchange); /* those of the dead */
    spotnik_loans_prune(exchange);
    pthread_mutex_unlock(&exchange->lock);
}

void spotnik_exchange_reset(struct spotnik_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    spotnik_topics_clear(exchange);
    pthread_mutex_unlock(&exchange->lock);
}

/* ---- the end ---- */

/* Under the lock, which is given up meanwhile. */
static void requests_end(struct spotnik_exchange *exchange)
{
    for (struct spotnik_request *request = exchange->requests; request;) {
        bool started = request->started;
        spotnik_wake(request->wake_fd);
        request->started = false;
        if (started) {
            pthread_mutex_unlock(&exchange->lock);
            pthread_join(request->thread, NULL);
            pthread_mutex_lock(&exchange->lock);
        }
        request = started ? exchange->requests : request->next;
    }
}

/* As above. */
static void depots_end(struct spotnik_exchange *exchange)
{
    for (struct spotnik_depot *depot = exchange->depots; depot; depot = depot->next) {
        spotnik_wake(depot->wake_fd);
        pthread_mutex_unlock(&exchange->lock);
        pthread_join(depot->thread, NULL);
        pthread_mutex_lock(&exchange->lock);
    }
}

void spotnik_exchange_stop(struct spotnik_exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->stopping = true;
    for (struct spotnik_exchange_session *session = exchange->sessions; session;
         session = session->next)
        spotnik_wake(session->pipe.wake_fd);
    requests_end(exchange);
    depots_end(exchange);
    while (exchange->session_count > 0)
        pthread_cond_wait(&exchange->changed, &exchange->lock);
    spotnik_kept_close(exchange);
    spotnik_loans_end(exchange);
    pthread_mutex_unlock(&exchange->lock);
}

void spotnik_exchange_free(struct spotnik_exchange *exchange)
{
    if (!exchange)
        return;
    while (exchange->requests)
        spotnik_request_free(exchange->requests);
    spotnik_topics_free(exchange);
    spotnik_depots_free(exchange);
    spotnik_commons_free(exchange);
    spotnik_lend_free(exchange);
    pthread_cond_destroy(&exchange->changed);
    pthread_mutex_destroy(&exchange->lock);
    pthread_mutex_destroy(&exchange->lend_lock);
    free(exchange);
}
