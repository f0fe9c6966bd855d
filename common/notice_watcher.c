/* SPDX-License-Identifier: Apache-2.0 */
/* The watcher as a process of its own: whatever a metadata service does to it, the agent goes on.
 * See run_notice.h. */
#include "run_notice.h"

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
#include "sibling.h"

#define LATEST_MS (15 * 60 * 1000) /* deadlines beyond this are those of a clock that is wrong */

static void become_watcher(const struct run_notice_options *options, int out)
{
    char *argv[2 * RUN_NOTICE_FROM + 4] = { "spotnik-notice", "--watch", "--json" };
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
    _exit(127);
}

bool run_notice_start(struct run_notice *ear, const struct run_notice_options *options)
{
    int pipes[2];

    *ear = (struct run_notice){ .options = options, .fd = -1, .back_ns = SPOTNIK_NEVER };
    if (!options->count)
        return true;
    if (pipe2(pipes, O_CLOEXEC))
        return false;
    fflush(NULL);
    ear->pid = fork();
    if (ear->pid == 0)
        become_watcher(options, pipes[1]);
    close(pipes[1]);
    ear->fd = pipes[0];
    if (ear->pid > 0)
        return fcntl(ear->fd, F_SETFL, O_NONBLOCK) == 0;
    ear->pid = 0;
    close(ear->fd);
    ear->fd = -1;
    return false;
}

void run_notice_end(struct run_notice *ear)
{
    struct notice notice;

    while (run_notice_next(ear, &notice))
        continue; /* it may have ended by itself */
    if (ear->pid > 0) {
        kill(ear->pid, SIGTERM);
        while (waitpid(ear->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
    }
    if (ear->fd >= 0)
        close(ear->fd);
    ear->pid = 0;
    ear->fd = -1;
}

bool run_notice_next(struct run_notice *ear, struct notice *ret)
{
    while (ear->fd >= 0) {
        char *newline = memchr(ear->line, '\n', ear->used);
        if (newline) {
            *newline = 0;
            bool fine = notice_parse(ear->line, ret);
            ear->used -= (size_t)(newline + 1 - ear->line);
            memmove(ear->line, newline + 1, ear->used);
            if (fine)
                return true;
            continue;
        }
        if (ear->used == sizeof(ear->line))
            ear->used = 0; /* no line of ours is that long */
        ssize_t got = read(ear->fd, ear->line + ear->used, sizeof(ear->line) - ear->used);
        if (got > 0) {
            ear->used += (size_t)got;
        } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
            close(ear->fd); /* in no cloud, and nothing else to watch */
            ear->fd = -1;
            ear->pid = 0; /* the loop reaps it; its number may soon be somebody else's */
        } else {
            return false;
        }
    }
    return false;
}

/* ---- what follows ---- */

static void stand(struct run_notice *ear, const char *source, bool stands)
{
    for (int i = 0; i < RUN_NOTICE_SOURCES; i++)
        if (!strcmp(ear->standing[i], source))
            ear->standing[i][0] = 0;
    for (int i = 0; stands && i < RUN_NOTICE_SOURCES; i++)
        if (!ear->standing[i][0]) {
            memcpy(ear->standing[i], source, sizeof(ear->standing[i]));
            return;
        }
}

static bool any_stands(const struct run_notice *ear)
{
    for (int i = 0; i < RUN_NOTICE_SOURCES; i++)
        if (ear->standing[i][0])
            return true;
    return false;
}

static enum run_notice_act come_back(struct run_notice *ear)
{
    bool was_away = ear->away;

    ear->away = false;
    ear->back_ns = SPOTNIK_NEVER;
    return was_away ? RUN_NOTICE_BACK : RUN_NOTICE_NOTHING;
}

enum run_notice_act run_notice_heed(struct run_notice *ear, const struct notice *notice,
                                    uint64_t now_ns, int64_t wall_ms)
{
    int64_t left_ms = notice->deadline_ms - wall_ms;
    bool was_away = ear->away;

    if (notice->kind == NOTICE_OVER) {
        stand(ear, notice->source, false);
        return any_stands(ear) ? RUN_NOTICE_NOTHING : come_back(ear);
    }
    if (notice->kind != NOTICE_LEAVE)
        return RUN_NOTICE_NOTHING;
    stand(ear, notice->source, true);
    left_ms = left_ms < 0 ? 0 : left_ms > LATEST_MS ? LATEST_MS : left_ms;
    ear->away = true;
    ear->back_ns = now_ns + (uint64_t)left_ms * SPOTNIK_MS + ear->options->patience_ns;
    return was_away ? RUN_NOTICE_NOTHING : RUN_NOTICE_LEAVE;
}

bool run_notice_lied(struct run_notice *ear, uint64_t now_ns)
{
    return now_ns >= ear->back_ns && come_back(ear) == RUN_NOTICE_BACK;
}

void run_notice_hook(const struct run_notice *ear, const struct notice *notice)
{
    static const char *const kinds[] = { "none", "leave", "risk", "over" };
    char deadline[32];
    sigset_t none;

    if (!ear->options->hook || fork())
        return; /* the loop reaps it */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    snprintf(deadline, sizeof(deadline), "%" PRId64, notice->deadline_ms / 1000);
    setenv("SPOTNIK_NOTICE_KIND", kinds[notice->kind], 1);
    setenv("SPOTNIK_NOTICE_SOURCE", notice->source, 1);
    setenv("SPOTNIK_NOTICE_DEADLINE", deadline, 1);
    setenv("SPOTNIK_NOTICE_TEXT", notice->text, 1);
    execl("/bin/sh", "sh", "-c", ear->options->hook, (char *)NULL);
    _exit(127);
}
