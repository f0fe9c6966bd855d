/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded into a watcher that asks one question after the other, it lets each answer arrive just
 * before the watcher looks again, and tells of a wait that runs out with an answer taken and not
 * followed by a question. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define OURS __attribute__((visibility("default")))
#define ANSWER_MS 30000 /* ends a test that hangs */
#define WAIT_MS 100     /* shorter ones are glances */

static int asked = -1; /* by this descriptor, and nothing has come */
static int held;       /* the answer is not shown before the next epoll_wait() */
static int taken;      /* an answer, and no question was sent since then */

#define REAL(name) __typeof__(&name) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

OURS ssize_t send(int fd, const void *bytes, size_t size, int flags)
{
    REAL(send);

    asked = fd;
    held = 1;
    taken = 0;
    return real(fd, bytes, size, flags);
}

static ssize_t received(int fd, ssize_t got)
{
    if (got > 0 && fd == asked) {
        asked = -1;
        taken = 1;
    }
    return got;
}

OURS ssize_t recv(int fd, void *bytes, size_t size, int flags)
{
    REAL(recv);

    return received(fd, real(fd, bytes, size, flags));
}

OURS int epoll_wait(int epoll, struct epoll_event *event, int count, int timeout_ms)
{
    REAL(epoll_wait);
    __typeof__(&poll) wait = (__typeof__(&poll))dlsym(RTLD_NEXT, "poll");
    struct pollfd answer = { .fd = asked, .events = POLLIN };

    if (asked >= 0)
        wait(&answer, 1, ANSWER_MS);
    held = 0;
    return real(epoll, event, count, timeout_ms);
}

/* A glance at a descriptor whose answer is held. */
static int holds(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    if (!held || timeout_ms != 0 || count != 1 || fds->fd != asked)
        return 0;
    fds->revents = 0;
    return 1;
}

static int waited(int ready, int timeout_ms)
{
    static const char told[] = "waited in vain\n";

    if (ready == 0 && timeout_ms >= WAIT_MS && taken)
        (void)!write(STDERR_FILENO, told, strlen(told));
    return ready;
}

OURS int poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
    REAL(poll);

    return holds(fds, count, timeout_ms) ? 0 : waited(real(fds, count, timeout_ms), timeout_ms);
}

/* The names that a library built with _FORTIFY_SOURCE calls. */
OURS ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags);
OURS int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room);

ssize_t __recv_chk(int fd, void *bytes, size_t size, size_t room, int flags)
{
    REAL(__recv_chk);

    return received(fd, real(fd, bytes, size, room, flags));
}

int __poll_chk(struct pollfd *fds, nfds_t count, int timeout_ms, size_t room)
{
    REAL(__poll_chk);

    if (holds(fds, count, timeout_ms))
        return 0;
    return waited(real(fds, count, timeout_ms, room), timeout_ms);
}
