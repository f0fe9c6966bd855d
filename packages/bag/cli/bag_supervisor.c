/* SPDX-License-Identifier: Apache-2.0 */
/* The supervisor: a process between a worker and the program it runs. It leads the program's
 * process group. When the worker is killed, the kernel signals the supervisor, which kills the
 * whole group. Else ranks of an MPI job, or processes of a script, would go on computing for no
 * worker. When the supervisor itself is killed, the kernel kills the program. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bag_run.h"

#define ORPHAN SIGUSR2 /* what the kernel sends when the worker is dead */

static void output_open(const char *log)
{
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600),
        null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0
        || dup2(fd, STDERR_FILENO) < 0)
        _exit(125);
}

static void become_program(char *const *command, pid_t supervisor)
{
    sigset_t none;
    sigemptyset(&none);
    signal(SIGIO, SIG_DFL);
    signal(SIGPIPE, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != supervisor)
        _exit(125);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execvp(command[0], command);
    dprintf(STDERR_FILENO, "spotnik bag: cannot run %s: %s\n", command[0], strerror(errno));
    _exit(errno == ENOENT ? 127 : 126);
}

static void end_like(int status)
{
    if (WIFSIGNALED(status)) {
        sigset_t none;
        sigemptyset(&none);
        prctl(PR_SET_DUMPABLE, 0);
        signal(WTERMSIG(status), SIG_DFL);
        sigprocmask(SIG_SETMASK, &none, NULL);
        raise(WTERMSIG(status));
    }
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 125);
}

static void supervisor(pid_t worker, pid_t program)
{
    sigset_t all;
    int number, status;
    sigfillset(&all);
    for (;;) {
        if (getppid() != worker)
            kill(0, SIGKILL);
        if (waitpid(program, &status, WNOHANG) == program)
            end_like(status);
        sigwait(&all, &number);
    }
}

static void become_supervisor(char *const *command, const char *directory, const char *log,
                              const char *const *environment, pid_t worker)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, ORPHAN);
    for (; *environment != NULL; environment += 2)
        setenv(environment[0], environment[1], 1);
    output_open(log);
    if (chdir(directory) != 0)
        _exit(125);
    pid_t own = getpid(), program = fork();
    if (program == 0)
        become_program(command, own);
    if (program < 0)
        _exit(125);
    supervisor(worker, program);
}

pid_t bag_supervisor_start(char *const *command, const char *directory, const char *log,
                           const char *const *environment)
{
    pid_t own = getpid(), pid = fork();
    if (pid == 0)
        become_supervisor(command, directory, log, environment, own);
    if (pid > 0)
        setpgid(pid, pid); /* in both, so that nobody can be early */
    return pid > 0 ? pid : -errno;
}
