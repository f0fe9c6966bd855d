/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel wakes one of those that sleep on a dead process's word; that one wakes the others, and
 * ends. */
#include "group/process_watch.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hurry.h"
#include "base/thread.h"
#include "base/time.h"
#include "group/futex_word.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* The one that was woken may be dying itself: the others look for themselves so much later. */
#define LOOK_AGAIN_NS (100 * SPOTNIK_MS)

struct spotnik_process_watch {
    struct spotnik_group_control *control;
    uint32_t rank;
    void (*on_notice)(void *context);
    void *context;
    pthread_t thread;
    uint32_t is_signed, stopping;   /* futexes; atomic */
    bool told;                      /* of the notice */
    struct robust_list_head robust; /* read by the kernel when the thread ends */
    struct robust_list node;
    void *libc_robust; /* what the C library had registered for the thread */
};

static void word_own(struct spotnik_process_watch *watch)
{
    uint32_t *word = &watch->control->process[watch->rank].word;
    size_t size;

    if (syscall(SYS_get_robust_list, 0, &watch->libc_robust, &size) != 0)
        watch->libc_robust = NULL;
    watch->node.next = &watch->robust.list;
    watch->robust.list.next = &watch->node;
    watch->robust.futex_offset = (long)((char *)word - (char *)&watch->node);
    syscall(SYS_set_robust_list, &watch->robust, sizeof watch->robust);
    /* last: a word that is owned is released, whenever this thread ends */
    __atomic_store_n(word, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS, __ATOMIC_SEQ_CST);
}

static void word_give_back(struct spotnik_process_watch *watch)
{
    uint32_t *word = &watch->control->process[watch->rank].word;

    __atomic_store_n(word, 0, __ATOMIC_SEQ_CST);
    spotnik_futex_word_wake(word);
    watch->robust.list.next = &watch->robust.list;
    syscall(SYS_set_robust_list, watch->libc_robust, sizeof watch->robust);
}

static void notice_look(struct spotnik_process_watch *watch)
{
    if (watch->told || watch->on_notice == NULL
        || __atomic_load_n(&watch->control->noticed, __ATOMIC_SEQ_CST) == 0)
        return;
    watch->told = true;
    watch->on_notice(watch->context);
}

static struct futex_waitv waiter_of(const uint32_t *word, uint32_t value)
{
    return (struct futex_waitv){ .val = value, .uaddr = (uintptr_t)word, .flags = FUTEX_32 };
}

/* What to sleep on. Does not return where another process has died. */
static uint32_t waiters_build(struct spotnik_process_watch *watch, struct futex_waitv *waiter)
{
    struct spotnik_group_control *control = watch->control;
    uint32_t count = 0;

    waiter[count++] = waiter_of(&watch->stopping, 0);
    waiter[count++] = waiter_of(&control->here, __atomic_load_n(&control->here, __ATOMIC_SEQ_CST));
    if (watch->on_notice != NULL && !watch->told)
        waiter[count++] = waiter_of(&control->noticed, 0);
    for (uint32_t rank = 0; rank < control->size; rank++) {
        uint32_t *word = &control->process[rank].word;
        uint32_t value = __atomic_load_n(word, __ATOMIC_SEQ_CST);
        if ((value & FUTEX_OWNER_DIED) != 0) {
            spotnik_futex_word_wake(word);
            kill(getpid(), SIGKILL);
        }
        if (rank != watch->rank && (value & FUTEX_TID_MASK) != 0)
            waiter[count++] = waiter_of(word, value);
    }
    return count;
}

static void *watch_main(void *context)
{
    struct spotnik_process_watch *watch = context;
    struct futex_waitv waiter[SPOTNIK_GROUP_PROCESSES_MAX + 3];

    spotnik_thread_hurry();
    word_own(watch);
    spotnik_futex_word_ring(&watch->is_signed);
    while (__atomic_load_n(&watch->stopping, __ATOMIC_SEQ_CST) == 0) {
        notice_look(watch);
        uint32_t count = waiters_build(watch, waiter);
        struct timespec until = spotnik_clock_timespec(spotnik_clock_ns() + LOOK_AGAIN_NS);
        syscall(SYS_futex_waitv, waiter, count, 0, &until, CLOCK_MONOTONIC);
    }
    word_give_back(watch);
    return NULL;
}

/* A kernel without the call says ENOSYS; one that has it objects to an empty list with EINVAL. */
static bool kernel_can(void)
{
    return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == -1 && errno != ENOSYS && errno != EPERM;
}

int spotnik_process_watch_start(struct spotnik_group_control *control, uint32_t rank,
                                void (*on_notice)(void *context), void *context,
                                struct spotnik_process_watch **ret_watch)
{
    if (!kernel_can())
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                    "groups need futex_waitv (Linux 5.16), which this kernel or "
                                    "its sandbox does not allow");
    struct spotnik_process_watch *watch = calloc(1, sizeof *watch);
    if (watch == NULL)
        return spotnik_error_return(SPOTNIK_ERR_MEMORY, "no memory for a group");
    watch->control = control;
    watch->rank = rank;
    watch->on_notice = on_notice;
    watch->context = context;
    int rc = spotnik_thread_create(&watch->thread, watch_main, watch);
    if (rc != 0) {
        free(watch);
        errno = rc;
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start a thread for a group: %m");
    }
    while (__atomic_load_n(&watch->is_signed, __ATOMIC_SEQ_CST) == 0)
        spotnik_futex_word_wait(&watch->is_signed, 0, SPOTNIK_NEVER);
    *ret_watch = watch;
    return 0;
}

void spotnik_process_watch_stop(struct spotnik_process_watch *watch)
{
    if (watch == NULL)
        return;
    spotnik_futex_word_ring(&watch->stopping);
    pthread_join(watch->thread, NULL);
    free(watch);
}
