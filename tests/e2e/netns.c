/* SPDX-License-Identifier: Apache-2.0 */
/* The network of netns.h, made with `ip`. What happens to it later happens by ioctl(), within a
 * moment of being asked for: starting a program for each cable would take tens of milliseconds on a
 * busy machine, and hosts would be cut off one after the other. */
#include "netns.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static const unsigned char nowhere[6] = { 2, 0, 0, 0, 0x99, 0x99 };

static int net_fd,
    host_fd[NETNS_HOSTS]; /* sockets that stand in the namespaces of the switch and of the hosts */
static bool on_two[NETNS_HOSTS];
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

/* One namespace is the switch, with two bridges: hosts hang on `one`, and a partition moves some to
 * `two`. */
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
    if (shell("ip -n %s link add one type bridge && ip -n %s link add two type bridge && "
              "ip -n %s link set one up && ip -n %s link set two up",
              net, net, net, net))
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

static void command(int fd, unsigned long request, void *argument, const char *what)
{
    if (ioctl(fd, request, argument) == 0)
        return;
    fprintf(stderr, "FAILED: cannot %s: %s\n", what, strerror(errno));
    exit(2);
}

/* The kernel's name for "the cable of this host", at the switch. */
static struct ifreq port(uint32_t of)
{
    struct ifreq request = { 0 };

    snprintf(request.ifr_name, sizeof request.ifr_name, "h%u", of);
    return request;
}

void netns_plug(uint32_t of, bool in)
{
    struct ifreq request = port(of);

    command(net_fd, SIOCGIFFLAGS, &request, "read the state of a cable");
    request.ifr_flags = (short)(in ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    command(net_fd, SIOCSIFFLAGS, &request, "pull or plug a cable");
}

void netns_move(uint32_t of, bool two)
{
    static const char *const bridge[] = { "one", "two" };
    struct ifreq request = port(of);

    if (on_two[of] == two)
        return;
    command(net_fd, SIOCGIFINDEX, &request, "find a cable");
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", bridge[!two]);
    command(net_fd, SIOCBRDELIF, &request, "take a cable off a switch");
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", bridge[two]);
    command(net_fd, SIOCBRADDIF, &request, "put a cable on a switch");
    on_two[of] = two;
}

void netns_one_way(uint32_t from, uint32_t to, bool cut)
{
    struct arpreq request = { .arp_flags = ATF_PERM | ATF_COM, .arp_dev = "eth0" };
    struct sockaddr_in address = { .sin_family = AF_INET };

    inet_pton(AF_INET, netns_address[to], &address.sin_addr);
    memcpy(&request.arp_pa, &address, sizeof address);
    request.arp_ha.sa_family = ARPHRD_ETHER;
    memcpy(request.arp_ha.sa_data, nowhere, sizeof nowhere);
    command(host_fd[from], cut ? SIOCSARP : SIOCDARP, &request, "misdirect a host");
}

/* A socket belongs for ever to the namespace it was made in. */
static int socket_in(const char *name)
{
    char path[128];

    snprintf(path, sizeof path, "/run/netns/%s", name);
    int ours = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC),
        its = open(path, O_RDONLY | O_CLOEXEC), fd = -1;
    if (ours >= 0 && its >= 0 && setns(its, CLONE_NEWNET) == 0) {
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (setns(ours, CLONE_NEWNET))
            exit(2);
    }
    close(ours);
    close(its);
    return fd;
}

static bool reach(void)
{
    bool all = (net_fd = socket_in(net)) >= 0;

    for (int i = 0; i < NETNS_HOSTS; i++)
        all &= (host_fd[i] = socket_in(netns_host[i])) >= 0;
    return all;
}

bool netns_set_up(void)
{
    bool ready = make() && reach();

    if (alive_fd >= 0)
        atexit(dismiss_janitor);
    return ready;
}
