/* SPDX-License-Identifier: Apache-2.0 */
/* When one process of a group dies, all do. A thread of each process owns a robust futex in the
 * group's memory, and sleeps on those of the others: as in link/death.h, the kernel releases it
 * before it takes down the memory of the dead. */
#ifndef SPOTNIK_GROUP_PROCESS_WATCH_H
#define SPOTNIK_GROUP_PROCESS_WATCH_H

#include <stdint.h>

#include "group/control.h"

struct spotnik_process_watch;

/* Start the thread; when this returns, this process's death is seen by the others, and theirs ends
 * this process by SIGKILL. `on_notice` (NULL: none) is called on the thread, once, when the group
 * has a notice. Errors: SYSTEM, MEMORY. */
int spotnik_process_watch_start(struct spotnik_group_control *control, uint32_t rank,
                                void (*on_notice)(void *context), void *context,
                                struct spotnik_process_watch **ret_watch);

/* From now on this process may end, and the others go on. Frees. NULL is allowed. */
void spotnik_process_watch_stop(struct spotnik_process_watch *watch);

#endif
