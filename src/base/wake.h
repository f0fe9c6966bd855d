/* SPDX-License-Identifier: Apache-2.0 */
/* Waking a thread that sleeps on an eventfd. */
#ifndef SPOTNIK_BASE_WAKE_H
#define SPOTNIK_BASE_WAKE_H

#include <stdint.h>

/* Make `fd` readable. Any thread. Does nothing where the number is not an eventfd's any more. A
 * program that closes descriptors behind our back (close_range, a daemoniser) opens files of its
 * own under them. Eight bytes of ours must not land there. */
void spotnik_wake(int fd);

/* Take what is in it, or in a timerfd. 0: nothing. Never blocks, also where a child that has
 * inherited it made it blocking, and has taken that away before us. */
uint64_t spotnik_wake_take(int fd);

/* Close it; likewise. */
void spotnik_wake_close(int fd);

#endif
