/* SPDX-License-Identifier: Apache-2.0 */
/* The ground that all sockets of a member stand on: one lock, two epoll sets, and a wake-up for the
 * thread that sleeps on them. It also has the sockets that wait to be freed, and the way up to the
 * core. Decides nothing. */
#ifndef SPOTNIK_LINK_LOOP_H
#define SPOTNIK_LINK_LOOP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "link/socket.h"

struct spotnik_loop {
    pthread_mutex_t queue, lock; /* the lock, and the queue before it */
    uint32_t queued;             /* atomic: a thread stands in the queue */
    int epoll_fd;
    struct spotnik_socket wake;
    struct spotnik_socket
        /* a set of its own for data connections, which lies in epoll_fd like a socket */
        data;
    uint64_t wake_ns;                /* until when the progress thread sleeps; 0: it is awake */
    bool kicked;                     /* the progress thread has been woken and has not looked yet */
    struct spotnik_socket *deferred; /* closed, but a batch of events may still name them */
    void (*drive)(void *context, struct spotnik_event *event); /* an event goes to the core */
    void *context;                                             /* of drive() */
};

void spotnik_loop_init(struct spotnik_loop *loop,
                       void (*drive)(void *context, struct spotnik_event *event), void *context);
int spotnik_loop_open(struct spotnik_loop *loop); /* 0 or SPOTNIK_ERR_SYSTEM */
void spotnik_loop_close(struct spotnik_loop *loop);

/* Fair: a thread that always runs does not starve one that seldom comes. */
void spotnik_loop_lock(struct spotnik_loop *loop);
void spotnik_loop_unlock(struct spotnik_loop *loop);

/* All that follow: under the lock. */
static inline void spotnik_loop_drive(struct spotnik_loop *loop, struct spotnik_event *event)
{
    loop->drive(loop->context, event);
}
/* An event whose arm is `peer`. */
void spotnik_loop_tell(struct spotnik_loop *loop, enum spotnik_event_kind kind,
                       const struct spotnik_member *peer);
void spotnik_loop_kick(struct spotnik_loop *loop); /* the progress thread makes another pass */
void spotnik_loop_free_later(struct spotnik_loop *loop, struct spotnik_socket *socket);
void spotnik_loop_deferred_free(struct spotnik_loop *loop);

#endif
