/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of src/p2p, and private to them. One lock guards all of it; no thread
 * holds it while it moves bytes or asks the runtime. A thread that holds the runtime's lock may
 * take this one, never the other way round. */
#ifndef SPOTNIK_P2P_INSIDE_H
#define SPOTNIK_P2P_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#include "p2p/p2p.h"
#include "p2p/pipe.h"
#include "p2p/published.h"
#include "shm/segment.h"
#include "wire/p2p_frame.h"

#define SPOTNIK_P2P_SESSIONS_MAX 1024
#define SPOTNIK_P2P_REQUESTS_MAX 64
#define SPOTNIK_P2P_SNAPSHOTS_MAX 256

/* One publication. It does not change while it is pinned or the newest. */
struct spotnik_p2p_version {
    struct spotnik_p2p_version *next;
    struct spotnik_published_copy *copy; /* and its data behind it */
    bool lent;                           /* it lies in memory that others may read */
    uint64_t version;
    uint64_t taken; /* counts publications */
    uint32_t pins;
};

struct spotnik_p2p_snapshot {
    struct spotnik_p2p_snapshot *next;
    char name[SPOTNIK_P2P_NAME_MAX + 1];
    enum spotnik_dtype dtype;
    uint64_t count, bytes;
    struct spotnik_p2p_version *versions, *newest;
    uint32_t version_count;
    uint64_t published;
    struct spotnik_published_row *row; /* NULL: others cannot read it themselves */
};

/* A client of ours, on a thread of its own. */
struct spotnik_p2p_session {
    struct spotnik_p2p *p2p;
    struct spotnik_p2p_session *next;
    struct spotnik_member peer;
    struct spotnik_duplex duplex;
    struct spotnik_pipe pipe; /* pipe.wake_fd: something was published, or we stop */
    bool awaits;              /* under the lock: a publication */
};

enum spotnik_request_kind { SPOTNIK_REQUEST_PULL, SPOTNIK_REQUEST_PUSH, SPOTNIK_REQUEST_FETCH };

struct spotnik_request {
    struct spotnik_p2p *p2p;
    struct spotnik_request *next;
    uint32_t generation; /* of the process that made it: base/fork.h */
    enum spotnik_request_kind kind;
    char name[SPOTNIK_P2P_NAME_MAX + 1];
    enum spotnik_dtype dtype;
    uint8_t *data;
    uint64_t bytes, version_min, sequence;
    uint64_t until_ns;
    uint32_t rank;                           /* of the member to ask first */
    struct spotnik_param_store *param_store; /* PUSH, FETCH */
    struct spotnik_id self;
    int wake_fd; /* an eventfd: the view has changed, or it is cancelled */
    /* under the lock */
    bool started, ended, cancelled;
    pthread_t thread;
    int error;
    spotnik_arrival arrival;
    /* the thread's own */
    struct spotnik_member peer; /* the member it speaks to */
    uint64_t host;              /* ours */
    struct spotnik_id *asked;   /* the members it has asked */
};

/* Memory of another member of this host, which we read. Its connection shows whether the member
 * lives, and carries nothing else. Under the lock, except that a counted user may read without
 * it. */
struct spotnik_loan {
    struct spotnik_loan *next;
    struct spotnik_id peer;
    int link_fd, memory_fd; /* link_fd: a Unix socket, which has no seals */
    void *base;
    size_t size; /* of what is there to be read, when we last looked */
    uint32_t users;
    bool over; /* to be given back by its last user; in no list any more */
};

/* A connection that waits for its next use. */
struct spotnik_kept {
    struct spotnik_kept *next;
    struct spotnik_id peer;
    struct spotnik_duplex duplex;
};

struct spotnik_p2p {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* a request or a session has ended; monotonic clock */
    struct spotnik_runtime *runtime;
    uint64_t silence_ns;
    bool stopping;
    struct spotnik_p2p_snapshot *snapshots;
    uint32_t snapshot_count;
    struct spotnik_p2p_session *sessions;
    uint32_t session_count;
    struct spotnik_request *requests;
    uint32_t request_count;
    struct spotnik_kept *kept;
    struct spotnik_loan *loans;
    /* guards `segment` where it grows, which may take long; may be held before `lock` */
    pthread_mutex_t export_lock;
    struct spotnik_segment segment; /* fd -1: none */
    /* in it; set once, under the lock. NULL: nothing is lent */
    struct spotnik_published *published;
    bool lend_tried;
    struct spotnik_param_store *param_stores;
    struct spotnik_common *commons;
};

/* snapshot.c; under the lock */
struct spotnik_p2p_snapshot *spotnik_p2p_snapshot_find(const struct spotnik_p2p *p2p,
                                                       const char *name);
int spotnik_p2p_snapshot_pin(struct spotnik_p2p *p2p, const struct spotnik_p2p_head *asked,
                             struct spotnik_p2p_snapshot **ret_snapshot,
                             struct spotnik_p2p_version **ret_held);
void spotnik_p2p_snapshot_unpin(struct spotnik_p2p_snapshot *snapshot,
                                struct spotnik_p2p_version *held);
void spotnik_p2p_snapshot_clear(struct spotnik_p2p *p2p);
void spotnik_p2p_snapshot_free(struct spotnik_p2p *p2p);

/* export.c; without the lock. Open: once there is something to publish. Take: room for a copy of
 * `bytes` bytes; NULL: there is none. */
void spotnik_export_open(struct spotnik_p2p *p2p);
struct spotnik_published_copy *spotnik_export_take(struct spotnik_p2p *p2p, uint64_t bytes);
uint64_t spotnik_export_offset(const struct spotnik_p2p *p2p,
                               const struct spotnik_p2p_version *held);
int spotnik_export_serve(struct spotnik_p2p_session *session);
void spotnik_export_free(struct spotnik_p2p *p2p);

/* common.c */
int spotnik_common_serve(struct spotnik_p2p_session *session, const struct spotnik_p2p_head *asked);

/* serve.c */
void *spotnik_p2p_serve(void *session);

/* common.c and param_store.c; after all threads have ended */
void spotnik_commons_free(struct spotnik_p2p *p2p);
void spotnik_param_store_free(struct spotnik_p2p *p2p);

/* targets.c; without the lock, but for spotnik_kept_... */
bool spotnik_peer_is_in_view(struct spotnik_p2p *p2p, struct spotnik_id peer);
bool spotnik_peer_choose(struct spotnik_request *request);
bool spotnik_peer_kept(struct spotnik_p2p *p2p, struct spotnik_id peer, struct spotnik_duplex *ret);
int spotnik_peer_dial(struct spotnik_p2p *p2p, const struct spotnik_member *peer, int stop_fd,
                      struct spotnik_duplex *ret);
struct spotnik_id spotnik_discovery_self(struct spotnik_p2p *p2p);
uint64_t spotnik_discovery_epoch(struct spotnik_p2p *p2p);
uint32_t spotnik_discovery_view(struct spotnik_p2p *p2p, struct spotnik_member *ret,
                                uint64_t *ret_epoch);
void spotnik_peer_keep(struct spotnik_p2p *p2p, struct spotnik_id peer,
                       struct spotnik_duplex *duplex);
void spotnik_kept_prune(struct spotnik_p2p *p2p);
void spotnik_kept_close(struct spotnik_p2p *p2p);

/* import.c; under the lock, or when no other thread is left. Prune: those of the dead. */
void spotnik_loans_prune(struct spotnik_p2p *p2p);
void spotnik_loans_end(struct spotnik_p2p *p2p);

/* What asking one member has led to. */
enum spotnik_asked {
    SPOTNIK_ASKED_ARRIVED, /* the request is fulfilled */
    /* it has nothing for us: the next one; the connection is as good as new */
    SPOTNIK_ASKED_ABSENT,
    SPOTNIK_ASKED_LOST,  /* it is of no use any more: the next one */
    SPOTNIK_ASKED_OTHER, /* our programs differ */
    SPOTNIK_ASKED_OVER,  /* cancelled, or out of time */
    SPOTNIK_ASKED_NOT,   /* not this way: by a connection */
};

/* import.c: a PULL from request->peer, by reading its memory. */
enum spotnik_asked spotnik_import_pull(struct spotnik_request *request);

/* pull.c: the conversation with request->peer. */
enum spotnik_asked spotnik_pull_ask(struct spotnik_request *request, struct spotnik_pipe *pipe);

/* request.c: does it go on at all? Then the failure of a pipe is the peer's. */
bool spotnik_request_is_over(struct spotnik_request *request);

/* request.c: a connection on its behalf. */
struct spotnik_pipe spotnik_request_pipe(struct spotnik_request *request,
                                         struct spotnik_duplex *duplex);

/* request.c: the same, or the peer is no member any more. For pipes and calls. */
bool spotnik_request_goes_on(void *request);

#endif
