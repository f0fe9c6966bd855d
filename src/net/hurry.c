/* SPDX-License-Identifier: Apache-2.0 */
/* Our threads run for microseconds at a time, and members on other hosts wait for them. With a short slice
 * they are put before a busy neighbour that still has most of its own; they get no larger share of the
 * processor by it. */
#include "net/hurry.h"

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
