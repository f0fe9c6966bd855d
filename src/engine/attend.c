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
#include "base/error.h"
#include "base/hurry.h"
#include "base/time.h"
#include "base/wake.h"
#include "engine/inside.h"

#define EVENTS 64
#define PORTION (1u << 20) /* before the progress thread may have the lock */
/* A caller that has gone away is mostly back soon, with the next step. Until then nobody is woken
 * for data that come: they can only be of that step, and have to wait for it. */
#define GRACE_NS SPOTNIK_MS
/* members of this host on each of its processors that still look for what comes, in turn */
#define CROWD 2

int spotnik_attend_init(struct spotnik_engine *engine)
{
    struct spotnik_attend *attend = &engine->attend;

    engine->loop.data.fd = epoll_create1(EPOLL_CLOEXEC);
    attend->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    attend->wake.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (engine->loop.data.fd < 0 || attend->timer.fd < 0 || attend->wake.fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "cannot make epoll, timerfd or eventfd: %m");
    int rc = spotnik_socket_watch(&attend->timer, engine->loop.epoll_fd, attend->timer.fd,
                                  SPOTNIK_SOCKET_TIMER);
    if (rc == 0)
        rc = spotnik_socket_watch(&attend->wake, engine->loop.data.fd, attend->wake.fd,
                                  SPOTNIK_SOCKET_CHANGED);
    return rc != 0 ? rc
                   : spotnik_socket_watch(&engine->loop.data, engine->loop.epoll_fd,
                                          engine->loop.data.fd, SPOTNIK_SOCKET_DATA);
}

void spotnik_attend_free(struct spotnik_engine *engine)
{
    int fd[] = { engine->loop.data.fd, engine->attend.timer.fd, engine->attend.wake.fd };
    for (unsigned i = 0; i < 3; i++)
        if (fd[i] >= 0)
            close(fd[i]);
}

/* A new view. Polling takes a processor, which other members of this host may need. Where they
 * outnumber the processors, the caller yields to them between any two looks. That keeps processors
 * from halting, which costs more than all else (N = 4 on two processors, 4 KiB: 46 us in place of
 * 75). */
void spotnik_attend_view(struct spotnik_engine *engine)
{
    const struct spotnik_view *view = spotnik_core_view(engine->core);
    uint64_t host = engine->config.credentials.self.host;
    long processors = sysconf(_SC_NPROCESSORS_ONLN), here = 0;

    for (uint32_t rank = 0; rank < view->size; rank++) {
        if (spotnik_id_equal(view->entry[rank].member.id, engine->config.credentials.self.id))
            engine->attend.place = (uint32_t)here;
        here += view->entry[rank].member.host == host;
    }
    spotnik_spin_init(&engine->attend.spin, here <= CROWD * processors);
    engine->attend.yields = here > processors;
}

void spotnik_attend_collect(struct spotnik_engine *engine)
{
    struct epoll_event event[EVENTS];
    int count;
    do {
        count = epoll_wait(engine->loop.data.fd, event, EVENTS, 0);
        for (int i = 0; i < count; i++)
            spotnik_attend_mark(engine, &event[i]);
    } while (count == EVENTS);
    if (count < 0)
        spotnik_descriptor_check(errno);
}

static void timer_set(struct spotnik_attend *attend, uint64_t ns)
{
    struct itimerspec grace = { .it_value.tv_nsec = (long)ns };
    attend->armed = timerfd_settime(attend->timer.fd, 0, &grace, NULL) == 0;
    if (!attend->armed)
        spotnik_descriptor_check(errno);
}

/* The timer is left alone when it runs: setting it anew in every step cost 2 to 6 us of 13 to
 * 29. */
static void grace_begin(struct spotnik_engine *engine)
{
    engine->attend.left_ns = spotnik_clock_ns();
    if (!engine->attend.armed)
        timer_set(&engine->attend, GRACE_NS);
}

/* The grace is over, or the caller has put in more than it should wait for: the progress thread
 * reads. */
void spotnik_attend_resume(struct spotnik_engine *engine)
{
    struct spotnik_attend *attend = &engine->attend;

    if (attend->caller || !attend->apart)
        return;
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = &engine->loop.data };
    attend->apart =
        epoll_ctl(engine->loop.epoll_fd, EPOLL_CTL_ADD, engine->loop.data.fd, &event) != 0;
    if (attend->apart)
        grace_begin(engine); /* the kernel has no memory for it: again in a moment */
}

void spotnik_attend_expired(struct spotnik_engine *engine)
{
    struct spotnik_attend *attend = &engine->attend;
    spotnik_wake_take(attend->timer.fd);
    if (!attend->armed)
        return;
    uint64_t gone_ns = spotnik_time_since(spotnik_clock_ns(), attend->left_ns);
    attend->armed = false;
    if (attend->caller)
        return;
    if (gone_ns < GRACE_NS) /* it has been back meanwhile */
        timer_set(attend, GRACE_NS - gone_ns);
    else
        spotnik_attend_resume(engine);
}

/* An event of either set, under the lock. */
void spotnik_attend_mark(struct spotnik_engine *engine, const struct epoll_event *event)
{
    struct spotnik_socket *socket = event->data.ptr;
    if (socket->fd < 0)
        return; /* closed since */
    if (socket->kind == SPOTNIK_SOCKET_DATA) {
        if (!engine->attend.caller)
            spotnik_attend_collect(engine);
        return;
    }
    if (socket->kind == SPOTNIK_SOCKET_CHANGED) {
        spotnik_wake_take(socket->fd);
        return;
    }
    if (socket->kind == SPOTNIK_SOCKET_TIMER) {
        spotnik_attend_expired(engine);
        return;
    }
    if (socket->kind == SPOTNIK_SOCKET_WAKE) {
        spotnik_wake_take(socket->fd);
        engine->loop.kicked = false;
        return;
    }
    socket->readable |= (event->events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    socket->ending |= (event->events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) != 0;
    socket->writable |= (event->events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) != 0;
}

static void take(struct spotnik_engine *engine)
{
    struct spotnik_attend *attend = &engine->attend;

    attend->caller = true;
    if (!attend->apart
        && epoll_ctl(engine->loop.epoll_fd, EPOLL_CTL_DEL, engine->loop.data.fd, NULL) == 0)
        attend->apart = true;
}

void spotnik_attend_leave(struct spotnik_engine *engine)
{
    if (!engine->attend.caller)
        return;
    engine->attend.caller = false;
    if (spotnik_carriage_is_empty(engine->carriage))
        grace_begin(engine);
    else
        spotnik_attend_resume(engine);
}

/* Something else happened that the caller waits for. */
void spotnik_attend_changed(struct spotnik_engine *engine)
{
    if (!engine->attend.sleeping)
        return;
    engine->attend.sleeping = false;
    spotnik_wake(engine->attend.wake.fd);
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
    uint64_t wait_ns = spotnik_time_since(until_ns, now_ns);
    struct timespec wait = spotnik_clock_timespec(wait_ns);
    count = epoll_pwait2(fd, event, EVENTS, &wait, NULL);
    if (count < 0 && errno == ENOSYS)
        count = epoll_wait(fd, event, EVENTS, (int)((wait_ns + SPOTNIK_MS - 1) / SPOTNIK_MS));
    return count < 0 ? -errno : count;
}

static void await(struct spotnik_engine *engine, uint64_t until_ns)
{
    struct spotnik_attend *attend = &engine->attend;
    struct epoll_event event[EVENTS];
    uint64_t spin_ns = spotnik_spin_choose(&attend->spin), begin_ns = spotnik_clock_ns();
    bool enough, yields = attend->yields;

    attend->sleeping = true;
    spotnik_engine_unlock(engine);
    int count = look_and_sleep(engine->loop.data.fd, event, spin_ns, yields, until_ns, &enough);
    spotnik_engine_lock(engine);
    attend->sleeping = false;
    for (int i = 0; i < count; i++)
        spotnik_attend_mark(engine, &event[i]);
    if (count < 0)
        spotnik_descriptor_check(-count);
    if (spotnik_spin_learn(&attend->spin, spin_ns, spotnik_clock_ns() - begin_ns, enough))
        spotnik_thread_spread(attend->place);
}

/* One round on behalf of the caller: take what has come, send what may go, and sleep when there was
 * nothing. */
void spotnik_attend(struct spotnik_engine *engine, uint64_t until_ns)
{
    uint64_t committed = engine->stand.committed;

    if (!engine->attend.caller) {
        take(engine);
        spotnik_attend_collect(engine);
    }
    bool more = spotnik_carriage_read(engine->carriage, PORTION);
    more |= spotnik_carriage_pump(engine->carriage, PORTION);
    if (spotnik_carriage_wants_a_look(engine->carriage))
        spotnik_engine_kick(engine);
    if (engine->stand.committed != committed) {
        if (more) /* the socket takes more, and will not say so again */
            spotnik_engine_kick(engine);
        return;
    }
    if (!more && !spotnik_carriage_early(engine->carriage)) {
        await(engine, until_ns);
        return;
    }
    if (!more)
        spotnik_attend_collect(engine);
    spotnik_engine_unlock(engine); /* the progress thread may have something to say */
    spotnik_engine_lock(engine);
}
