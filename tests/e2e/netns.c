/* SPDX-License-Identifier: Apache-2.0 */
/* The network of netns.h, made with `ip`. */
#include "netns.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

char netns_host[NETNS_HOSTS][32], netns_address[NETNS_HOSTS][32];
static char net[32];
static int alive_fd = -1;
static pid_t janitor;

static int shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int shell(const char *format, ...)
{
    char command[512];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    return system(command);
}

/* ---- the network ---- */

static void tear_down(void)
{
    int left = shell("ip netns del %s 2>/dev/null", net);

    for (int i = 0; i < NETNS_HOSTS; i++)
        left += shell("ip netns del %s 2>/dev/null", netns_host[i]);
    (void)left; /* what was not there need not go */
}

/* Takes the network down when the test has ended, however it ended: it waits for the other end of a
 * pipe to close. */
static void hire_janitor(void)
{
    int ends[2];
    char c;

    if (pipe2(ends, O_CLOEXEC) || (janitor = fork()) < 0)
        exit(2);
    if (janitor > 0) {
        close(ends[0]);
        alive_fd = ends[1];
        return;
    }
    setsid();
    close(ends[1]);
    if (read(ends[0], &c, 1) >= 0)
        tear_down();
    _exit(0);
}

static void dismiss_janitor(void)
{
    close(alive_fd);
    waitpid(janitor, NULL, 0);
}

/* One namespace is the switch, with a bridge that the hosts hang on. */
static bool make(void)
{
    snprintf(net, sizeof net, "sp%d-net", (int)getpid());
    for (int i = 0; i < NETNS_HOSTS; i++) {
        snprintf(netns_host[i], sizeof netns_host[i], "sp%d-%d", (int)getpid(), i);
        snprintf(netns_address[i], sizeof netns_address[i], "10.99.7.%d", i + 1);
    }
    if (shell("ip netns add %s 2>/dev/null", net))
        return false;
    hire_janitor();
    if (shell("ip -n %s link add one type bridge && ip -n %s link set one up", net, net))
        return false;
    for (int i = 0; i < NETNS_HOSTS; i++)
        if (shell("ip netns add %s && ip -n %s link add eth0 type veth peer name h%d netns %s && "
                  "ip -n %s link set h%d master one up && ip -n %s addr add %s/24 dev eth0 && "
                  "ip -n %s link set eth0 up && ip -n %s link set lo up",
                  netns_host[i], netns_host[i], i, net, net, i, netns_host[i], netns_address[i],
                  netns_host[i], netns_host[i]))
            return false;
    return true;
}

bool netns_set_up(void)
{
    bool ready = make();

    if (alive_fd >= 0)
        atexit(dismiss_janitor);
    return ready;
}
