/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel lets us set. The other one is of the other kind: where the system uses BBR, one
 * that goes by losses, and else BBR. */
#include "carry/congestion_choice.h"

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
        "SPOTNIK_CONGESTION is \"%.40s\": %s; it must be auto, system, or one of %s (" ALLOWED ")",
        text, error == EPERM ? "not for this user" : "the kernel does not know it", allowed);
}

static void other_find(int fd, struct spotnik_congestion_choice *control)
{
    static const char *const by_loss[] = { "cubic", "reno" };
    control->pauses = strncmp(control->usual, "bbr", 3) == 0;
    for (unsigned i = 0; control->pauses && i < 2 && control->other[0] == '\0'; i++)
        if (set(fd, by_loss[i]) == 0)
            strcpy(control->other, by_loss[i]);
    if (!control->pauses && set(fd, "bbr") == 0)
        strcpy(control->other, "bbr");
}

static int ask(int fd, const char *text, struct spotnik_congestion_choice *ret)
{
    socklen_t size = sizeof ret->usual - 1;
    bool automatic = text == NULL || *text == '\0' || strcmp(text, "auto") == 0;
    if (getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, ret->usual, &size) != 0)
        ret->usual[0] = '\0';
    if (automatic) {
        other_find(fd, ret);
        return 0;
    }
    ret->fixed = true;
    if (strcmp(text, "system") == 0)
        return 0;
    int error = strlen(text) < sizeof ret->usual ? set(fd, text) : ENOENT;
    if (error != 0)
        return refuse(text, error);
    strcpy(ret->usual, text);
    return 0;
}

int spotnik_congestion_choice_init(const char *text, struct spotnik_congestion_choice *ret)
{
    *ret = (struct spotnik_congestion_choice){ .fixed = false };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make a socket: %m");
    int rc = ask(fd, text, ret);
    close(fd);
    return rc;
}
