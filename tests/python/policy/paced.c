/* SPDX-License-Identifier: Apache-2.0 */
/* Slow links without privileges: preloaded (LD_PRELOAD), it has the kernel pace each TCP connection
 * of the process at PACED_BYTES a second. Other sockets are left alone. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/socket.h>

#define SHOWN __attribute__((visibility("default"))) /* the tree hides what it does not mark */

static int paced(int fd)
{
    const char *text = getenv("PACED_BYTES");
    unsigned int rate = text ? (unsigned int)atoi(text) : 0;
    if (fd >= 0 && rate > 0)
        (void)setsockopt(fd, SOL_SOCKET, SO_MAX_PACING_RATE, &rate, sizeof rate);
    return fd;
}

SHOWN int socket(int domain, int type, int protocol)
{
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    int fd = next(domain, type, protocol);
    return domain == AF_INET || domain == AF_INET6 ? paced(fd) : fd;
}

SHOWN int accept4(int listener, struct sockaddr *name, socklen_t *size, int flags)
{
    int (*next)(int, struct sockaddr *, socklen_t *, int) =
        (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    int fd = next(listener, name, size, flags);
    return fd >= 0 && name && name->sa_family != AF_UNIX ? paced(fd) : fd;
}
