/* SPDX-License-Identifier: Apache-2.0 */
/* A command that prints hosts. See run_hosts.h. */
#include "run_hosts.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "run_line.h"

#define COMMAND_S 30 /* for a command that prints hosts; trouble() has it in words */

enum hosts { HOSTS_WRITTEN, HOSTS_FAILED, HOSTS_NONE, HOSTS_NO_COMMAND };

/* Hosts as a file of hosts has them (discovery/dns.h). Unless it is written, the file stays as it
 * was: the command failed, or names no host. */
static enum hosts hosts_write(const char *command, const char *path)
{
    char line[512], word[512], temporary[300];
    uint32_t count = 0;

    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    int fd = mkostemp(temporary, O_CLOEXEC); /* others may write there, and plant links */
    FILE *pipe = popen(command, "re"), *file = fd < 0 ? NULL : fdopen(fd, "w");
    while (pipe && file && fgets(line, sizeof(line), pipe)) {
        count += sscanf(line, " %511s", word) == 1 && word[0] != '#';
        fputs(line, file);
    }
    int status = pipe ? pclose(pipe) : -1;
    bool fine = status == 0;
    if (!file || fclose(file) != 0)
        fine = false;
    if (fine && count > 0 && rename(temporary, path) == 0)
        return HOSTS_WRITTEN;
    if (fd >= 0)
        unlink(temporary);
    if (status > 0 && WIFEXITED(status) && WEXITSTATUS(status) >= 126)
        return HOSTS_NO_COMMAND;
    return fine && count == 0 ? HOSTS_NONE : HOSTS_FAILED;
}

/* hosts_write() in a process of its own, with all that the command starts: one that hangs is ended
 * after COMMAND_S, and with us. `set` has SIGCHLD and SIGTERM, which are blocked. Returns the
 * signal that came, or -1: none in time. */
static int hosts_write_within(const char *command, const char *path, const sigset_t *set,
                              enum hosts *ret_hosts)
{
    static const struct timespec patience = { .tv_sec = COMMAND_S };
    int status = -1, got;
    sigset_t none;

    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        _exit((int)hosts_write(command, path));
    }
    do
        got = pid > 0 ? sigtimedwait(set, NULL, &patience) : -1;
    while (got < 0 && pid > 0 && errno == EINTR);
    if (pid > 0 && got != SIGCHLD)
        kill(-pid, SIGKILL);
    bool ended = pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status);
    *ret_hosts = ended ? (enum hosts)WEXITSTATUS(status) : HOSTS_FAILED;
    return got;
}

/* Before the command is asked again. False: SIGTERM came, which is blocked. */
static bool hosts_pause(void)
{
    static const struct timespec pause = { .tv_sec = 5 };
    sigset_t end;

    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    return sigtimedwait(&end, NULL, &pause) != SIGTERM;
}

/* Until the agent ends. */
static void hosts_keep(const char *command, const char *path, const sigset_t *set)
{
    enum hosts hosts;

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    while (hosts_pause() && hosts_write_within(command, path, set, &hosts) != SIGTERM)
        continue;
    unlink(path);
    _exit(0);
}

static void tell(const char *command, const char *what)
{
    char text[1024];

    snprintf(text, sizeof(text), "exec:%.900s %s; asking again every 5 s", command, what);
    run_line_say(NULL, text);
}

static const char *trouble(int got, enum hosts hosts)
{
    if (got < 0)
        return "has not ended within 30 s";
    return hosts == HOSTS_NONE ? "names no host yet" : "failed";
}

/* Until the command names a host: the first machines of a cloud may be on their way, and its API
 * may fail for a while. Only a command that the shell cannot run never will. Returns as
 * hosts_write_within() does. */
static int hosts_await(const char *command, const char *path, const sigset_t *set,
                       enum hosts *ret_hosts)
{
    const char *told = "";

    for (;;) {
        int got = hosts_write_within(command, path, set, ret_hosts);

        if (got == SIGTERM || *ret_hosts == HOSTS_WRITTEN || *ret_hosts == HOSTS_NO_COMMAND)
            return got;
        if (told != trouble(got, *ret_hosts))
            tell(command, told = trouble(got, *ret_hosts));
        if (!hosts_pause())
            return SIGTERM;
    }
}

/* The first time, in the agent itself, whose signals are as they were afterwards. */
bool run_hosts_begin(const char *command, const char *path)
{
    sigset_t set, before;
    enum hosts hosts;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, &before);
    int got = hosts_await(command, path, &set, &hosts);
    if (hosts == HOSTS_WRITTEN && fork() == 0)
        hosts_keep(command, path, &set);
    if (hosts != HOSTS_WRITTEN)
        unlink(path);
    if (got == SIGTERM)
        raise(SIGTERM); /* when it is let in again */
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (hosts == HOSTS_NO_COMMAND)
        fprintf(stderr, "spotnik run: exec:%s cannot be run; it must print a host on each line\n",
                command);
    return hosts == HOSTS_WRITTEN;
}
