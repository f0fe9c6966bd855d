/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling of our own threads. */
#ifndef SPOTNIK_BASE_HURRY_H
#define SPOTNIK_BASE_HURRY_H

#include <stdint.h>

/* Ask for short slices of the processor for the calling thread (Linux 6.12 and later; elsewhere
 * nothing happens). */
void spotnik_thread_hurry(void);

/* Move this thread to the processor of that number among those that it may use (modulo their
 * count), now; it may leave it at once. The kernel places a woken thread beside its waker. It takes
 * tens of milliseconds to find that two threads that wait for each other want a processor each. */
void spotnik_thread_spread(uint32_t number);

#endif
