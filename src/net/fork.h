/* SPDX-License-Identifier: Apache-2.0 */
/* A child made by fork() inherits our connections. While it lives (a data loader's worker, say), the kernel does not close
 * them when we die, and no peer would learn of it. So the child closes its copies, first of all. A child that execs
 * loses them anyway. */
#ifndef SPOTNIK_NET_FORK_H
#define SPOTNIK_NET_FORK_H

/* This socket is ours: close it in children. It need not be taken back; -1 is ignored. */
void spotnik_fork_note(int fd);

#endif
