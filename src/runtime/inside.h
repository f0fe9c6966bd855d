/* SPDX-License-Identifier: Apache-2.0 */
/* The runtime's state and the vocabulary its files share. Private to this folder.
 *
 * One fair lock guards everything here. The progress thread holds it except while it sleeps in
 * epoll or calls hooks. The caller's thread runs its events in place under the same lock
 * (dispatch.c), so that a step begins without a wake-up.
 *
 *     runtime.c    life cycle              caller.c  the caller's side and its waiting
 *     progress.c  the loop                dispatch.c   event -> core -> actions
 *     arrivals.c  what the links ask      data_poller.c  which thread reads the data
 *     foreign.c   other jobs of our name  lease.c  whether this member may go on */
#ifndef SPOTNIK_RUNTIME_INSIDE_H
#define SPOTNIK_RUNTIME_INSIDE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "transport/transport.h"
#include "transport/spin.h"
#include "runtime/runtime.h"
#include "link/death.h"
#include "link/links.h"
#include "link/loop.h"
#include "link/shake.h"
#include "link/socket.h"
#include "record/recorder.h"
#include "record/tracer.h"
#include "wire/control.h"
#include "wire/frame.h"

/* The thread that reads the data connections (data_poller.c). */
struct spotnik_data_poller {
    /* the end of a caller's grace; an eventfd in the set of data connections */
    struct spotnik_socket timer, wake;
    bool caller;      /* a caller that waits for its commit, and not the progress thread */
    bool apart;       /* the set is not in the progress thread's */
    bool sleeping;    /* the caller, on the set */
    bool armed;       /* the timer */
    uint64_t left_ns; /* when the caller went away last */
    struct spotnik_spin spin;
    bool yields;    /* spinning, it yields its processor to others */
    uint32_t place; /* ours among the members of this host */
};

struct spotnik_runtime {
    struct spotnik_runtime_config config;
    struct spotnik_loop loop;
    pthread_cond_t tie_asked;
    struct spotnik_tie tie; /* the last that the core has put to the witness, */
    bool tied, tie_closed;  /* and whether it waits for an answer; nobody gives any more */
    pthread_cond_t changed; /* something the caller waits for */
    pthread_t thread;
    bool thread_started;
    struct spotnik_death *death;
    /* the step after which the job was founded or resumed, by this process or another one of its
     * agent; 0 in one that joined others */
    uint64_t origin;
    uint32_t noticed;    /* atomic: spotnik_runtime_notice() */
    uint64_t noticed_ns; /* [caller] when it was first seen; 0: not yet */
    bool entering;       /* this joiner has asked to be let in, and may be at any moment */

    /* --- under the lock --- */
    void *core_memory;
    struct spotnik_core *core;
    struct spotnik_recorder *recorder; /* NULL: none is kept */
    struct spotnik_tracer *trace;      /* NULL: none is written */
    bool driving;
    bool stopping, abrupt;
    bool deal_due;      /* asked by the core: answered as soon as its queue is empty */
    bool watch_due;     /* a new view: watch other neighbours */
    uint64_t asleep_ns; /* how long the host has been suspended, ever */
    struct spotnik_links *links;
    struct spotnik_troubles troubles;
    uint64_t counted_epoch; /* its losses are in there */
    struct spotnik_data_poller data_poller;
    struct spotnik_stand stand;
    struct spotnik_transport *transport;
    struct spotnik_member vote;
    struct spotnik_caller {
        struct spotnik_member peer;
        uint64_t heard_ns;          /* 0: never */
    } called[SPOTNIK_CALLERS_KEPT]; /* processes that asked us for the job lately */
    struct {
        uint64_t look_ns, event_ns; /* CLOCK_BOOTTIME: when the last look at the folder began (0:
                                     * there is no folder), and the last event */
        uint64_t stale_ns;          /* others wait so long for us */
        uint64_t barred_ns; /* commits wait for a look that began after that; 0: they do not */
    } awake;
    int ended; /* for good, 0: not; and why */
    char end[400];
    struct spotnik_founding past; /* of the last view that we were in */
    uint64_t foreign; /* the other founding of our name that was told of last; 0: none */
    uint64_t lineages_told;
    char lineage_text[400];

    /* the caller's side */
    bool handed_out, replay;
    bool excluded, left, boundary_due;
    int failed;
    /* the caller's thread: of the last result; step 0: told already */
    uint64_t result_step, result_digest;
    struct spotnik_divergence diverged; /* `failed` is DIVERGED: the member we differ from */
    char mismatch[400];                 /* failed for MISMATCH: of which bucket, and whose */
    uint64_t parked_ns;                 /* since when; 0: not */
    uint64_t patience_ns;               /* of the caller's waits; 0: for ever */
    uint64_t step_epoch;
    uint32_t recovery_count;
    spotnik_recovery recovery[SPOTNIK_RECOVERIES_KEPT];
};

/* loop.h, for the runtime */
static inline void spotnik_runtime_lock(struct spotnik_runtime *runtime)
{
    spotnik_loop_lock(&runtime->loop);
}
static inline void spotnik_runtime_unlock(struct spotnik_runtime *runtime)
{
    spotnik_loop_unlock(&runtime->loop);
}
static inline void spotnik_runtime_kick(struct spotnik_runtime *runtime)
{
    spotnik_loop_kick(&runtime->loop);
}

/* lease.c */
void spotnik_caller_note(struct spotnik_runtime *runtime, const struct spotnik_member *peer);
void spotnik_awake_check(struct spotnik_runtime *runtime);

/* foreign.c */
void spotnik_presence_get(const struct spotnik_runtime *runtime, struct spotnik_presence *ret);
void spotnik_past_note(struct spotnik_runtime *runtime);
bool spotnik_shake_differs(struct spotnik_runtime *runtime, const struct spotnik_shake *shake);

/* arrivals.c: the links, with what they ask of us. */
int spotnik_arrivals_new(struct spotnik_runtime *runtime);

/* runtime.c: a core that has seen nothing yet. */
void spotnik_runtime_core_reset(struct spotnik_runtime *runtime);

/* dispatch.c */
void spotnik_runtime_dispatch(struct spotnik_runtime *runtime, struct spotnik_event *event);
void spotnik_runtime_act(struct spotnik_runtime *runtime);
void spotnik_runtime_watch_neighbours(struct spotnik_runtime *runtime);

/* Wake all threads of this process that wait for a change. */
void spotnik_runtime_changed(struct spotnik_runtime *runtime);

/* tie.c */
void spotnik_tie_ask(struct spotnik_runtime *runtime, uint64_t epoch);

/* data_poller.c */
int spotnik_data_poller_init(struct spotnik_runtime *runtime);
void spotnik_data_poller_free(struct spotnik_runtime *runtime);
struct epoll_event;
void spotnik_data_poller_mark(struct spotnik_runtime *runtime, const struct epoll_event *event);
void spotnik_data_poller_view(struct spotnik_runtime *runtime);
void spotnik_data_poller_collect(struct spotnik_runtime *runtime);
void spotnik_data_poller_expired(struct spotnik_runtime *runtime);
/* caller's thread; gives up the lock meanwhile */
void spotnik_data_poller(struct spotnik_runtime *runtime, uint64_t until_ns);
void spotnik_data_poller_resume(struct spotnik_runtime *runtime);
void spotnik_data_poller_leave(struct spotnik_runtime *runtime);
void spotnik_data_poller_changed(struct spotnik_runtime *runtime);

/* progress.c */
void *spotnik_progress_main(void *context);

#endif
