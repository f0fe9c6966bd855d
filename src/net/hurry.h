/* SPDX-License-Identifier: Apache-2.0 */
/* Scheduling of our own threads. */
#ifndef SPOTNIK_NET_HURRY_H
#define SPOTNIK_NET_HURRY_H

/* Ask for short slices of the processor for the calling thread (Linux 6.12 and later; elsewhere nothing
 * happens). */
void spotnik_thread_hurry(void);

#endif
