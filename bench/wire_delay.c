/* SPDX-License-Identifier: Apache-2.0 */
/* A line with a delay, and with a cap on each flow as clouds have it, for kernels without netem.
 * Frames that enter tap device A leave tap device B at once. Frames that enter B leave A DELAY_MS
 * later. Those of one TCP connection leave no faster than FLOW_MBIT (0: as they come). Of what a
 * flow sends above that QUEUE_MS wait, and the rest is dropped. wire.py puts one before each host.
 * Segments pass whole (virtio headers), so it is no bottleneck at gigabits.
 *
 *     wire_delay A B DELAY_MS [FLOW_MBIT]        the devices are made here; ends when killed.
 *     Prints "ready". */
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum {
    FRAME_MAX = 66000,
    LATER_MAX = 16384,
    FLOWS = 256,
    VIRTIO = 10,
    ETHERNET = 14,
    QUEUE_MS = 50
};

struct frame {
    struct frame *next;
    uint64_t due_ns;
    size_t size;
    unsigned char bytes[];
};

/* Frames that wait, in order of time. Without a cap all are of one flow. */
struct flow {
    unsigned char key[12]; /* both addresses and both ports */
    uint64_t free_ns;      /* when all that came has gone into the line */
    struct frame *first, **last;
};

static struct flow flow[FLOWS];
static unsigned flows = 1, count;
static uint64_t delay_ns, flow_bits;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void die(const char *what)
{
    fprintf(stderr, "wire_delay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int tap_open(const char *name)
{
    struct ifreq request = { .ifr_flags = IFF_TAP | IFF_NO_PI | IFF_VNET_HDR };
    int fd = open("/dev/net/tun", O_RDWR | O_NONBLOCK);

    if (fd < 0)
        die("/dev/net/tun");
    strncpy(request.ifr_name, name, sizeof request.ifr_name - 1);
    if (ioctl(fd, TUNSETIFF, &request) != 0
        || ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0)
        die(name);
    return fd;
}

/* Of IPv4 and TCP; everything else is of the first flow, which has no cap. Beyond FLOWS some share
 * one. */
static struct flow *flow_of(const unsigned char *bytes, size_t size)
{
    const unsigned char *ip = bytes + VIRTIO + ETHERNET;

    if (flow_bits == 0 || size < VIRTIO + ETHERNET + 40 || ip[0] != 0x45 || ip[9] != 6)
        return &flow[0];
    for (unsigned i = 1; i < flows; i++)
        if (memcmp(flow[i].key, ip + 12, sizeof flow[i].key) == 0)
            return &flow[i];
    struct flow *new = &flow[flows < FLOWS ? flows++ : FLOWS - 1];
    memcpy(new->key, ip + 12, sizeof new->key);
    return new;
}

/* False: the line drops it. */
static int later(const unsigned char *bytes, size_t size)
{
    struct flow *its = flow_of(bytes, size);
    uint64_t now = now_ns(), begin = its->free_ns > now ? its->free_ns : now;
    struct frame *frame = count < LATER_MAX && begin - now < QUEUE_MS * 1000000u
                              ? malloc(sizeof *frame + size)
                              : NULL;

    if (frame == NULL)
        return 0;
    its->free_ns = its == &flow[0] ? now : begin + size * 8 * 1000000000u / flow_bits;
    *frame = (struct frame){ .due_ns = its->free_ns + delay_ns, .size = size };
    memcpy(frame->bytes, bytes, size);
    *(its->first != NULL ? its->last : &its->first) = frame;
    its->last = &frame->next;
    count++;
    return 1;
}

static void put(int to, const unsigned char *bytes, size_t size)
{
    if (write(to, bytes, size) < 0 && errno != EAGAIN && errno != EIO && errno != ENOBUFS)
        die("write");
}

/* All that has come at `from`: to `to` at once, or into a queue. */
static void pass(int from, int to, int held)
{
    static unsigned char bytes[FRAME_MAX];
    ssize_t got;

    while ((got = read(from, bytes, sizeof bytes)) > 0)
        if (!held)
            put(to, bytes, (size_t)got);
        else
            later(bytes, (size_t)got);
}

/* What is due; returns when the next will be. */
static uint64_t release(int to)
{
    uint64_t now = now_ns(), next = now + 1000000000u;

    for (unsigned i = 0; i < flows; i++) {
        while (flow[i].first != NULL && flow[i].first->due_ns <= now) {
            struct frame *frame = flow[i].first;
            flow[i].first = frame->next;
            put(to, frame->bytes, frame->size);
            free(frame);
            count--;
        }
        if (flow[i].first != NULL && flow[i].first->due_ns < next)
            next = flow[i].first->due_ns;
    }
    return next;
}

int main(int argc, char **argv)
{
    if (argc != 4 && argc != 5)
        return 2;
    struct pollfd ready[2] = { { .fd = tap_open(argv[1]), .events = POLLIN },
                               { .fd = tap_open(argv[2]), .events = POLLIN } };
    delay_ns = (uint64_t)(atof(argv[3]) * 1e6);
    flow_bits = argc == 5 ? (uint64_t)(atof(argv[4]) * 1e6) : 0;

    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t due = release(ready[0].fd), now = now_ns(), rest = due > now ? due - now : 0;
        struct timespec wait = { .tv_sec = (time_t)(rest / 1000000000u),
                                 .tv_nsec = (long)(rest % 1000000000u) };
        if (ppoll(ready, 2, &wait, NULL) < 0 && errno != EINTR)
            die("ppoll");
        pass(ready[0].fd, ready[1].fd, 0);
        pass(ready[1].fd, ready[0].fd, 1);
    }
}
