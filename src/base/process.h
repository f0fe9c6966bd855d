/* SPDX-License-Identifier: Apache-2.0 */
/* Which process of which kernel wrote a record, and whether that process still lives. Only the
 * kernel that runs a process can prove its death; everybody else has nothing but time
 * (watcher.h). */
#ifndef SPOTNIK_BASE_PROCESS_H
#define SPOTNIK_BASE_PROCESS_H

#include <stdint.h>

struct spotnik_process {
    uint64_t boot;       /* of its kernel: no two boots share it; 0: not known */
    uint64_t pid, start; /* start: ticks after boot, tells apart two processes of one pid */
    uint64_t space;      /* the namespaces in which the two numbers mean something */
};

enum spotnik_liveness {
    SPOTNIK_LIFE_UNKNOWN, /* another kernel, another namespace, or the kernel does not say */
    SPOTNIK_LIFE_ALIVE,
    SPOTNIK_LIFE_ENDED,
};

void spotnik_process_self(struct spotnik_process *ret);

/* ENDED is a proof, ALIVE is one as well. EPERM proves that a process of that number exists,
 * nothing else. */
enum spotnik_liveness spotnik_process_life(const struct spotnik_process *process);

#endif
