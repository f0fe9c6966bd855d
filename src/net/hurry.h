/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling of our own threads. */
#ifndef SPOTNIK_NET_HURRY_H
#define SPOTNIK_NET_HURRY_H

#include <stdint.h>

/* Ask for short slices of the processor for the calling thread (Linux 6.12 and later; elsewhere nothing
 * happens). */
void spotnik_thread_hurry(void);

/* To the processor with that number among those that this thread may use (modulo how many there are), now; it may leave it at once. The
 * kernel puts whom it wakes beside who woke it, and takes tens of milliseconds to find that two that wait for each other would
 * rather have a processor each. */
void spotnik_thread_spread(uint32_t number);

#endif
