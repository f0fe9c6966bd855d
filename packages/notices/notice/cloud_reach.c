/* SPDX-License-Identifier: Apache-2.0 */
/* Is anybody there at all? While a source looks for its cloud, it tries a plain connection before
 * it asks. Loading libcurl costs more than all else that a watcher does at its start. Where there
 * is no cloud it is never loaded. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "source.h"

#define HTTP "http://"
#define HTTP_PORT 80
/* A machine that is too busy to start us in time: the answer may be there already. */
#define LEAST_NS (100 * NOTICE_MS)

/* False: the base has a name, which somebody would have to look up, or another family. */
static bool address_of(const char *base, struct sockaddr_in *ret)
{
    char host[INET_ADDRSTRLEN], *rest;
    unsigned long port = HTTP_PORT;

    if (strncmp(base, HTTP, strlen(HTTP)) != 0)
        return false;
    base += strlen(HTTP);
    size_t length = strcspn(base, ":/");
    if (length >= sizeof(host))
        return false;
    memcpy(host, base, length);
    host[length] = 0;
    if (base[length] == ':')
        port = strtoul(base + length + 1, &rest, 10);
    *ret = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
    return port > 0 && port <= UINT16_MAX && inet_pton(AF_INET, host, &ret->sin_addr) == 1;
}

void notice_reach_stop(struct notice_source *source)
{
    if (source->reaching)
        close(source->reach); /* which takes it out of the epoll */
    source->reaching = false;
}

static void connected(struct notice_source *source)
{
    int error = 0;
    socklen_t size = sizeof(error);

    if (!source->reaching)
        return;
    if (getsockopt(source->reach, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    notice_reach_stop(source);
    source->due_ns = NOTICE_NEVER;
    if (error)
        notice_source_missing(source);
    else
        source->due(source);
}

static uint64_t until_ns(const struct notice_source *source)
{
    uint64_t now_ns = notice_clock_ns(),
             first_ns = source->watch->begun_ns + NOTICE_SEEK_MS * NOTICE_MS;

    if (source->seeks)
        return now_ns + NOTICE_ANSWER_MS * NOTICE_MS;
    return first_ns > now_ns + LEAST_NS ? first_ns : now_ns + LEAST_NS;
}

static bool wait_for(struct notice_source *source, int fd)
{
    struct epoll_event event = { .events = EPOLLOUT, .data.ptr = source };

    if (epoll_ctl(source->watch->epoll, EPOLL_CTL_ADD, fd, &event))
        return false;
    source->reach = fd;
    source->reaching = true;
    source->readable = connected;
    source->due_ns = until_ns(source);
    return true;
}

bool notice_reach(struct notice_source *source)
{
    struct sockaddr_in address;

    if (source->reaching) { /* its patience is over */
        notice_reach_stop(source);
        notice_source_missing(source);
        return true;
    }
    if (source->presence != NOTICE_SEEKING || !address_of(source->base, &address))
        return false;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return false;
    bool there = !connect(fd, (struct sockaddr *)&address, sizeof(address));
    if (!there && errno == EINPROGRESS && wait_for(source, fd))
        return true;
    close(fd);
    if (!there)
        notice_source_missing(source);
    return !there;
}
