/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the state transfer: small stacks, and no signal is ever delivered to them, since
 * handlers belong to the user's program. Decides nothing. */
#ifndef SPOTNIK_TRANSFER_THREAD_H
#define SPOTNIK_TRANSFER_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Start a thread, detached when ret_thread is NULL. 0 or SPOTNIK_ERR_SYSTEM. */
int spotnik_thread_start(void *(*run)(void *), void *argument, pthread_t *ret_thread);

#endif
