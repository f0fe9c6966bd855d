/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel lets us set: asked with a socket of our own before any connection is made. */
#include "carry/congestion.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define ALLOWED "/proc/sys/net/ipv4/tcp_allowed_congestion_control"

static int set(int fd, const char *name)
{
    return setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, (socklen_t)strlen(name)) == 0 ? 0
                                                                                           : errno;
}

void spotnik_congestion_set(int fd, const char *name)
{
    if (name[0] != '\0')
        (void)set(fd, name); /* it was allowed at first; else what is in use does as well */
}

static void allowed_read(char *text, size_t size)
{
    FILE *file = fopen(ALLOWED, "re");
    text[0] = '\0';
    if (file == NULL)
        return;
    if (fgets(text, (int)size, file) != NULL)
        text[strcspn(text, "\n")] = '\0';
    fclose(file);
}

static int refuse(const char *text, int error)
{
    char allowed[128];
    allowed_read(allowed, sizeof allowed);
    return spotnik_error_return(
        SPOTNIK_ERR_ARGUMENT,
        "SPOTNIK_CONGESTION is \"%.40s\": %s; it must be one of %s (" ALLOWED ")", text,
        error == EPERM ? "not for this user" : "the kernel does not know it", allowed);
}

int spotnik_congestion_parse(const char *text, char ret_name[SPOTNIK_CONGESTION_NAME])
{
    ret_name[0] = '\0';
    if (text == NULL || *text == '\0')
        return 0;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make a socket: %m");
    int error = strlen(text) < SPOTNIK_CONGESTION_NAME ? set(fd, text) : ENOENT;
    close(fd);
    if (error != 0)
        return refuse(text, error);
    strcpy(ret_name, text);
    return 0;
}
