/* SPDX-License-Identifier: Apache-2.0 */
/* The user's own sources. The watcher runs a command again and again. Each line that it prints is a
 * notice. If it ends well without a line, there is none. A command that goes on running may print
 * lines as they come. A file: as long as it exists there is a notice, in its first line. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <signal.h>
#include <unistd.h>

#include "source.h"

struct own {
    char *what; /* command, or path */
    pid_t pid;
    int fd;
    char line[256];
    size_t used;
    bool spoke; /* this run has printed a line */
};

/* Groups of the commands that run, for a signal handler. */
static volatile sig_atomic_t group[NOTICE_SOURCES_MAX];

static void keep(pid_t from, pid_t to)
{
    for (int i = 0; i < NOTICE_SOURCES_MAX; i++)
        if (group[i] == from) {
            group[i] = to;
            return;
        }
}

void notice_commands_kill(void)
{
    for (int i = 0; i < NOTICE_SOURCES_MAX; i++)
        if (group[i] > 0)
            kill(-group[i], SIGKILL);
}

static void own_free(struct notice_source *source)
{
    struct own *own = source->own;

    if (!own)
        return;
    if (own->pid > 0) {
        kill(-own->pid, SIGKILL);
        keep(own->pid, 0);
        waitpid(own->pid, NULL, 0);
        close(own->fd);
    }
    free(own->what);
    free(own);
}

static bool open_own(struct notice_source *source, const char *what)
{
    struct own *own = calloc(1, sizeof(*own));

    if (!own)
        return false;
    own->what = strdup(what);
    source->own = own;
    source->free = own_free;
    return own->what != NULL;
}

/* ---- a file ---- */

static void look(struct notice_source *source)
{
    const struct own *own = source->own;
    struct notice seen = { .kind = NOTICE_NONE };
    char line[256] = "";
    FILE *file = fopen(own->what, "re");

    if (file) {
        if (!fgets(line, sizeof(line), file))
            line[0] = 0;
        fclose(file);
        notice_words("file", line, notice_wall_ms(), &seen);
    }
    notice_source_say(source, &seen);
    notice_source_again(source, source->interval_ns);
}

bool notice_file_open(struct notice_source *source, const char *path)
{
    source->due = look;
    return open_own(source, path);
}

/* ---- a command ---- */

/* The end of this process may not come between a command's start and the note of its group. */
static pid_t start(const char *command, int out)
{
    sigset_t all, before;
    pid_t pid;

    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = fork();
    if (pid == 0) {
        setpgid(0, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(out, STDOUT_FILENO);
        sigprocmask(SIG_SETMASK, &before, NULL);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    if (pid > 0) {
        setpgid(pid, pid); /* whichever of both comes first */
        keep(0, pid);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return pid;
}

static void run(struct notice_source *source)
{
    struct own *own = source->own;
    int pipes[2];

    if (pipe2(pipes, O_CLOEXEC)) {
        notice_source_missing(source);
        return;
    }
    own->pid = start(own->what, pipes[1]);
    close(pipes[1]);
    if (own->pid < 0) {
        close(pipes[0]);
        notice_source_missing(source);
        return;
    }
    own->fd = pipes[0];
    own->used = 0;
    own->spoke = false;
    fcntl(own->fd, F_SETFL, O_NONBLOCK);
    notice_source_listen(source, own->fd);
}

static void say_lines(struct notice_source *source, bool end)
{
    struct own *own = source->own;
    char *newline;

    own->line[own->used] = 0;
    while ((newline = strchr(own->line, '\n')) || (end && own->used)
           || own->used == sizeof(own->line) - 1) {
        size_t length = newline ? (size_t)(newline - own->line) + 1 : own->used;
        struct notice seen;
        if (newline)
            *newline = 0;
        notice_words("exec", own->line, notice_wall_ms(), &seen);
        own->spoke = true;
        notice_source_say(source, &seen);
        own->used -= length;
        memmove(own->line, own->line + length, own->used + 1);
    }
}

/* A command that fails says nothing: what stood before goes on standing. */
static void ended(struct notice_source *source)
{
    struct own *own = source->own;
    struct notice none = { .kind = NOTICE_NONE };
    int status = -1;

    say_lines(source, true);
    notice_source_unlisten(source, own->fd);
    close(own->fd);
    keep(own->pid, 0); /* its number may be another's once it is reaped */
    while (waitpid(own->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    own->pid = 0;
    if (!own->spoke && status == 0)
        notice_source_say(source, &none);
    if (!own->spoke && status != 0 && source->failures++ == 0)
        fprintf(stderr, "spotnik notice: exec:%s failed (status %d); it is run again\n", own->what,
                status);
    notice_source_again(source, source->interval_ns);
}

/* One read a turn: a command that never stops to print would keep all other sources waiting. */
static void readable(struct notice_source *source)
{
    struct own *own = source->own;
    ssize_t got = read(own->fd, own->line + own->used, sizeof(own->line) - 1 - own->used);

    if (got > 0) {
        own->used += (size_t)got;
        say_lines(source, false);
        return;
    }
    if (got == 0 || (errno != EAGAIN && errno != EINTR))
        ended(source);
}

bool notice_exec_open(struct notice_source *source, const char *command)
{
    source->due = run;
    source->readable = readable;
    return open_own(source, command);
}
