/* SPDX-License-Identifier: Apache-2.0 */
/* Signals of helpers of a member: processes that it has made, and that it ends itself. Slurm and
 * systemd signal every process. A helper that ended then would take the member's step with it:
 * PyTorch's loader raises an error when a worker is killed. */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "spotnik/spotnik.h"

static struct sigaction before; /* what SIGTERM did */

static void do_as_before(int number, siginfo_t *info, void *context)
{
    if (before.sa_flags & SA_SIGINFO) {
        before.sa_sigaction(number, info, context);
    } else if (before.sa_handler == SIG_DFL) {
        signal(number, SIG_DFL);
        raise(number); /* when this handler has returned */
    } else if (before.sa_handler != SIG_IGN) {
        before.sa_handler(number);
    }
}

static void on_term(int number, siginfo_t *info, void *context)
{
    int saved = errno;

    if (info->si_pid == getppid())
        do_as_before(number, info, context);
    errno = saved;
}

static void on_user(int number)
{
    (void)number; /* not SIG_IGN: programs that it executes would inherit that */
}

void spotnik_helper_shield(void)
{
    struct sigaction now, term = { .sa_sigaction = on_term, .sa_flags = SA_RESTART | SA_SIGINFO };
    struct sigaction user = { .sa_handler = on_user, .sa_flags = SA_RESTART };

    if (!sigaction(SIGTERM, NULL, &now)
        && !((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_term)) {
        before = now;
        sigaction(SIGTERM, &term, NULL);
    }
    if (!sigaction(SIGUSR1, NULL, &now) && now.sa_handler == SIG_DFL)
        sigaction(SIGUSR1, &user, NULL);
}
