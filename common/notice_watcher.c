/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher as a process of its own: whatever a metadata service does to it, the agent goes on.
 * See notice_watcher.h. */
#include "common/notice_watcher.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "common/sibling.h"

#define LATEST_MS (15 * 60 * 1000) /* deadlines beyond this are those of a clock that is wrong */

/* `failure` closes when the watcher runs; else it gets the error. */
static void become_watcher(const struct notice_watcher_options *options, int out, int failure)
{
    char *argv[2 * NOTICE_WATCHER_FROM + 4] = { "spotnik-notice", "--watch", "--json" };
    char path[PATH_MAX];
    sigset_t none;
    int argc = 3;

    for (uint32_t i = 0; i < options->count; i++) {
        argv[argc++] = "--from";
        argv[argc++] = (char *)(uintptr_t)options->from[i];
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0); /* Ctrl-C is for the agent */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    dup2(out, STDOUT_FILENO);
    sibling_command("spotnik-notice", path);
    execvp(path, argv);
    _exit(write(failure, &errno, sizeof(errno)) < 0 ? 126 : 127);
}

/* The process that runs spotnik-notice; -1 with errno where that is not possible. */
static pid_t watcher_spawn(const struct notice_watcher_options *options, int out)
{
    int failure[2], error = 0;

    if (pipe2(failure, O_CLOEXEC))
        return -1;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        become_watcher(options, out, failure[1]);
    close(failure[1]);
    while (pid > 0 && read(failure[0], &error, sizeof(error)) < 0 && errno == EINTR)
        continue;
    close(failure[0]);
    if (!error)
        return pid;
    waitpid(pid, NULL, 0);
    errno = error;
    return -1;
}

bool notice_watcher_start(struct notice_watcher *watcher,
                          const struct notice_watcher_options *options)
{
    int pipes[2];

    *watcher = (struct notice_watcher){ .options = options, .fd = -1, .back_ns = SPOTNIK_NEVER };
    if (!options->count)
        return true;
    if (pipe2(pipes, O_CLOEXEC))
        return false;
    pid_t pid = watcher_spawn(options, pipes[1]);
    close(pipes[1]);
    if (pid > 0) {
        watcher->pid = pid;
        watcher->fd = pipes[0];
        return fcntl(pipes[0], F_SETFL, O_NONBLOCK) == 0;
    }
    int error = errno;
    close(pipes[0]);
    errno = error;
    return false;
}

void notice_watcher_end(struct notice_watcher *watcher)
{
    struct notice notice;

    while (notice_watcher_next(watcher, &notice))
        continue; /* it may have ended by itself */
    if (watcher->pid > 0) {
        kill(watcher->pid, SIGTERM);
        while (waitpid(watcher->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (watcher->fd >= 0)
        close(watcher->fd);
    watcher->pid = 0;
    watcher->fd = -1;
}

bool notice_watcher_next(struct notice_watcher *watcher, struct notice *ret)
{
    while (watcher->fd >= 0) {
        char *newline = memchr(watcher->line, '\n', watcher->used);
        if (newline) {
            *newline = 0;
            bool fine = notice_parse(watcher->line, ret);
            watcher->used -= (size_t)(newline + 1 - watcher->line);
            memmove(watcher->line, newline + 1, watcher->used);
            if (fine)
                return true;
            continue;
        }
        if (watcher->used == sizeof(watcher->line))
            watcher->used = 0; /* no line of ours is that long */
        ssize_t got =
            read(watcher->fd, watcher->line + watcher->used, sizeof(watcher->line) - watcher->used);
        if (got > 0) {
            watcher->used += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close(watcher->fd); /* in no cloud, and nothing else to watch */
            watcher->fd = -1;
            watcher->pid = 0; /* the loop reaps it; its number may soon be somebody else's */
        } else {
            return false;
        }
    }
    return false;
}

/* ---- what follows ---- */

static void stand(struct notice_watcher *watcher, const char *source, bool stands)
{
    for (int i = 0; i < NOTICE_WATCHER_SOURCES; i++)
        if (!strcmp(watcher->standing[i], source))
            watcher->standing[i][0] = 0;
    for (int i = 0; stands && i < NOTICE_WATCHER_SOURCES; i++)
        if (!watcher->standing[i][0]) {
            memcpy(watcher->standing[i], source, sizeof(watcher->standing[i]));
            return;
        }
}

static bool any_stands(const struct notice_watcher *watcher)
{
    for (int i = 0; i < NOTICE_WATCHER_SOURCES; i++)
        if (watcher->standing[i][0])
            return true;
    return false;
}

static enum notice_watcher_act come_back(struct notice_watcher *watcher)
{
    bool was_away = watcher->away;

    watcher->away = false;
    watcher->back_ns = SPOTNIK_NEVER;
    return was_away ? NOTICE_WATCHER_BACK : NOTICE_WATCHER_NOTHING;
}

enum notice_watcher_act notice_watcher_heed(struct notice_watcher *watcher,
                                            const struct notice *notice, uint64_t now_ns,
                                            int64_t wall_ms)
{
    int64_t left_ms = notice->deadline_ms - wall_ms;
    bool was_away = watcher->away;

    if (notice->kind == NOTICE_OVER) {
        stand(watcher, notice->source, false);
        return any_stands(watcher) ? NOTICE_WATCHER_NOTHING : come_back(watcher);
    }
    if (notice->kind != NOTICE_LEAVE)
        return NOTICE_WATCHER_NOTHING;
    stand(watcher, notice->source, true);
    left_ms = left_ms < 0 ? 0 : left_ms > LATEST_MS ? LATEST_MS : left_ms;
    watcher->away = true;
    watcher->back_ns = now_ns + (uint64_t)left_ms * SPOTNIK_MS + watcher->options->patience_ns;
    return was_away ? NOTICE_WATCHER_NOTHING : NOTICE_WATCHER_LEAVE;
}

bool notice_watcher_lied(struct notice_watcher *watcher, uint64_t now_ns)
{
    return now_ns >= watcher->back_ns && come_back(watcher) == NOTICE_WATCHER_BACK;
}

void notice_watcher_hook(const struct notice_watcher *watcher, const struct notice *notice)
{
    static const char *const kinds[] = { "none", "leave", "risk", "over" };
    char deadline[32];
    sigset_t none;

    if (!watcher->options->hook || fork())
        return; /* the loop reaps it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    snprintf(deadline, sizeof(deadline), "%" PRId64, notice->deadline_ms / 1000);
    setenv("SPOTNIK_NOTICE_KIND", kinds[notice->kind], 1);
    setenv("SPOTNIK_NOTICE_SOURCE", notice->source, 1);
    setenv("SPOTNIK_NOTICE_DEADLINE", deadline, 1);
    setenv("SPOTNIK_NOTICE_TEXT", notice->text, 1);
    execl("/bin/sh", "sh", "-c", watcher->options->hook, (char *)NULL);
    _exit(127);
}
