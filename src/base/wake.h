/* SPDX-License-Identifier: Apache-2.0 */
/* Waking a thread that sleeps on an eventfd. */
#ifndef SPOTNIK_BASE_WAKE_H
#define SPOTNIK_BASE_WAKE_H

#include <stdint.h>

/* Make `fd` readable. Any thread. Does nothing where it is negative. */
void spotnik_wake(int fd);

/* Take what is in it, or in a timerfd. 0: nothing. Never blocks. */
uint64_t spotnik_wake_take(int fd);

#endif
