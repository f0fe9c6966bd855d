/* SPDX-License-Identifier: Apache-2.0 */
/* A client, from its first request to the end of its connection. Pinned buffers answer requests;
 * the publishing thread takes no part. */
#include <stdlib.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/time.h"
#include "base/wake.h"
#include "p2p/param_store.h"
#include "p2p/inside.h"

#define SIGN_OF_LIFE_NS (200 * SPOTNIK_MS)

static bool goes_on(void *context)
{
    struct spotnik_p2p_session *session = context;

    pthread_mutex_lock(&session->p2p->lock);
    bool on = !session->p2p->stopping;
    pthread_mutex_unlock(&session->p2p->lock);
    return on;
}

static int say(struct spotnik_p2p_session *session, enum spotnik_p2p_kind kind, uint64_t sequence)
{
    struct spotnik_p2p_head head = { .kind = (uint8_t)kind, .sequence = sequence };

    return spotnik_pipe_write(&session->pipe, &head, NULL);
}

/* Pin what is asked for; *ret_held NULL: it is not there. 0, SPOTNIK_ERR_MISMATCH. */
static int pin(struct spotnik_p2p_session *session, const struct spotnik_p2p_head *asked,
               struct spotnik_p2p_snapshot **ret_snapshot, struct spotnik_p2p_version **ret_held)
{
    pthread_mutex_lock(&session->p2p->lock);
    int rc = spotnik_p2p_snapshot_pin(session->p2p, asked, ret_snapshot, ret_held);
    /* in one go with the look, or what comes now would be missed */
    session->awaits = !rc && !*ret_held;
    pthread_mutex_unlock(&session->p2p->lock);
    return rc;
}

static void unpin(struct spotnik_p2p_session *session, struct spotnik_p2p_snapshot *snapshot,
                  struct spotnik_p2p_version *held)
{
    pthread_mutex_lock(&session->p2p->lock);
    spotnik_p2p_snapshot_unpin(snapshot, held);
    pthread_mutex_unlock(&session->p2p->lock);
}

/* ---- pulls ---- */

/* Until it is published; the client may go away meanwhile. 0: look again. */
static int await_news(struct spotnik_p2p_session *session)
{
    int rc = spotnik_pipe_look(&session->pipe, SIGN_OF_LIFE_NS);

    if (rc != 0)
        return SPOTNIK_ERR_PEERS; /* the end, or a client that talks out of turn */
    return say(session, SPOTNIK_P2P_WAIT, 0);
}

static int ready(struct spotnik_p2p_session *session, uint64_t version)
{
    struct spotnik_p2p_head head = { .kind = SPOTNIK_P2P_READY, .version = version };

    return spotnik_pipe_write(&session->pipe, &head, NULL);
}

static int give(struct spotnik_p2p_session *session, struct spotnik_p2p_head head)
{
    struct spotnik_p2p_snapshot *snapshot;
    struct spotnik_p2p_version *held = NULL;
    int rc;

    while ((rc = pin(session, &head, &snapshot, &held)) == 0 && !held) {
        if (head.version == 0)
            return say(session, SPOTNIK_P2P_ABSENT, 0);
        rc = await_news(session);
        if (rc)
            return rc;
    }
    if (rc)
        return say(session, SPOTNIK_P2P_OTHER, 0);
    bool is_read_there = head.kind == SPOTNIK_P2P_AWAIT;
    head.kind = SPOTNIK_P2P_SNAPSHOT;
    head.version = held->version;
    rc = is_read_there ? ready(session, head.version)
                       : spotnik_pipe_write(&session->pipe, &head, held->copy + 1);
    unpin(session, snapshot, held);
    return rc;
}

/* ---- the session ---- */

static int turn(struct spotnik_p2p_session *session)
{
    struct spotnik_p2p_head head;
    int rc = spotnik_pipe_await(&session->pipe);

    if (!rc)
        rc = spotnik_pipe_read_head(&session->pipe, &head);
    if (rc)
        return rc;
    switch (head.kind) {
    case SPOTNIK_P2P_PULL:
    case SPOTNIK_P2P_AWAIT:
        return give(session, head);
    case SPOTNIK_P2P_IMPORT:
        return spotnik_export_serve(session);
    case SPOTNIK_P2P_SHARE:
        return spotnik_common_serve(session, &head);
    case SPOTNIK_P2P_PUSH:
    case SPOTNIK_P2P_PASS:
    case SPOTNIK_P2P_FETCH:
    case SPOTNIK_P2P_HAVE:
    case SPOTNIK_P2P_TAKE:
        return spotnik_param_store_serve(session, &head);
    default:
        return SPOTNIK_ERR_PEERS;
    }
}

static void end(struct spotnik_p2p_session *session)
{
    struct spotnik_p2p *p2p = session->p2p;
    struct spotnik_p2p_session **at = &p2p->sessions;

    pthread_mutex_lock(&p2p->lock);
    while (*at != session)
        at = &(*at)->next;
    *at = session->next;
    p2p->session_count--;
    spotnik_duplex_close(&session->duplex);
    close(session->pipe.wake_fd);
    free(session);
    pthread_cond_broadcast(&p2p->changed);
    /* The last access: a thread that waits for the last session may free everything now. */
    pthread_mutex_unlock(&p2p->lock);
}

void *spotnik_p2p_serve(void *argument)
{
    struct spotnik_p2p_session *session = argument;

    session->pipe.goes_on = goes_on;
    session->pipe.context = session;
    while (goes_on(session) && turn(session) == 0)
        continue;
    end(session);
    return NULL;
}
