/* SPDX-License-Identifier: Apache-2.0 */
/* The loop of the progress thread. The order within a pass is what keeps evidence sound: first
 * everything that peers have said, then what certificates say of them, then time. Megabytes come
 * last and in portions. */
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/hurry.h"
#include "base/time.h"
#include "engine/inside.h"

#define EVENTS 64
#define PORTION (1u << 20) /* of data, before control links get their turn again */
#define SLEEP_MAX_NS SPOTNIK_S
/* rounds: a peer that never stops talking must not stop time */
#define HEAR_MAX 64
#define GOODBYE_NS (300 * SPOTNIK_MS) /* patience for peers to read our GOODBYE */

/* What is ready now, without sleeping; under the lock. */
static void poll_now(struct spotnik_engine *engine)
{
    struct epoll_event event[EVENTS];
    int count;
    do {
        count = epoll_wait(engine->loop.epoll_fd, event, EVENTS, 0);
        for (int i = 0; i < count; i++)
            spotnik_attend_mark(engine, &event[i]);
    } while (count == EVENTS);
    if (count < 0)
        spotnik_descriptor_check(errno);
}

/* Not while the caller reads data: it may have events in its hands that name them. */
static void free_graves(struct spotnik_engine *engine)
{
    if (engine->attend.caller)
        return;
    spotnik_loop_graves_free(&engine->loop);
}

/* Until something happens or `until_ns`. Gives up the lock meanwhile. */
static void rest(struct spotnik_engine *engine, uint64_t until_ns)
{
    struct epoll_event event[EVENTS];
    uint64_t now_ns = spotnik_clock_ns();
    uint64_t wait_ns = spotnik_time_since(until_ns, now_ns);
    if (wait_ns > SLEEP_MAX_NS)
        wait_ns = SLEEP_MAX_NS;
    struct timespec wait = spotnik_clock_timespec(wait_ns);
    free_graves(engine);
    spotnik_engine_watch_neighbours(engine);
    engine->loop.wake_ns = spotnik_time_add(now_ns, wait_ns);
    struct spotnik_socket *listener = spotnik_door_socket(engine->links);
    spotnik_engine_unlock(engine);
    int count = epoll_pwait2(engine->loop.epoll_fd, event, EVENTS, &wait, NULL);
    if (count < 0 && errno == ENOSYS)
        count = epoll_wait(engine->loop.epoll_fd, event, EVENTS,
                           (int)((wait_ns + SPOTNIK_MS - 1) / SPOTNIK_MS));
    if (count < 0)
        spotnik_descriptor_check(errno);
    for (int i = 0; i < count; i++)
        listener->readable |= event[i].data.ptr == listener;
    if (spotnik_door_is_due(engine->links))
        spotnik_door_collect(engine->links);
    spotnik_engine_lock(engine);
    engine->loop.wake_ns = 0;
    engine->loop.kicked = false;
    for (int i = 0; i < count; i++)
        spotnik_attend_mark(engine, &event[i]);
}

/* All that peers have said so far. */
static void hear(struct spotnik_engine *engine)
{
    bool more = true;
    for (int i = 0; more && i < HEAR_MAX; i++) {
        if (i == 0) { /* in turns: strangers come as fast as they are let in */
            spotnik_door_open(engine->links, spotnik_core_view(engine->core));
            spotnik_carriage_accept(engine->carriage);
        }
        more = spotnik_links_read(engine->links);
        spotnik_openings_run(engine->links, spotnik_clock_ns());
    }
}

/* What the dead had sent is read before its certificate counts; yet some of it may still be on its
 * way. So the certificate says how far that member had gone, and the core compares. A member that
 * had voted for no view after ours cannot have fenced us. */
static void deaths(struct spotnik_engine *engine)
{
    struct spotnik_id peer;
    uint64_t epoch;
    while (spotnik_death_take(engine->death, &peer, &epoch)) {
        poll_now(engine);
        hear(engine);
        struct spotnik_event event = { .kind = SPOTNIK_EVENT_DEATH,
                                       .death = { .peer.id = peer, .epoch = epoch } };
        spotnik_engine_drive(engine, &event);
    }
}

static void notice_look(struct spotnik_engine *engine)
{
    if (spotnik_death_leave_requested(engine->death))
        __atomic_store_n(&engine->noticed, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&engine->noticed, __ATOMIC_SEQ_CST) != 0)
        spotnik_engine_changed(engine);
}

/* If we are late, we were stopped or starved: what waits in the sockets comes before any judgement
 * about silence. */
static void tick(struct spotnik_engine *engine)
{
    if (spotnik_clock_ns() < spotnik_core_deadline(engine->core))
        return;
    poll_now(engine);
    hear(engine);
    spotnik_links_ask(engine->links, engine->core);
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_TICK };
    spotnik_engine_drive(engine, &event);
}

/* A caller that attends moves data itself; two threads that take turns at it only wait for each
 * other. What has happened here may have made something ready for it. True: there is more to do at
 * once. */
static bool data_move(struct spotnik_engine *engine)
{
    if (engine->attend.caller && !spotnik_carriage_is_busy(engine->carriage)) {
        if (engine->stand.placeable)
            spotnik_attend_changed(engine);
        return false;
    }
    bool more = spotnik_carriage_read(engine->carriage, PORTION);
    return spotnik_carriage_pump(engine->carriage, PORTION) || more;
}

/* The clock that everything else goes by stands still while the host is suspended: of that time
 * only the kernel's other clock tells. */
static void suspension_look(struct spotnik_engine *engine)
{
    uint64_t boot_ns = spotnik_clock_boot_ns(),
             asleep_ns = spotnik_time_since(boot_ns, spotnik_clock_ns());
    uint64_t more_ns = spotnik_time_since(asleep_ns, engine->asleep_ns);

    /* read in this order, and kept at its most, it is never too long */
    engine->asleep_ns += more_ns;
    struct spotnik_event event = { .kind = SPOTNIK_EVENT_WOKEN };
    if (more_ns >= engine->config.limits.silence_floor_ns / 2)
        spotnik_engine_drive(engine, &event);
}

/* True: there is more to do at once. */
static bool pass(struct spotnik_engine *engine)
{
    suspension_look(engine);
    hear(engine);
    deaths(engine);
    notice_look(engine);
    tick(engine);
    bool more = data_move(engine);
    uint64_t now_ns = spotnik_clock_ns();
    spotnik_carriage_look(engine->carriage, now_ns);
    spotnik_links_flush(engine->links, now_ns);
    if (spotnik_openings_have_guests(engine->links)) {
        spotnik_engine_unlock(engine);
        spotnik_openings_serve(engine->links);
        spotnik_engine_lock(engine);
    }
    return more;
}

static uint64_t due(const struct spotnik_engine *engine)
{
    uint64_t due_ns = spotnik_time_min(spotnik_core_deadline(engine->core),
                                       spotnik_openings_deadline(engine->links));
    due_ns = spotnik_time_min(due_ns, spotnik_links_deadline(engine->links));
    return spotnik_time_min(due_ns, spotnik_carriage_deadline(engine->carriage));
}

/* Leave in good order: GOODBYE on every link, and a moment for the kernel to take it. */
static void say_goodbye(struct spotnik_engine *engine)
{
    uint64_t until_ns = spotnik_time_add(spotnik_clock_ns(), GOODBYE_NS);
    spotnik_links_retire(engine->links,
                         engine->left ? SPOTNIK_GOODBYE_LEAVING : SPOTNIK_GOODBYE_OVER);
    for (;;) {
        uint64_t now_ns = spotnik_clock_ns();
        spotnik_links_read(engine->links);
        spotnik_links_flush(engine->links, now_ns);
        if (spotnik_links_are_gone(engine->links) || now_ns >= until_ns)
            return;
        rest(engine, until_ns);
    }
}

void *spotnik_progress_main(void *context)
{
    struct spotnik_engine *engine = context;
    spotnik_thread_hurry();
    spotnik_engine_lock(engine);
    spotnik_death_sign(engine->death, engine->config.credentials.self.id);
    engine->thread_started = true;
    spotnik_engine_changed(engine);
    while (!engine->stopping) {
        bool more = pass(engine);
        if (!engine->stopping)
            rest(engine, more ? 0 : due(engine));
    }
    spotnik_openings_cancel(engine->links);
    if (!engine->abrupt)
        say_goodbye(engine);
    spotnik_engine_unlock(engine);
    spotnik_death_unsign(engine->death);
    return NULL;
}
