/* SPDX-License-Identifier: Apache-2.0 */
/* The lock: a thread that wants it while another does queues at a second mutex first. So the
 * progress thread, which takes it again at once after every release, lets the caller's thread in
 * between, and the other way round. A thread that finds it free and the queue empty takes it at
 * once. */
#include "link/loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/wake.h"
#include "spotnik/spotnik.h"

void spotnik_loop_init(struct spotnik_loop *loop,
                       void (*drive)(void *context, struct spotnik_event *event), void *context)
{
    *loop = (struct spotnik_loop){
        .epoll_fd = -1, .wake.fd = -1, .data.fd = -1, .drive = drive, .context = context
    };
    pthread_mutex_init(&loop->queue, NULL);
    pthread_mutex_init(&loop->lock, NULL);
}

int spotnik_loop_open(struct spotnik_loop *loop)
{
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (loop->epoll_fd < 0 || loop->wake.fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make epoll or eventfd: %m");
    return spotnik_socket_watch(&loop->wake, loop->epoll_fd, loop->wake.fd, SPOTNIK_SOCKET_WAKE);
}

void spotnik_loop_close(struct spotnik_loop *loop)
{
    if (loop->wake.fd >= 0)
        close(loop->wake.fd);
    if (loop->epoll_fd >= 0)
        close(loop->epoll_fd);
    pthread_mutex_destroy(&loop->lock);
    pthread_mutex_destroy(&loop->queue);
}

void spotnik_loop_lock(struct spotnik_loop *loop)
{
    if (__atomic_load_n(&loop->queued, __ATOMIC_RELAXED) == 0
        && pthread_mutex_trylock(&loop->lock) == 0)
        return;
    pthread_mutex_lock(&loop->queue);
    __atomic_store_n(&loop->queued, 1, __ATOMIC_RELAXED);
    pthread_mutex_lock(&loop->lock);
    __atomic_store_n(&loop->queued, 0, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&loop->queue);
}

void spotnik_loop_unlock(struct spotnik_loop *loop)
{
    pthread_mutex_unlock(&loop->lock);
}

void spotnik_loop_tell(struct spotnik_loop *loop, enum spotnik_event_kind kind,
                       const struct spotnik_member *peer)
{
    struct spotnik_event event = { .kind = kind, .peer = *peer };
    spotnik_loop_drive(loop, &event);
}

void spotnik_loop_kick(struct spotnik_loop *loop)
{
    if (loop->kicked)
        return;
    loop->kicked = true;
    spotnik_wake(loop->wake.fd);
}

/* Freed when the progress thread next goes to sleep: until then a batch of events may name it. */
void spotnik_loop_free_later(struct spotnik_loop *loop, struct spotnik_socket *socket)
{
    SPOTNIK_ASSERT(socket->fd < 0);
    socket->grave = loop->deferred;
    loop->deferred = socket;
}

/* The socket is the first member of what was allocated. */
void spotnik_loop_deferred_free(struct spotnik_loop *loop)
{
    while (loop->deferred != NULL) {
        struct spotnik_socket *socket = loop->deferred;
        loop->deferred = socket->grave;
        free(socket);
    }
}
