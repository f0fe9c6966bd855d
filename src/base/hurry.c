/* SPDX-License-Identifier: Apache-2.0 */
/* Our threads run for microseconds at a time, and members on other hosts wait for them. With a
 * short slice they are put before a busy neighbour that still has most of its own. They get no
 * larger share of the processor by it. */
#include "base/hurry.h"

#include <sched.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLICE_NS 100000 /* the shortest the kernel grants */

/* struct sched_attr of the kernel, which Debian 12 has no header for. */
struct attributes {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void spotnik_thread_hurry(void)
{
    struct attributes attributes = { .size = sizeof attributes, .runtime_ns = SLICE_NS };
    attributes.nice = getpriority(PRIO_PROCESS, 0);
    (void)!syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/* -1: there is one at most. */
static int processor_of(const cpu_set_t *allowed, uint32_t number)
{
    uint32_t count = (uint32_t)CPU_COUNT(allowed), seen = 0;
    for (int i = 0; count > 1 && i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, allowed) && seen++ == number % count)
            return i;
    return -1;
}

void spotnik_thread_spread(uint32_t number)
{
    cpu_set_t allowed, one;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return; /* more processors than a set holds: they find their places */
    int processor = processor_of(&allowed, number);
    if (processor < 0 || processor == sched_getcpu())
        return;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    if (sched_setaffinity(0, sizeof one, &one) == 0)
        (void)!sched_setaffinity(0, sizeof allowed, &allowed);
}
