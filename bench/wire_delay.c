/* SPDX-License-Identifier: Apache-2.0 */
/* A line with a delay, for kernels without netem: whatever enters tap device A leaves tap device B at once, and what enters B leaves A
 * DELAY_MS later. wire.py puts one before each host. Segments pass whole (virtio headers), so it is no bottleneck at gigabits.
 *
 *     wire_delay A B DELAY_MS        the devices are made here; ends when killed. Prints "ready". */
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

enum { FRAME_MAX = 66000, LATER_MAX = 16384 };

struct frame {
    uint64_t due_ns;
    size_t size;
    unsigned char *bytes;
};

static struct frame later[LATER_MAX]; /* a ring buffer, in order of time */
static unsigned head, count;

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
    if (ioctl(fd, TUNSETIFF, &request) != 0 || ioctl(fd, TUNSETOFFLOAD, TUN_F_CSUM | TUN_F_TSO4 | TUN_F_TSO6) != 0)
        die(name);
    return fd;
}

/* All that has come at `from`: to `to` at once, or into the queue. What finds no room is dropped, as on any line. */
static void pass(int from, int to, uint64_t delay_ns)
{
    static unsigned char bytes[FRAME_MAX];
    ssize_t got;

    while ((got = read(from, bytes, sizeof bytes)) > 0) {
        if (delay_ns == 0) {
            if (write(to, bytes, (size_t)got) < 0 && errno != EAGAIN && errno != EIO && errno != ENOBUFS)
                die("write");
            continue;
        }
        unsigned char *copy = count < LATER_MAX ? malloc((size_t)got) : NULL;
        if (copy == NULL)
            continue;
        memcpy(copy, bytes, (size_t)got);
        later[(head + count++) % LATER_MAX] = (struct frame){ now_ns() + delay_ns, (size_t)got, copy };
    }
}

static void release(int to)
{
    uint64_t now = now_ns();

    while (count > 0 && later[head].due_ns <= now) {
        if (write(to, later[head].bytes, later[head].size) < 0 && errno != EAGAIN && errno != EIO && errno != ENOBUFS)
            die("write");
        free(later[head].bytes);
        head = (head + 1) % LATER_MAX;
        count--;
    }
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    struct pollfd ready[2] = { { .fd = tap_open(argv[1]), .events = POLLIN }, { .fd = tap_open(argv[2]), .events = POLLIN } };
    uint64_t delay_ns = (uint64_t)(atof(argv[3]) * 1e6);

    puts("ready");
    fflush(stdout);
    for (;;) {
        uint64_t now = now_ns(), due = count > 0 ? later[head].due_ns : now + 1000000000u, rest = due > now ? due - now : 0;
        struct timespec wait = { .tv_sec = (time_t)(rest / 1000000000u), .tv_nsec = (long)(rest % 1000000000u) };
        if (ppoll(ready, 2, &wait, NULL) < 0 && errno != EINTR)
            die("ppoll");
        release(ready[0].fd);
        pass(ready[0].fd, ready[1].fd, 0);
        pass(ready[1].fd, ready[0].fd, delay_ns);
    }
}
