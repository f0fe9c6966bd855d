/* SPDX-License-Identifier: Apache-2.0 */
/* SIGTERM as a notice, for a member that spotnik run started. Slurm and systemd signal every
 * process of a step or a unit. They reach not only the agent, which would ask the member to leave,
 * but also the member itself, which would die within its step. A program with a handler of its own,
 * or without an agent, is left alone. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/job.h"

static struct spotnik_job *noticed; /* atomic; the one job of this process that the signal is for */
/* that asked for the handler; a child may hear before it knows that it is one */
static pid_t owner;
static uint32_t inside; /* handlers that may have read `noticed` */
/* this job has had a signal: Slurm sends three, and its goodbye may take longer */
static bool told;

/* The agent has asked in another way before it signals: then it insists. */
static bool insists(const siginfo_t *info, const struct spotnik_job *job)
{
    bool asked = job ? spotnik_job_is_noticed(job) : __atomic_load_n(&told, __ATOMIC_SEQ_CST);

    return info->si_pid == getppid() && asked;
}

/* A child made by fork() is no member: it ends, as by default. Its parent may be waiting for just
 * that. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    int saved = errno;
    __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    struct spotnik_job *job = __atomic_load_n(&noticed, __ATOMIC_SEQ_CST);
    bool is_ours = owner == getpid() && (job || __atomic_load_n(&told, __ATOMIC_SEQ_CST))
                   && !insists(info, job);

    (void)context;
    if (is_ours && job) {
        spotnik_notice(job);
        __atomic_store_n(&told, true, __ATOMIC_SEQ_CST);
    }
    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
    if (!is_ours) {
        signal(number, SIG_DFL);
        raise(number); /* when this handler has returned */
    }
    errno = saved;
}

void spotnik_job_signal_open(struct spotnik_job *job)
{
    struct sigaction now, ours = { .sa_sigaction = on_signal, .sa_flags = SA_RESTART | SA_SIGINFO };
    struct spotnik_job *none = NULL;

    if (!getenv("SPOTNIK_SLOT") || sigaction(SIGTERM, NULL, &now)
        || (now.sa_handler != SIG_DFL && now.sa_sigaction != on_signal)
        || __atomic_load_n(&noticed, __ATOMIC_SEQ_CST))
        return;
    __atomic_store_n(&told, false, __ATOMIC_SEQ_CST);
    owner = getpid();
    if (__atomic_compare_exchange_n(&noticed, &none, job, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST))
        sigaction(SIGTERM, &ours, NULL);
}

/* The handler stays: from now on it does what the default action does, or nothing while the job
 * that it told says goodbye. */
void spotnik_job_signal_close(struct spotnik_job *job)
{
    struct spotnik_job *expected = job;

    if (!__atomic_compare_exchange_n(&noticed, &expected, NULL, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return;
    while (__atomic_load_n(&inside, __ATOMIC_SEQ_CST))
        sched_yield(); /* another thread's handler still looks at the job */
}
