/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the state transfer. */
#include "transfer/thread.h"

#include <errno.h>
#include <signal.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define STACK_BYTES (512u << 10)

int spotnik_thread_start(void *(*run)(void *), void *argument, pthread_t *ret_thread)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    sigfillset(&all);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    if (!ret_thread)
        pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread, &attributes, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (failure) {
        errno = failure;
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread: %m");
    }
    if (ret_thread)
        *ret_thread = thread;
    return 0;
}
