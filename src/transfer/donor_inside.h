/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by donor.c (hooks, snapshots, log) and session.c (one joiner's conversation). Not for
 * others. */
#ifndef SPOTNIK_TRANSFER_DONOR_INSIDE_H
#define SPOTNIK_TRANSFER_DONOR_INSIDE_H

#include <pthread.h>

#include "transfer/donor.h"
#include "transfer/packet.h"
#include "transfer/log.h"

#define SPOTNIK_SESSIONS_MAX 64
#define SPOTNIK_SNAPSHOTS_MAX 4

enum spotnik_snapshot_phase {
    SPOTNIK_SNAPSHOT_DUE,     /* the late tensors (registry.h) are to be copied */
    SPOTNIK_SNAPSHOT_COPYING, /* by one thread, without the lock */
    SPOTNIK_SNAPSHOT_COPIED,
};

/* The state after `step`. Freed with the last reference. */
struct spotnik_snapshot {
    uint64_t step, bytes;
    enum spotnik_snapshot_phase phase;
    /* confirmed: the program did not change the state while it may have been copied; spoilt: it
     * did, or a copy failed, so that no joiner may have it */
    bool confirmed, spoilt;
    uint32_t references;
    uint8_t *data;
    uint8_t *extra; /* the blobs, packed */
    size_t extra_bytes;
    struct spotnik_snapshot *next;
};

struct spotnik_session {
    struct spotnik_donor *donor;
    struct spotnik_session *next;
    struct spotnik_duplex duplex;
    int event; /* an eventfd by which hooks wake the thread */
    /* under the donor's lock */
    bool wants_snapshot;
    uint64_t at_least; /* not before this step, unless the member waits in step_begin */
    struct spotnik_snapshot *snapshot;
    /* the first step whose result the joiner may still ask for; valid with a snapshot */
    uint64_t needed;
    bool dropped;        /* too slow: told so by its thread, and over; */
    uint64_t dropped_ns; /* since when */
    bool following;      /* it has its copy, and we stream to it */
    uint64_t pieces;     /* of the snapshot that it has asked for */
    /* for donor_wait.c: since when, and from where, we look whether it comes nearer (0: not
     * yet); */
    uint64_t window_ns, window_step, window_behind;
    uint64_t rest_until_ns; /* no wait for it before */
    /* the session's thread only */
    bool asked, told_taken, streaming, told_dry;
    uint64_t stream_next;
    struct spotnik_packet packet;
};

struct spotnik_donor {
    struct spotnik_registry *registry;
    uint32_t chunk_bytes;
    pthread_mutex_t lock;
    pthread_cond_t ended; /* a session has ended */
    /* a joiner has acknowledged a step, or a session has ended; monotonic clock */
    pthread_cond_t nearer;
    pthread_cond_t copied; /* a thread has ended a copy */
    /* under the lock */
    struct spotnik_runtime *runtime;
    bool sealed, stopping;
    struct spotnik_session *session;
    uint32_t session_count;
    struct spotnik_snapshot *snapshot;
    uint32_t snapshot_count;
    /* memory for the next snapshot, touched already so that the copy finds it warm */
    uint8_t *spare;
    bool spare_coming;
    struct spotnik_log log;
    uint64_t log_bytes_max, dropped;
    /* from this instant on the members wait before the log drops a joiner; 0: they do not */
    uint64_t log_wait_from_ns;
    uint64_t committed; /* position of the caller's thread */
    uint64_t
        /* no later view can commit this step differently; what comes after it stays in this
         * process */
        stable;
    bool outside; /* excluded, and not a member again yet: nothing to give */
    bool waiting;
    uint64_t step_ns, committed_ns; /* mean time of a step; instant of the last commit */
};

/* How long we look at least whether a joiner comes nearer by itself. */
#define SPOTNIK_DONOR_WINDOW_NS (500 * UINT64_C(1000000))

/* Wait for a joiner that is far behind and comes no nearer, or that the log would drop as it
 * dropped one before. Caller's thread, at a boundary, under the lock, which is given up
 * meanwhile. */
void spotnik_donor_await(struct spotnik_donor *donor);

/* Thread of one session; frees it. */
void *spotnik_session_run(void *session);

void spotnik_session_wake(struct spotnik_session *session);

/* The session's thread: a word to the joiner in the midst of what takes long. */
void spotnik_session_live(void *session);

/* Under the lock, which is given up meanwhile: copy what is late of a DUE one. `session` is the one
 * whose thread this is; NULL: the caller's thread. Returns the snapshot when nothing refers to it
 * any more: to be freed without the lock. */
struct spotnik_snapshot *spotnik_donor_copy(struct spotnik_donor *donor,
                                            struct spotnik_snapshot *snapshot,
                                            struct spotnik_session *session);

/* Under the lock: drop what no session needs any more. */
void spotnik_donor_prune(struct spotnik_donor *donor);

/* Under the lock: one reference less. Returns the snapshot when it was the last: free it after the
 * lock is given up, since giving memory back takes long. */
struct spotnik_snapshot *spotnik_donor_release(struct spotnik_donor *donor,
                                               struct spotnik_snapshot *snapshot);
void spotnik_snapshot_free(struct spotnik_snapshot *snapshot);

/* On the session's thread, without the lock: see to it that there is memory for a snapshot. False:
 * none can be had. */
bool spotnik_donor_provide(struct spotnik_donor *donor, struct spotnik_session *session);

#endif
