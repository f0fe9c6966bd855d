/* SPDX-License-Identifier: Apache-2.0 */
#include "processes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

void group_name(char name[64])
{
    static unsigned count;

    snprintf(name, 64, "test-%d-%u", (int)getpid(), count++);
}

pid_t process_start(int (*run)(void *context, uint32_t rank), void *context, uint32_t rank)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(run(context, rank));
    }
    assert_true(pid > 0);
    return pid;
}

int process_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}
