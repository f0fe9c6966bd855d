/* SPDX-License-Identifier: Apache-2.0 */
#include "group/notice_signal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "group/futex_word.h"

static struct spotnik_group_control *noticed; /* atomic; of the one group the signal is for */
static pid_t owner;     /* that asked for the handler; a child made by fork() inherits it */
static uint32_t inside; /* handlers that may have read `noticed` */

/* The agent asks through the leader before it signals the processes: then it insists. */
static bool insists(const siginfo_t *info, const struct spotnik_group_control *control)
{
    return info->si_pid == getppid() && __atomic_load_n(&control->noticed, __ATOMIC_SEQ_CST) != 0;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    struct spotnik_group_control *control = __atomic_load_n(&noticed, __ATOMIC_SEQ_CST);
    bool is_ours = control != NULL && owner == getpid() && !insists(info, control);

    (void)context;
    if (is_ours) {
        __atomic_store_n(&control->noticed, 1, __ATOMIC_SEQ_CST);
        spotnik_futex_word_wake(&control->noticed);
    }
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (!is_ours) {
        signal(number, SIG_DFL);
        raise(number); /* when this handler has returned */
    }
    errno = saved;
}

void spotnik_notice_signal_open(struct spotnik_group_control *control)
{
    struct sigaction now, ours = { .sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO };

    if (getenv("SPOTNIK_SLOT") == NULL || sigaction(SIGTERM, NULL, &now) != 0
        || (now.sa_handler != SIG_DFL && now.sa_sigaction != on_signal))
        return;
    owner = getpid();
    __atomic_store_n(&noticed, control, __ATOMIC_SEQ_CST);
    sigaction(SIGTERM, &ours, NULL);
}

/* The handler stays: from now on it does what the default action does. */
void spotnik_notice_signal_close(struct spotnik_group_control *control)
{
    if (!__atomic_compare_exchange_n(&noticed, &control, NULL, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return;
    while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST) != 0)
        sched_yield(); /* another thread's handler still looks at the memory */
}
