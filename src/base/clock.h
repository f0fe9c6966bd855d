/* SPDX-License-Identifier: Apache-2.0 */
/* The two clocks of the kernel that never step, in nanoseconds; waiting by the first of them. */
#ifndef SPOTNIK_BASE_CLOCK_H
#define SPOTNIK_BASE_CLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

uint64_t spotnik_clock_ns(void);      /* stands still while the host is suspended */
uint64_t spotnik_clock_boot_ns(void); /* runs on meanwhile */

struct timespec spotnik_clock_timespec(uint64_t ns);

/* A condition whose waits end by spotnik_clock_ns(). */
void spotnik_cond_init(pthread_cond_t *cond);

/* As pthread_cond_timedwait(). False: the time is over. */
bool spotnik_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns);

#endif
