/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the progress thread. The order within a pass is what keeps evidence sound: first
 * everything that peers have said, then what certificates say of them, then time. Megabytes come
 * last and in portions. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/epoll.h"
#include "base/hurry.h"
#include "base/time.h"
#include "runtime/inside.h"

#define EVENTS 64
#define PORTION (1u << 20) /* of data, before control links get their turn again */
#define SLEEP_MAX_NS SPOTNIK_S
/* rounds: a peer that never stops talking must not stop time */
#define HEAR_MAX 64
#define GOODBYE_NS (300 * SPOTNIK_MS) /* patience for peers to read our GOODBYE */

/* What is ready now, without sleeping; under the lock. */
static void poll_now(struct spotnik_runtime *runtime)
{
    struct epoll_event event[EVENTS];
    int count;
    do {
        count = epoll_wait(runtime->loop.epoll_fd, event, EVENTS, 0);
        for (int i = 0; i < count; i++)
            spotnik_data_poller_mark(runtime, &event[i]);
    } while (count == EVENTS);
    if (count < 0)
        spotnik_descriptor_check(errno);
}

/* Not while the caller reads data: it may have events in its hands that name them. */
static void free_deferred(struct spotnik_runtime *runtime)
{
    if (runtime->data_poller.caller)
        return;
    spotnik_loop_deferred_free(&runtime->loop);
}

/* Until something happens or `until_ns`. Gives up the lock meanwhile. */
static void rest(struct spotnik_runtime *runtime, uint64_t until_ns)
{
    struct epoll_event event[EVENTS];
    uint64_t now_ns = spotnik_clock_ns();
    uint64_t wait_ns = spotnik_time_since(until_ns, now_ns);
    if (wait_ns > SLEEP_MAX_NS)
        wait_ns = SLEEP_MAX_NS;
    free_deferred(runtime);
    spotnik_runtime_watch_neighbours(runtime);
    runtime->loop.wake_ns = spotnik_time_add(now_ns, wait_ns);
    struct spotnik_socket *listener = spotnik_acceptor_socket(runtime->links);
    spotnik_runtime_unlock(runtime);
    int count = spotnik_epoll_wait(runtime->loop.epoll_fd, event, EVENTS, wait_ns);
    if (count < 0)
        spotnik_descriptor_check(errno);
    for (int i = 0; i < count; i++)
        listener->readable |= event[i].data.ptr == listener;
    if (spotnik_acceptor_is_due(runtime->links))
        spotnik_acceptor_collect(runtime->links);
    spotnik_runtime_lock(runtime);
    runtime->loop.wake_ns = 0;
    runtime->loop.kicked = false;
    for (int i = 0; i < count; i++)
        spotnik_data_poller_mark(runtime, &event[i]);
}

/* All that peers have said so far. */
static void hear(struct spotnik_runtime *runtime)
{
    bool more = true;
    for (int i = 0; more && i < HEAR_MAX; i++) {
        if (i == 0) { /* in turns: unauthenticated peers come as fast as they are let in */
            spotnik_acceptor_open(runtime->links, spotnik_core_view(runtime->core));
            spotnik_transport_accept(runtime->transport);
        }
        more = spotnik_links_read(runtime->links);
        spotnik_pending_list_run(runtime->links, spotnik_clock_ns());
    }
}

/* What the dead had sent is read before its certificate counts; yet some of it may still be on its
 * way. So the certificate says how far that member had gone, and the core compares. A member that
 * had voted for no view after ours cannot have fenced us. */
static void deaths(struct spotnik_runtime *runtime)
{
    struct spotnik_id peer;
    uint64_t epoch;
    while (spotnik_death_take(runtime->death, &peer, &epoch)) {
        poll_now(runtime);
        hear(runtime);
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_DEATH,
                                       .death = { .peer.id = peer, .epoch = epoch } };
        spotnik_runtime_dispatch(runtime, &event);
    }
}

static void notice_look(struct spotnik_runtime *runtime)
{
    if (spotnik_death_leave_requested(runtime->death))
        __atomic_store_n(&runtime->noticed, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&runtime->noticed, __ATOMIC_SEQ_CST) != 0)
        spotnik_runtime_changed(runtime);
}

/* If we are late, we were stopped or starved: what waits in the sockets comes before any judgement
 * about silence. */
static void tick(struct spotnik_runtime *runtime)
{
    if (spotnik_clock_ns() < spotnik_core_deadline(runtime->core))
        return;
    poll_now(runtime);
    hear(runtime);
    spotnik_links_ask(runtime->links, runtime->core);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_TICK };
    spotnik_runtime_dispatch(runtime, &event);
}

/* A caller that attends moves data itself; two threads that take turns at it only wait for each
 * other. What has happened here may have made something ready for it. True: there is more to do at
 * once. */
static bool data_move(struct spotnik_runtime *runtime)
{
    if (runtime->data_poller.caller && !spotnik_transport_is_busy(runtime->transport)) {
        if (runtime->stand.placeable)
            spotnik_data_poller_changed(runtime);
        return false;
    }
    bool more = spotnik_transport_read(runtime->transport, PORTION);
    return spotnik_transport_pump(runtime->transport, PORTION) || more;
}

/* The clock that everything else goes by stands still while the host is suspended: of that time
 * only the kernel's other clock tells. */
static void suspension_look(struct spotnik_runtime *runtime)
{
    uint64_t boot_ns = spotnik_clock_boot_ns(),
             asleep_ns = spotnik_time_since(boot_ns, spotnik_clock_ns());
    uint64_t more_ns = spotnik_time_since(asleep_ns, runtime->asleep_ns);

    /* read in this order, and kept at its most, it is never too long */
    runtime->asleep_ns += more_ns;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WOKEN };
    if (more_ns >= runtime->config.limits.silence_floor_ns / 2)
        spotnik_runtime_dispatch(runtime, &event);
}

/* True: there is more to do at once. */
static bool pass(struct spotnik_runtime *runtime)
{
    suspension_look(runtime);
    hear(runtime);
    deaths(runtime);
    notice_look(runtime);
    tick(runtime);
    bool more = data_move(runtime);
    uint64_t now_ns = spotnik_clock_ns();
    spotnik_transport_look(runtime->transport, now_ns);
    spotnik_links_flush(runtime->links, now_ns);
    if (spotnik_pending_list_has_services(runtime->links)) {
        spotnik_runtime_unlock(runtime);
        spotnik_pending_list_serve(runtime->links);
        spotnik_runtime_lock(runtime);
    }
    return more;
}

static uint64_t due(const struct spotnik_runtime *runtime)
{
    uint64_t due_ns = spotnik_time_min(spotnik_core_deadline(runtime->core),
                                       spotnik_pending_list_deadline(runtime->links));
    due_ns = spotnik_time_min(due_ns, spotnik_links_deadline(runtime->links));
    return spotnik_time_min(due_ns, spotnik_transport_deadline(runtime->transport));
}

/* Leave in good order: GOODBYE on every link, and a moment for the kernel to take it. */
static void say_goodbye(struct spotnik_runtime *runtime)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), GOODBYE_NS);
    spotnik_links_retire(runtime->links,
                         runtime->left ? SPOTNIK_GOODBYE_LEAVING : SPOTNIK_GOODBYE_OVER);
    for (;;) {
        uint64_t now_ns = spotnik_clock_ns();
        spotnik_links_read(runtime->links);
        spotnik_links_flush(runtime->links, now_ns);
        if (spotnik_links_are_gone(runtime->links) || now_ns >= until_ns)
            return;
        rest(runtime, until_ns);
    }
}

void *spotnik_progress_main(void *context)
{
    struct spotnik_runtime *runtime = context;
    spotnik_thread_hurry();
    spotnik_runtime_lock(runtime);
    spotnik_death_sign(runtime->death, runtime->config.credentials.self.id);
    runtime->thread_started = true;
    spotnik_runtime_changed(runtime);
    while (!runtime->stopping) {
        bool more = pass(runtime);
        if (!runtime->stopping)
            rest(runtime, more ? 0 : due(runtime));
    }
    spotnik_pending_list_cancel(runtime->links);
    if (!runtime->abrupt)
        say_goodbye(runtime);
    spotnik_runtime_unlock(runtime);
    spotnik_death_unsign(runtime->death);
    return NULL;
}
