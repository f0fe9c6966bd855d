/* SPDX-License-Identifier: Apache-2.0 */
/* The worker's end of a kill point: which act is which phase, and the end at it. And a pulse:
 * whether the machine lets this process run. */
#include "armed.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "runtime/probe.h"

#define PULSE_NS (20 * SPOTNIK_MS)
#define UNIT_NS (100 * SPOTNIK_MS) /* of what is told */

static int events_fd;
static int aim;       /* atomic: set by a signal, read where the protocol runs */
static bool new_view; /* no data have come in this view */

static void tell(const char *what, int value)
{
    char line[16];
    int length = 0;

    while (*what)
        line[length++] = *what++;
    if (value >= 10)
        line[length++] = (char)('0' + value / 10);
    line[length++] = (char)('0' + value % 10);
    line[length++] = '\n';
    if (write(events_fd, line, (size_t)length) != length)
        _exit(3); /* nobody listens any more */
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)number;
    (void)context;
    __atomic_store_n(&aim, info->si_value.sival_int, __ATOMIC_SEQ_CST);
    tell("aim ", info->si_value.sival_int);
}

static int phase_of_message(enum spotnik_message_kind kind)
{
    switch (kind) {
    case SPOTNIK_MESSAGE_PREPARE:
        return ARMED_RECONCILE;
    case SPOTNIK_MESSAGE_ACCEPT:
        return ARMED_ACCEPT;
    case SPOTNIK_MESSAGE_RESTART:
        return ARMED_RESTART;
    case SPOTNIK_MESSAGE_FENCED:
        return ARMED_FENCED;
    default:
        return -1;
    }
}

static int phase_of_action(const struct spotnik_action *action)
{
    switch (action->kind) {
    case SPOTNIK_ACTION_FROZEN:
        return ARMED_FROZEN;
    case SPOTNIK_ACTION_SEND:
        return phase_of_message(action->send.message->kind);
    case SPOTNIK_ACTION_VIEW:
        return ARMED_VIEW;
    case SPOTNIK_ACTION_STEP_BEGUN:
        return ARMED_BEGUN;
    case SPOTNIK_ACTION_COMMITTED:
        return ARMED_COMMITTED;
    default:
        return -1;
    }
}

static int phase_of_event(const struct spotnik_event *event, bool done)
{
    if (event->kind != SPOTNIK_EVENT_CHUNK_DONE || !new_view)
        return -1;
    new_view = !done;
    return ARMED_DATA;
}

static void look(const struct spotnik_event *event, const struct spotnik_action *action, bool done)
{
    int phase = event ? phase_of_event(event, done) : phase_of_action(action);

    new_view |= phase == ARMED_VIEW;
    if (phase < 0
        || armed_aim((enum armed_phase)phase, done) != __atomic_load_n(&aim, __ATOMIC_SEQ_CST))
        return;
    tell("dies ", armed_aim((enum armed_phase)phase, done));
    kill(getpid(), SIGKILL);
    abort(); /* not reached */
}

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SPOTNIK_S + (uint64_t)now.tv_nsec;
}

/* A thread that wants nothing but to be woken every few milliseconds, and tells when it was not for
 * long. It has no part in the protocol: what it sees is the machine. */
static void *feel_pulse(void *context)
{
    const struct timespec pause = { .tv_nsec = PULSE_NS };

    for (uint64_t last_ns = now_ns();;) {
        nanosleep(&pause, NULL);
        uint64_t gap_ns = now_ns() - last_ns;

        last_ns += gap_ns;
        if (gap_ns >= ARMED_STARVED * UNIT_NS)
            tell("starved ", gap_ns / UNIT_NS < 99 ? (int)(gap_ns / UNIT_NS) : 99);
    }
    return context;
}

void armed_obey(int events)
{
    struct sigaction action = { .sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART };
    sigset_t all, before;
    pthread_t pulse;

    events_fd = events;
    spotnik_net_probe = look;
    sigaction(SIGUSR1, &action, NULL);
    /* signals are for the thread that holds the job: the handlers read what it writes */
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    if (pthread_create(&pulse, NULL, feel_pulse, NULL) == 0)
        pthread_detach(pulse);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
