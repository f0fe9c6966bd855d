/* SPDX-License-Identifier: Apache-2.0 */
/* Children made by fork(), which have no part in our jobs. A child inherits our connections. While
 * it lives (a data loader's worker, say), the kernel does not close them when we die, and no peer
 * would learn of it. So the child closes its copies, first of all. A child that execs loses them
 * anyway. */
#ifndef SPOTNIK_BASE_FORK_H
#define SPOTNIK_BASE_FORK_H

#include <stdint.h>

/* This socket is ours: close it in children. It need not be taken back; -1 is ignored. */
void spotnik_fork_note(int fd);

/* Another number in every child than in its parent. What was made under another one belongs to the
 * parent: its threads do not exist here, and its locks may be held for ever. Async-signal-safe
 * after the first call. */
uint32_t spotnik_fork_generation(void);

#endif
