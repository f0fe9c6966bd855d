/* SPDX-License-Identifier: Apache-2.0 */
/* Holding the workers' pipes. See keeper.h. */
#include "keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent.h"

/* What the agent says. */
enum tell {
    GIVE, /* here are two pipes of a worker */
    /* that worker has ended: a process that still holds its pipes must learn that they have no
     * reader */
    DROP,
    END, /* the agent itself ends */
};

struct word {
    enum tell what;
    uint32_t number;
};

/* One pipe of one worker. */
struct kept {
    struct agent_worker worker; /* its number */
    struct agent_pipe pipe;
};

struct shelf {
    /* as it was before it had workers: of its output the keeper needs where it goes */
    const struct agent *agent;
    struct kept **kept;
    struct pollfd *fds; /* [0]: the agent; then the pipes */
    uint32_t count;
};

/* ---- in the keeper ---- */

static bool shelf_add(struct shelf *shelf, uint32_t number, int fd, bool error)
{
    struct kept **kept = realloc(shelf->kept, (shelf->count + 1) * sizeof(*kept));
    if (kept)
        shelf->kept = kept;
    struct pollfd *fds = realloc(shelf->fds, (shelf->count + 2) * sizeof(*fds));
    if (fds)
        shelf->fds = fds;
    struct kept *one = kept && fds ? calloc(1, sizeof(*one)) : NULL;
    if (!one)
        return false;
    one->worker.number = number;
    one->worker.log = output_open(&shelf->agent->output, number);
    one->pipe.fd = fd;
    one->pipe.error = error;
    shelf->kept[shelf->count++] = one;
    return true;
}

static void shelf_drop(struct shelf *shelf, uint32_t at)
{
    if (shelf->kept[at]->pipe.fd >= 0)
        close(shelf->kept[at]->pipe.fd);
    if (shelf->kept[at]->worker.log >= 0)
        close(shelf->kept[at]->worker.log);
    free(shelf->kept[at]);
    shelf->kept[at] = shelf->kept[--shelf->count];
}

static void shelf_drop_worker(struct shelf *shelf, uint32_t number)
{
    for (uint32_t i = shelf->count; i > 0; i--)
        if (shelf->kept[i - 1]->worker.number == number)
            shelf_drop(shelf, i - 1);
}

/* False: the agent has ended. */
static bool word_take(struct shelf *shelf, int fd)
{
    struct word word;
    struct iovec piece = { .iov_base = &word, .iov_len = sizeof(word) };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control;
    struct msghdr message = { .msg_iov = &piece,
                              .msg_iovlen = 1,
                              .msg_control = control.bytes,
                              .msg_controllen = sizeof(control.bytes) };
    int pipes[2];

    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR)
        return true;
    if (got != (ssize_t)sizeof(word))
        return false;
    if (word.what == END)
        _exit(0);
    if (word.what == DROP)
        shelf_drop_worker(shelf, word.number);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (!header || header->cmsg_type != SCM_RIGHTS || header->cmsg_len != CMSG_LEN(sizeof(pipes)))
        return true;
    memcpy(pipes, CMSG_DATA(header), sizeof(pipes));
    for (int i = 0; i < 2; i++)
        if (!shelf_add(shelf, word.number, pipes[i], i == 1))
            close(pipes[i]);
    return true;
}

/* Wait for the agent's word or for pipes: that end, while the agent reads them; with `reading`, for
 * what comes out of them. */
static bool turn(struct shelf *shelf, int agent_fd, bool reading)
{
    shelf->fds[0] = (struct pollfd){ .fd = agent_fd, .events = POLLIN };
    for (uint32_t i = 0; i < shelf->count; i++)
        shelf->fds[i + 1] =
            (struct pollfd){ .fd = shelf->kept[i]->pipe.fd, .events = reading ? POLLIN : 0 };
    if (poll(shelf->fds, shelf->count + 1, -1) < 0)
        return true;
    for (uint32_t i = shelf->count; i > 0; i--) {
        struct kept *one = shelf->kept[i - 1];
        if (!shelf->fds[i].revents)
            continue;
        if (reading)
            agent_read(shelf->agent, &one->worker, &one->pipe);
        if (!reading || one->pipe.fd < 0)
            shelf_drop(shelf, i - 1);
    }
    return shelf->fds[0].revents == 0 || word_take(shelf, agent_fd);
}

/* Ctrl-C and the end of the terminal are the agent's business; where nobody reads what we print,
 * workers go on all the same. */
static void keep(const struct agent *agent, int agent_fd)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE };
    struct shelf shelf = { .agent = agent, .fds = calloc(1, sizeof(*shelf.fds)) };

    setpgid(0, 0);
    for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
        signal(ignored[i], SIG_IGN);
    while (shelf.fds && turn(&shelf, agent_fd, false))
        ;
    while (shelf.count)
        turn(&shelf, -1, true);
    _exit(0);
}

/* ---- in the agent ---- */

bool keeper_start(struct keeper *keeper, const struct agent *agent)
{
    int pair[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
        return false;
    keeper->pid = fork();
    if (keeper->pid == 0) {
        close(pair[0]);
        keep(agent, pair[1]);
    }
    close(pair[1]);
    keeper->fd = pair[0];
    if (keeper->pid < 0)
        close(pair[0]);
    return keeper->pid > 0;
}

static void say(const struct keeper *keeper, struct word word, const int *pipes)
{
    struct iovec piece = { .iov_base = &word, .iov_len = sizeof(word) };
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(2 * sizeof(int))];
    } control = { .bytes = { 0 } };
    struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };

    if (pipes) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(2 * sizeof(int));
        memcpy(CMSG_DATA(header), pipes, 2 * sizeof(int));
    }
    while (sendmsg(keeper->fd, &message, MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

void keeper_give(const struct keeper *keeper, uint32_t number, int out, int err)
{
    say(keeper, (struct word){ .what = GIVE, .number = number }, (int[]){ out, err });
}

void keeper_drop(const struct keeper *keeper, uint32_t number)
{
    say(keeper, (struct word){ .what = DROP, .number = number }, NULL);
}

void keeper_end(struct keeper *keeper)
{
    if (keeper->pid <= 0)
        return;
    say(keeper, (struct word){ .what = END }, NULL);
    close(keeper->fd);
    while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    keeper->pid = 0;
}
