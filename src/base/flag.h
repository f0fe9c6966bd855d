/* SPDX-License-Identifier: Apache-2.0 */
/* A flag that one thread waits for and others raise. Semaphores wait by the wall clock, which
 * steps, before glibc 2.30. */
#ifndef SPOTNIK_BASE_FLAG_H
#define SPOTNIK_BASE_FLAG_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct spotnik_flag {
    pthread_mutex_t lock;
    pthread_cond_t raised;
    bool is_raised;
};

void spotnik_flag_init(struct spotnik_flag *flag);
void spotnik_flag_destroy(struct spotnik_flag *flag);

/* Any thread. */
void spotnik_flag_raise(struct spotnik_flag *flag);

/* Wait until the flag is raised, and lower it. False: the time is over. */
bool spotnik_flag_wait(struct spotnik_flag *flag, uint64_t timeout_ns);

#endif
