/* SPDX-License-Identifier: Apache-2.0 */
/* The life of the whole, and its two hooks. */
#include "p2p/p2p.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/time.h"
#include "base/wake.h"
#include "p2p/param_store.h"
#include "p2p/inside.h"
#include "transfer/thread.h"

/* A reader may be starved of processors for long, and costs a buffer. */
#define READER_SILENCE_NS (10 * SPOTNIK_S)

int spotnik_p2p_new(uint64_t silence_ns, struct spotnik_p2p **ret_p2p)
{
    struct spotnik_p2p *p2p = calloc(1, sizeof *p2p);

    if (!p2p)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for exchanges");
    p2p->silence_ns = silence_ns;
    p2p->segment.fd = -1;
    pthread_mutex_init(&p2p->lock, NULL);
    pthread_mutex_init(&p2p->export_lock, NULL);
    spotnik_cond_init(&p2p->changed);
    *ret_p2p = p2p;
    return 0;
}

void spotnik_p2p_attach(struct spotnik_p2p *p2p, struct spotnik_runtime *runtime)
{
    pthread_mutex_lock(&p2p->lock);
    p2p->runtime = runtime;
    pthread_mutex_unlock(&p2p->lock);
}

/* ---- hooks ---- */

static struct spotnik_p2p_session *session_new(struct spotnik_p2p *p2p,
                                               const struct spotnik_duplex *duplex,
                                               const struct spotnik_member *peer)
{
    struct spotnik_p2p_session *session = calloc(1, sizeof *session);

    if (!session)
        return NULL;
    session->p2p = p2p;
    session->peer = *peer;
    session->duplex = *duplex;
    session->pipe = (struct spotnik_pipe){ .duplex = &session->duplex,
                                           .wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                                           .silence_ns = READER_SILENCE_NS,
                                           .until_ns = SPOTNIK_NEVER };
    if (session->pipe.wake_fd >= 0)
        return session;
    free(session);
    return NULL;
}

/* To a member that we cannot serve we look dead: it turns to another. */
void spotnik_p2p_accept(struct spotnik_p2p *p2p, struct spotnik_duplex *duplex,
                        const struct spotnik_member *peer)
{
    struct spotnik_p2p_session *session = NULL;

    pthread_mutex_lock(&p2p->lock);
    if (!p2p->stopping && p2p->session_count < SPOTNIK_P2P_SESSIONS_MAX)
        session = session_new(p2p, duplex, peer);
    if (session && spotnik_thread_start(spotnik_p2p_serve, session, NULL) == 0) {
        session->next = p2p->sessions;
        p2p->sessions = session;
        p2p->session_count++;
    } else {
        if (session)
            close(session->pipe.wake_fd);
        free(session);
        spotnik_duplex_close(duplex);
    }
    pthread_mutex_unlock(&p2p->lock);
}

void spotnik_p2p_view(struct spotnik_p2p *p2p)
{
    pthread_mutex_lock(&p2p->lock);
    for (struct spotnik_request *request = p2p->requests; request; request = request->next)
        spotnik_wake(request->wake_fd);
    for (struct spotnik_param_store *param_store = p2p->param_stores; param_store;
         param_store = param_store->next)
        spotnik_wake(param_store->wake_fd);
    spotnik_kept_prune(p2p); /* those of the dead */
    spotnik_loans_prune(p2p);
    pthread_mutex_unlock(&p2p->lock);
}

void spotnik_p2p_reset(struct spotnik_p2p *p2p)
{
    pthread_mutex_lock(&p2p->lock);
    spotnik_p2p_snapshot_clear(p2p);
    pthread_mutex_unlock(&p2p->lock);
}

/* ---- the end ---- */

/* Under the lock, which is given up meanwhile. */
static void requests_end(struct spotnik_p2p *p2p)
{
    for (struct spotnik_request *request = p2p->requests; request;) {
        bool started = request->started;
        spotnik_wake(request->wake_fd);
        request->started = false;
        if (started) {
            pthread_mutex_unlock(&p2p->lock);
            pthread_join(request->thread, NULL);
            pthread_mutex_lock(&p2p->lock);
        }
        request = started ? p2p->requests : request->next;
    }
}

/* As above. */
static void param_stores_end(struct spotnik_p2p *p2p)
{
    for (struct spotnik_param_store *param_store = p2p->param_stores; param_store;
         param_store = param_store->next) {
        spotnik_wake(param_store->wake_fd);
        pthread_mutex_unlock(&p2p->lock);
        pthread_join(param_store->thread, NULL);
        pthread_mutex_lock(&p2p->lock);
    }
}

void spotnik_p2p_stop(struct spotnik_p2p *p2p)
{
    pthread_mutex_lock(&p2p->lock);
    p2p->stopping = true;
    for (struct spotnik_p2p_session *session = p2p->sessions; session; session = session->next)
        spotnik_wake(session->pipe.wake_fd);
    requests_end(p2p);
    param_stores_end(p2p);
    while (p2p->session_count > 0)
        pthread_cond_wait(&p2p->changed, &p2p->lock);
    spotnik_kept_close(p2p);
    spotnik_loans_end(p2p);
    pthread_mutex_unlock(&p2p->lock);
}

void spotnik_p2p_free(struct spotnik_p2p *p2p)
{
    if (!p2p)
        return;
    while (p2p->requests)
        spotnik_request_free(p2p->requests);
    spotnik_p2p_snapshot_free(p2p);
    spotnik_param_store_free(p2p);
    spotnik_commons_free(p2p);
    spotnik_export_free(p2p);
    pthread_cond_destroy(&p2p->changed);
    pthread_mutex_destroy(&p2p->lock);
    pthread_mutex_destroy(&p2p->export_lock);
    free(p2p);
}
