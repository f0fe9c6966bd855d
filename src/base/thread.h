/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library take no signals. A program may block one after it has joined, to read it
 * from a descriptor or by sigwait(): the kernel would give it to a thread that does not block it,
 * and end the program. */
#ifndef SPOTNIK_BASE_THREAD_H
#define SPOTNIK_BASE_THREAD_H

#include <pthread.h>

/* As pthread_create(): 0 or an errno. */
int spotnik_thread_create(pthread_t *ret_thread, void *(*run)(void *), void *argument);

#endif
