/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts (network namespaces), one member each, and before each host a proxy that ends all its
 * connections to the other, as the sidecar of a service mesh does: iptables sends them there. The
 * proxies die and start again, which both members read as the end of the other. Claim: there is one
 * job all the time. No step has two results (the cluster checks it at every commit), and after each
 * restart both are in one view again.
 *
 * Needs root, `ip` and `iptables`; says so and is skipped (77) where they are missing.
 *
 *     e2e-proxied WORKER [restarts=5] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/netfilter_ipv4.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "cluster.h"
#include "netns.h"

enum { PORT = 15001, MARK = 7, PAIRS = 200, PATIENCE_MS = 30000 };

static pid_t proxy[2];
static uint64_t step_wanted;

/* ---- the proxy ---- */

static void enter(const char *name)
{
    char path[128];
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        exit(2);
    close(fd);
}

static int listen_here(void)
{
    struct sockaddr_in name = { .sin_family = AF_INET, .sin_port = htons(PORT) };
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, 128))
        exit(2);
    return fd;
}

/* To where the connection was going, past the rule that brought it here. */
static int go_on_to(int fd)
{
    struct sockaddr_in name;
    socklen_t size = sizeof name;
    int mark = MARK, to = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (getsockopt(fd, SOL_IP, SO_ORIGINAL_DST, &name, &size)
        || setsockopt(to, SOL_SOCKET, SO_MARK, &mark, sizeof mark)
        || connect(to, (struct sockaddr *)&name, sizeof name)) {
        close(to);
        return -1;
    }
    return to;
}

/* One direction, one piece. False: it has ended. */
static bool carry(int from, int to)
{
    char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof bytes, 0);
    for (ssize_t at = 0; at < got;) {
        ssize_t sent = send(to, bytes + at, (size_t)(got - at), MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
    }
    return got > 0;
}

static void take_in(int listener, struct pollfd *entry, int *count)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC), to = fd < 0 ? -1 : go_on_to(fd);
    if (to < 0 || *count + 2 > 1 + 2 * PAIRS) {
        close(fd);
        return;
    }
    entry[(*count)++] = (struct pollfd){ .fd = fd, .events = POLLIN };
    entry[(*count)++] = (struct pollfd){ .fd = to, .events = POLLIN };
}

static void be_proxy(const char *host, int ready)
{
    static struct pollfd entry[1 + 2 * PAIRS];
    int count = 1;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    enter(host);
    entry[0] = (struct pollfd){ .fd = listen_here(), .events = POLLIN };
    if (write(ready, "", 1) != 1)
        exit(2);
    while (poll(entry, (nfds_t)count, -1) > 0) {
        for (int i = 1; i < count; i++) {
            int other = ((i - 1) ^ 1) + 1;
            if (entry[i].revents == 0 || entry[i].fd < 0 || carry(entry[i].fd, entry[other].fd))
                continue;
            close(entry[i].fd);
            close(entry[other].fd);
            entry[i].fd = entry[other].fd = -1;
        }
        if (entry[0].revents)
            take_in(entry[0].fd, entry, &count);
    }
    _exit(0);
}

static void start_proxy(uint32_t of)
{
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC))
        exit(2);
    proxy[of] = fork();
    if (proxy[of] == 0)
        be_proxy(netns_host[of], ready[1]);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1)
        exit(2);
    close(ready[0]);
}

static void end_proxy(uint32_t of)
{
    if (proxy[of] <= 0)
        return;
    kill(proxy[of], SIGKILL);
    waitpid(proxy[of], NULL, 0);
    proxy[of] = 0;
}

static void end_proxies(void)
{
    end_proxy(0);
    end_proxy(1);
}

static bool redirect(uint32_t of)
{
    char command[300];
    snprintf(command, sizeof command,
             "ip netns exec %s iptables -t nat -A OUTPUT -p tcp -d %s -m mark ! --mark %d -j "
             "REDIRECT --to-ports %d 2>/dev/null",
             netns_host[of], netns_address[!of], MARK, PORT);
    return system(command) == 0;
}

/* ---- the job ---- */

static bool both_go_on(struct cluster *cluster)
{
    for (uint32_t i = 0; i < 2; i++)
        if (cluster->worker[i].size != 2 || cluster->worker[i].step <= step_wanted)
            return false;
    return true;
}

static void wait_for_both(struct cluster *cluster, const char *what)
{
    step_wanted = cluster_step(cluster) + 50;
    cluster_until(cluster, both_go_on, what, PATIENCE_MS);
}

int main(int argc, char **argv)
{
    static struct cluster cluster;
    uint64_t restarts = cluster_argument(argc, argv, "restarts", 5);

    if (argc < 2)
        return 2;
    if (geteuid() != 0 || !netns_set_up() || !redirect(0) || !redirect(1)) {
        puts("skipped: needs root, `ip` and `iptables` with NAT");
        return 77;
    }
    atexit(end_proxies);
    for (uint32_t i = 0; i < 2; i++)
        start_proxy(i);
    cluster_new(&cluster, 2, 1);
    /* the half without the smallest id may be passed over, and comes in again */
    cluster.tolerant = true;
    cluster_use(&cluster, argv[1], "-u", "1000", NULL);
    for (uint32_t i = 0; i < 2; i++) {
        cluster.netns[i] = netns_host[i];
        cluster.bind[i] = netns_address[i];
        cluster_start(&cluster, i);
    }
    wait_for_both(&cluster, "both members in one view through the proxies");
    for (uint64_t i = 0; i < restarts; i++) {
        uint64_t began_ns = cluster_now_ns();
        end_proxy(i & 1);
        end_proxy(!(i & 1));
        start_proxy(0);
        start_proxy(1);
        wait_for_both(&cluster, "both members in one view after the proxies have started again");
        printf("restart %" PRIu64 ": one view of two, and 50 steps on, after %" PRIu64 " ms\n",
               i + 1, (cluster_now_ns() - began_ns) / SPOTNIK_MS);
    }
    printf("one job through %" PRIu64 " restarts of the proxies: %" PRIu64 " steps\n", restarts,
           cluster_step(&cluster));
    cluster_free(&cluster);
    return 0;
}
