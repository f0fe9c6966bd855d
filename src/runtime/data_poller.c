/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that reads the data connections. They have an epoll set of their own, which lies in
 * the progress thread's set like a socket. A caller that waits for its commit takes it out and
 * attends to it itself. Data then wake only the thread that waits for them, and not the progress
 * thread first. Control links never change hands. Decides nothing about what is read. */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/epoll.h"
#include "base/error.h"
#include "base/hurry.h"
#include "base/time.h"
#include "base/wake.h"
#include "runtime/inside.h"

#define EVENTS 64
#define PORTION (1u << 20) /* before the progress thread may have the lock */
/* A caller that left is mostly back soon, with the next step. Until then arriving data wake no
 * thread: they can only belong to that step, and have to wait for it. */
#define GRACE_NS SPOTNIK_MS
/* members of this host on each of its processors that still look for what comes, in turn */
#define CROWD 2

int spotnik_data_poller_init(struct spotnik_runtime *runtime)
{
    struct spotnik_data_poller *data_poller = &runtime->data_poller;

    runtime->loop.data.fd = epoll_create1(EPOLL_CLOEXEC);
    data_poller->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    data_poller->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (runtime->loop.data.fd < 0 || data_poller->timer.fd < 0 || data_poller->wake.fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot make epoll, timerfd or eventfd: %m");
    int rc = spotnik_socket_watch(&data_poller->timer, runtime->loop.epoll_fd,
                                  data_poller->timer.fd, SPOTNIK_SOCKET_TIMER);
    if (rc == 0)
        rc = spotnik_socket_watch(&data_poller->wake, runtime->loop.data.fd, data_poller->wake.fd,
                                  SPOTNIK_SOCKET_CHANGED);
    return rc != 0 ? rc
                   : spotnik_socket_watch(&runtime->loop.data, runtime->loop.epoll_fd,
                                          runtime->loop.data.fd, SPOTNIK_SOCKET_DATA);
}

void spotnik_data_poller_free(struct spotnik_runtime *runtime)
{
    int fd[] = { runtime->loop.data.fd, runtime->data_poller.timer.fd,
                 runtime->data_poller.wake.fd };
    for (unsigned i = 0; i < 3; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

/* A new view. Polling takes a processor, which other members of this host may need. Where they
 * outnumber the processors, the caller yields to them between any two looks. That keeps processors
 * from halting, which costs more than all else (N = 4 on two processors, 4 KiB: 46 us in place of
 * 75). */
void spotnik_data_poller_view(struct spotnik_runtime *runtime)
{
    const struct spotnik_view *view = spotnik_core_view(runtime->core);
    uint64_t host = runtime->config.credentials.self.host;
    long processors = sysconf(_SC_NPROCESSORS_ONLN), here = 0;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        if (spotnik_id_equal(view->entry[rank].member.id, runtime->config.credentials.self.id))
            runtime->data_poller.place = (uint32_t)here;
        here += view->entry[rank].member.host == host;
    }
    spotnik_spin_init(&runtime->data_poller.spin, here <= CROWD * processors);
    runtime->data_poller.yields = here > processors;
}

void spotnik_data_poller_collect(struct spotnik_runtime *runtime)
{
    struct epoll_event event[EVENTS];
    int count;
    do {
        count = epoll_wait(runtime->loop.data.fd, event, EVENTS, 0);
        for (int i = 0; i < count; i++)
            spotnik_data_poller_mark(runtime, &event[i]);
    } while (count == EVENTS);
    if (count < 0)
        spotnik_descriptor_check(errno);
}

static void timer_set(struct spotnik_data_poller *data_poller, uint64_t ns)
{
    struct itimerspec idle_delay = { .it_value.tv_nsec = (long)ns };
    data_poller->armed = timerfd_settime(data_poller->timer.fd, 0, &idle_delay, NULL) == 0;
    if (!data_poller->armed)
        spotnik_descriptor_check(errno);
}

/* The timer is left alone when it runs: setting it anew in every step cost 2 to 6 us of 13 to
 * 29. */
static void idle_delay_begin(struct spotnik_runtime *runtime)
{
    runtime->data_poller.left_ns = spotnik_clock_ns();
    if (!runtime->data_poller.armed)
        timer_set(&runtime->data_poller, GRACE_NS);
}

/* The grace is over, or the caller has put in more than it should wait for: the progress thread
 * reads. */
void spotnik_data_poller_resume(struct spotnik_runtime *runtime)
{
    struct spotnik_data_poller *data_poller = &runtime->data_poller;

    if (data_poller->caller || !data_poller->apart)
        return;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &runtime->loop.data };
    data_poller->apart =
        epoll_ctl(runtime->loop.epoll_fd, EPOLL_CTL_ADD, runtime->loop.data.fd, &event) != 0;
    if (data_poller->apart)
        idle_delay_begin(runtime); /* the kernel has no memory for it: again in a moment */
}

void spotnik_data_poller_expired(struct spotnik_runtime *runtime)
{
    struct spotnik_data_poller *data_poller = &runtime->data_poller;
    spotnik_wake_take(data_poller->timer.fd);
    if (!data_poller->armed)
        return;
    uint64_t gone_ns = spotnik_time_since(spotnik_clock_ns(), data_poller->left_ns);
    data_poller->armed = false;
    if (data_poller->caller)
        return;
    if (gone_ns < GRACE_NS) /* it has been back meanwhile */
        timer_set(data_poller, GRACE_NS - gone_ns);
    else
        spotnik_data_poller_resume(runtime);
}

/* An event of either set, under the lock. */
void spotnik_data_poller_mark(struct spotnik_runtime *runtime, const struct epoll_event *event)
{
    struct spotnik_socket *socket = event->data.ptr;
    if (socket->fd < 0)
        return; /* closed since */
    if (socket->kind == SPOTNIK_SOCKET_DATA) {
        if (!runtime->data_poller.caller)
            spotnik_data_poller_collect(runtime);
        return;
    }
    if (socket->kind == SPOTNIK_SOCKET_CHANGED) {
        spotnik_wake_take(socket->fd);
        return;
    }
    if (socket->kind == SPOTNIK_SOCKET_TIMER) {
        spotnik_data_poller_expired(runtime);
        return;
    }
    if (socket->kind == SPOTNIK_SOCKET_WAKE) {
        spotnik_wake_take(socket->fd);
        runtime->loop.kicked = false;
        return;
    }
    socket->readable |= (event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    socket->ending |= (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    socket->writable |= (event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static void take(struct spotnik_runtime *runtime)
{
    struct spotnik_data_poller *data_poller = &runtime->data_poller;

    data_poller->caller = true;
    if (!data_poller->apart
        && epoll_ctl(runtime->loop.epoll_fd, EPOLL_CTL_DEL, runtime->loop.data.fd, NULL) == 0)
        data_poller->apart = true;
}

void spotnik_data_poller_leave(struct spotnik_runtime *runtime)
{
    if (!runtime->data_poller.caller)
        return;
    runtime->data_poller.caller = false;
    if (spotnik_transport_is_empty(runtime->transport))
        idle_delay_begin(runtime);
    else
        spotnik_data_poller_resume(runtime);
}

/* Something else happened that the caller waits for. */
void spotnik_data_poller_changed(struct spotnik_runtime *runtime)
{
    if (!runtime->data_poller.sleeping)
        return;
    runtime->data_poller.sleeping = false;
    spotnik_wake(runtime->data_poller.wake.fd);
}

/* Without the lock. Returns how many events there are, or minus an errno; *ret_enough: looking was
 * enough. What they name is not freed as long as a caller attends (spotnik_progress_main()). */
static int look_and_sleep(int fd, struct epoll_event *event, uint64_t spin_ns, bool yields,
                          uint64_t until_ns, bool *ret_enough)
{
    uint64_t begin_ns = spotnik_clock_ns(), now_ns = begin_ns;
    int count = 0;

    while (spin_ns > 0 && now_ns - begin_ns < spin_ns) {
        count = epoll_wait(fd, event, EVENTS, 0);
        if (count > 0)
            break;
        if (yields)
            sched_yield();
        now_ns = spotnik_clock_ns();
    }
    *ret_enough = count > 0;
    if (count > 0)
        return count;
    count = spotnik_epoll_wait(fd, event, EVENTS, spotnik_time_since(until_ns, now_ns));
    return count < 0 ? -errno : count;
}

static void await(struct spotnik_runtime *runtime, uint64_t until_ns)
{
    struct spotnik_data_poller *data_poller = &runtime->data_poller;
    struct epoll_event event[EVENTS];
    uint64_t spin_ns = spotnik_spin_choose(&data_poller->spin), begin_ns = spotnik_clock_ns();
    bool enough, yields = data_poller->yields;

    data_poller->sleeping = true;
    spotnik_runtime_unlock(runtime);
    int count = look_and_sleep(runtime->loop.data.fd, event, spin_ns, yields, until_ns, &enough);
    spotnik_runtime_lock(runtime);
    data_poller->sleeping = false;
    for (int i = 0; i < count; i++)
        spotnik_data_poller_mark(runtime, &event[i]);
    if (count < 0)
        spotnik_descriptor_check(-count);
    if (spotnik_spin_learn(&data_poller->spin, spin_ns, spotnik_clock_ns() - begin_ns, enough))
        spotnik_thread_spread(data_poller->place);
}

/* One round on behalf of the caller: take what has come, send what may go, and sleep when there was
 * nothing. */
void spotnik_data_poller(struct spotnik_runtime *runtime, uint64_t until_ns)
{
    uint64_t committed = runtime->stand.committed;

    if (!runtime->data_poller.caller) {
        take(runtime);
        spotnik_data_poller_collect(runtime);
    }
    bool more = spotnik_transport_read(runtime->transport, PORTION);
    more |= spotnik_transport_pump(runtime->transport, PORTION);
    if (spotnik_transport_wants_a_look(runtime->transport))
        spotnik_runtime_kick(runtime);
    if (runtime->stand.committed != committed) {
        if (more) /* the socket takes more, and will not say so again */
            spotnik_runtime_kick(runtime);
        return;
    }
    if (!more && !spotnik_transport_early(runtime->transport)) {
        await(runtime, until_ns);
        return;
    }
    if (!more)
        spotnik_data_poller_collect(runtime);
    spotnik_runtime_unlock(runtime); /* the progress thread may have something to say */
    spotnik_runtime_lock(runtime);
}
