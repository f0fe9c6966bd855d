/* SPDX-License-Identifier: Apache-2.0 */
/* Death certificates: owning our word, watching the words of others. Decides nothing about what a
 * death means. */
#include "link/death.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/hurry.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/wake.h"
#include "link/slots.h"
#include "member/view.h"
#include "spotnik/spotnik.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* One waiter is woken by the kernel and wakes the others; if that one is dying itself, the others
 * look for themselves this much later. */
#define WATCH_AGAIN_NS (100 * SPOTNIK_MS)
/* Without futex_waitv() the watcher waits on its control word alone, and looks at the others this
 * often. */
#define LOOK_NS (5 * SPOTNIK_MS)

struct target {
    struct spotnik_id peer;
    bool proven;
};

struct spotnik_death {
    struct spotnik_slots *slots;
    struct spotnik_slot *own; /* NULL: another runtime of this process has the slot */
    int wake_fd;
    struct robust_list_head robust; /* read by the kernel when the progress thread ends */
    struct robust_list node;
    void *libc_robust; /* what the C library had registered for the thread */
    bool has_waitv;
    pthread_t watcher;
    uint32_t control;              /* futex: changes when the watcher must look again; atomic */
    uint32_t stopping, leave_seen; /* atomic */
    pthread_mutex_t lock;          /* of everything below */
    uint32_t target_count, proven_count;
    struct target target[SPOTNIK_DEATH_WATCHED_MAX];
    struct certificate {
        struct spotnik_id peer;
        uint64_t epoch;
    } proven[SPOTNIK_DEATH_WATCHED_MAX];
};

static void futex_wake_all(uint32_t *word, int flags)
{
    syscall(SYS_futex, word, FUTEX_WAKE | flags, INT_MAX, NULL, NULL, 0);
}

static void watcher_nudge(struct spotnik_death *death)
{
    __atomic_add_fetch(&death->control, 1, __ATOMIC_SEQ_CST);
    futex_wake_all(&death->control, FUTEX_PRIVATE_FLAG);
}

static void driver_wake(const struct spotnik_death *death)
{
    spotnik_wake(death->wake_fd);
}

/* Under the lock. A certificate that was not fetched in time may be dropped: EOF follows. */
static void certificate_add(struct spotnik_death *death, struct target *target, uint64_t epoch)
{
    target->proven = true;
    if (death->proven_count < SPOTNIK_DEATH_WATCHED_MAX)
        death->proven[death->proven_count++] = (struct certificate){ target->peer, epoch };
    driver_wake(death);
}

/* Look at the word of one target, under the lock. True: it lives, and *ret_waiter is how to wait
 * for its end. */
static bool target_look(struct spotnik_death *death, struct target *target,
                        struct futex_waitv *ret_waiter)
{
    if (target->proven)
        return false;
    uint32_t index = spotnik_slots_find(death->slots, target->peer);
    if (index == UINT32_MAX)
        return false;
    struct spotnik_slot *slot = &death->slots->slot[index];
    uint32_t word = __atomic_load_n(&slot->word, __ATOMIC_SEQ_CST);
    uint64_t epoch = __atomic_load_n(&slot->epoch, __ATOMIC_SEQ_CST);
    struct spotnik_id owner;
    /* The agent may have given the slot to another process in between: then word and epoch say
     * nothing about our target. */
    if (!spotnik_slots_member(death->slots, index, &owner)
        || !spotnik_id_equal(owner, target->peer))
        return false;
    if ((word & FUTEX_OWNER_DIED) != 0) {
        futex_wake_all(&slot->word, 0);
        certificate_add(death, target, epoch);
        return false;
    }
    if ((word & FUTEX_TID_MASK) == 0)
        return false; /* ended in good order: no certificate */
    *ret_waiter =
        (struct futex_waitv){ .val = word, .uaddr = (uintptr_t)&slot->word, .flags = FUTEX_32 };
    return true;
}

/* Everything to wait for: the control word, the agent's request, the living targets. */
static uint32_t waiters_build(struct spotnik_death *death, struct futex_waitv *waiter)
{
    uint32_t count = 0;
    pthread_mutex_lock(&death->lock);
    uint32_t control = __atomic_load_n(&death->control, __ATOMIC_SEQ_CST);
    waiter[count++] = (struct futex_waitv){ .val = control,
                                            .uaddr = (uintptr_t)&death->control,
                                            .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG };
    if (death->own != NULL && __atomic_load_n(&death->leave_seen, __ATOMIC_SEQ_CST) == 0)
        waiter[count++] = (struct futex_waitv){ .val = 0,
                                                .uaddr = (uintptr_t)&death->own->leave_request,
                                                .flags = FUTEX_32 };
    for (uint32_t i = 0; i < death->target_count; i++)
        count += target_look(death, &death->target[i], &waiter[count]);
    pthread_mutex_unlock(&death->lock);
    return count;
}

static void leave_request_look(struct spotnik_death *death)
{
    if (death->own == NULL || __atomic_load_n(&death->leave_seen, __ATOMIC_SEQ_CST) != 0)
        return;
    if (__atomic_load_n(&death->own->leave_request, __ATOMIC_SEQ_CST) == 0)
        return;
    __atomic_store_n(&death->leave_seen, 1, __ATOMIC_SEQ_CST);
    driver_wake(death);
}

/* A kernel without the call says ENOSYS; one that has it objects to an empty list with EINVAL. */
static bool kernel_has_waitv(void)
{
    return syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) == -1 && errno != ENOSYS && errno != EPERM;
}

static void watcher_wait(const struct spotnik_death *death, struct futex_waitv *waiter,
                         uint32_t count)
{
    uint64_t limit_ns = death->has_waitv ? WATCH_AGAIN_NS : LOOK_NS;
    struct timespec until = spotnik_clock_timespec(spotnik_clock_ns() + limit_ns);

    if (death->has_waitv)
        syscall(SYS_futex_waitv, waiter, count, 0, &until, CLOCK_MONOTONIC);
    else
        syscall(SYS_futex, &death->control, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG,
                (uint32_t)waiter[0].val, &until, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void *watcher_main(void *context)
{
    struct spotnik_death *death = context;
    struct futex_waitv waiter[SPOTNIK_DEATH_WATCHED_MAX + 2];
    spotnik_thread_hurry();
    while (__atomic_load_n(&death->stopping, __ATOMIC_SEQ_CST) == 0) {
        leave_request_look(death);
        uint32_t count = waiters_build(death, waiter);
        watcher_wait(death, waiter, count);
    }
    return NULL;
}

static bool number_from_environment(const char *name, uint32_t *ret)
{
    const char *text = getenv(name);
    if (text == NULL || *text == '\0')
        return false;
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (errno != 0 || *end != '\0' || value > INT_MAX)
        return false;
    *ret = (uint32_t)value;
    return true;
}

/* A launcher between the agent and this process (accelerate launch, multiprocessing) closes
 * descriptors and keeps the environment. The agent still has the table open, and belongs to the
 * same user. */
static int table_map(uint32_t fd, struct spotnik_slots **ret_slots)
{
    char path[48];
    uint32_t agent;
    int rc = spotnik_slots_map((int)fd, ret_slots);
    if (rc != 0 || *ret_slots != NULL || !number_from_environment("SPOTNIK_SLOTS_PID", &agent))
        return rc;
    snprintf(path, sizeof path, "/proc/%u/fd/%u", agent, fd);
    int again = open(path, O_RDWR | O_CLOEXEC);
    if (again < 0)
        return 0;
    rc = spotnik_slots_map(again, ret_slots);
    close(again);
    return rc;
}

static int watcher_start(struct spotnik_death *death)
{
    int rc = spotnik_thread_create(&death->watcher, watcher_main, death);
    if (rc == 0)
        return 0;
    errno = rc;
    return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot start the watcher thread: %m");
}

int spotnik_death_new(int wake_fd, struct spotnik_death **ret_death)
{
    uint32_t fd, index;
    *ret_death = NULL;
    if (!number_from_environment("SPOTNIK_SLOTS_FD", &fd)
        || !number_from_environment("SPOTNIK_SLOT", &index))
        return 0;
    struct spotnik_death *death = calloc(1, sizeof *death);
    if (death == NULL)
        return SPOTNIK_ERR_MEMORY;
    int rc = table_map(fd, &death->slots);
    if (rc == 0 && death->slots == NULL) {
        free(death);
        return 0;
    }
    if (rc == 0 && index >= death->slots->count)
        rc = spotnik_error_return(SPOTNIK_ERR_ARGUMENT, "SPOTNIK_SLOT %u is beyond the table",
                                  index);
    if (rc == 0) {
        death->own = &death->slots->slot[index];
        death->wake_fd = wake_fd;
        death->has_waitv = kernel_has_waitv();
        pthread_mutex_init(&death->lock, NULL);
        rc = watcher_start(death);
    }
    if (rc != 0) {
        spotnik_slots_unmap(death->slots);
        free(death);
        return rc;
    }
    *ret_death = death;
    return 0;
}

static void robust_register(struct spotnik_death *death)
{
    size_t size;
    if (syscall(SYS_get_robust_list, 0, &death->libc_robust, &size) != 0)
        death->libc_robust = NULL;
    death->node.next = &death->robust.list;
    death->robust.list.next = &death->node;
    death->robust.futex_offset = (long)((char *)&death->own->word - (char *)&death->node);
    death->robust.list_op_pending = NULL;
    syscall(SYS_set_robust_list, &death->robust, sizeof death->robust);
}

void spotnik_death_sign(struct spotnik_death *death, struct spotnik_id self)
{
    if (death == NULL)
        return;
    uint32_t free_word = 0, word = (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS;
    if (!__atomic_compare_exchange_n(&death->own->word, &free_word, word, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST)) {
        pthread_mutex_lock(&death->lock);
        death->own = NULL;
        pthread_mutex_unlock(&death->lock);
        return;
    }
    robust_register(death);
    spotnik_death_renew(death, self);
}

void spotnik_death_renew(struct spotnik_death *death, struct spotnik_id self)
{
    if (death == NULL || death->own == NULL)
        return;
    __atomic_store_n(&death->own->id_high, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&death->own->epoch, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&death->own->left, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&death->own->committed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&death->own->id_low, self.low, __ATOMIC_SEQ_CST);
    __atomic_store_n(&death->own->id_high, self.high, __ATOMIC_SEQ_CST);
}

void spotnik_death_move_on(struct spotnik_death *death, uint64_t epoch)
{
    if (death == NULL || death->own == NULL)
        return;
    if (epoch > __atomic_load_n(&death->own->epoch, __ATOMIC_SEQ_CST))
        __atomic_store_n(&death->own->epoch, epoch, __ATOMIC_SEQ_CST);
}

void spotnik_death_unsign(struct spotnik_death *death)
{
    if (death == NULL || death->own == NULL)
        return;
    __atomic_store_n(&death->own->word, 0, __ATOMIC_SEQ_CST);
    futex_wake_all(&death->own->word, 0);
    death->robust.list.next = &death->robust.list;
    syscall(SYS_set_robust_list, death->libc_robust, sizeof death->robust);
}

static bool target_is_proven(const struct target *target, uint32_t count, struct spotnik_id peer)
{
    for (uint32_t i = 0; i < count; i++)
        if (spotnik_id_equal(target[i].peer, peer))
            return target[i].proven;
    return false;
}

void spotnik_death_watch(struct spotnik_death *death, const struct spotnik_id *peer, uint32_t count)
{
    if (death == NULL)
        return;
    if (count > SPOTNIK_DEATH_WATCHED_MAX)
        count = SPOTNIK_DEATH_WATCHED_MAX;
    struct target target[SPOTNIK_DEATH_WATCHED_MAX];
    memset(target, 0, sizeof target); /* compared as bytes */
    pthread_mutex_lock(&death->lock);
    for (uint32_t i = 0; i < count; i++) {
        target[i].peer = peer[i];
        target[i].proven = target_is_proven(death->target, death->target_count, peer[i]);
    }
    bool same =
        count == death->target_count && memcmp(death->target, target, count * sizeof *target) == 0;
    memcpy(death->target, target, count * sizeof *target);
    death->target_count = count;
    pthread_mutex_unlock(&death->lock);
    if (!same)
        watcher_nudge(death);
}

bool spotnik_death_take(struct spotnik_death *death, struct spotnik_id *ret_peer,
                        uint64_t *ret_epoch)
{
    if (death == NULL)
        return false;
    pthread_mutex_lock(&death->lock);
    bool found = death->proven_count > 0;
    if (found) {
        const struct certificate *certificate = &death->proven[--death->proven_count];
        *ret_peer = certificate->peer;
        *ret_epoch = certificate->epoch;
    }
    pthread_mutex_unlock(&death->lock);
    return found;
}

/* The word itself: the agent may insist before the watcher has seen what it asked. */
bool spotnik_death_leave_requested(const struct spotnik_death *death)
{
    return death != NULL
           && (__atomic_load_n(&death->leave_seen, __ATOMIC_SEQ_CST) != 0
               || (death->own != NULL
                   && __atomic_load_n(&death->own->leave_request, __ATOMIC_SEQ_CST) != 0));
}

void spotnik_death_free(struct spotnik_death *death)
{
    if (death == NULL)
        return;
    __atomic_store_n(&death->stopping, 1, __ATOMIC_SEQ_CST);
    watcher_nudge(death);
    pthread_join(death->watcher, NULL);
    pthread_mutex_destroy(&death->lock);
    spotnik_slots_unmap(death->slots);
    free(death);
}

static void put(uint64_t *to, double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof bits);
    __atomic_store_n(to, bits, __ATOMIC_RELAXED);
}

void spotnik_death_tell_waiting(struct spotnik_death *death, uint64_t ms, uint64_t of_ms)
{
    struct spotnik_slots *slots = death != NULL && death->own != NULL ? death->slots : NULL;

    if (slots != NULL)
        spotnik_slots_wait_set(slots, ms, of_ms);
}

void spotnik_death_tell(struct spotnik_death *death, uint64_t step, uint64_t what, double value,
                        double limit)
{
    struct spotnik_slot *own = death != NULL ? death->own : NULL;

    if (own == NULL)
        return;
    __atomic_store_n(&own->told_what, what, __ATOMIC_RELAXED);
    put(&own->told_value, value);
    put(&own->told_limit, limit);
    __atomic_store_n(&own->told_step, step, __ATOMIC_RELEASE);
}

void spotnik_death_progress(struct spotnik_death *death, uint64_t committed)
{
    if (death != NULL && death->own != NULL)
        __atomic_store_n(&death->own->committed, committed, __ATOMIC_RELEASE);
}

void spotnik_death_waits(struct spotnik_death *death, uint32_t size, uint32_t needed)
{
    struct spotnik_slot *own = death != NULL ? death->own : NULL;

    if (own == NULL || (needed == 0 && __atomic_load_n(&own->needed, __ATOMIC_RELAXED) == 0))
        return;
    __atomic_store_n(&own->size, size, __ATOMIC_RELAXED);
    __atomic_store_n(&own->needed, needed, __ATOMIC_RELEASE);
}

void spotnik_death_rank(struct spotnik_death *death, uint32_t rank)
{
    if (death != NULL && death->own != NULL)
        __atomic_store_n(&death->own->place, rank == SPOTNIK_NO_RANK ? 0 : rank + 1,
                         __ATOMIC_RELEASE);
}

void spotnik_death_over(struct spotnik_death *death, bool late)
{
    if (death != NULL && death->own != NULL)
        __atomic_store_n(&death->own->done, late ? SPOTNIK_SLOT_LATE : 1, __ATOMIC_RELEASE);
}

void spotnik_death_left(struct spotnik_death *death, bool last)
{
    if (death != NULL && death->own != NULL)
        __atomic_store_n(&death->own->left, last ? SPOTNIK_SLOT_LAST : 1, __ATOMIC_RELEASE);
}

void spotnik_death_refused(struct spotnik_death *death)
{
    if (death != NULL && death->own != NULL)
        __atomic_store_n(&death->own->refused, 1, __ATOMIC_RELEASE);
}

void spotnik_death_minority(struct spotnik_death *death, uint64_t step, uint64_t digest)
{
    if (death == NULL || death->own == NULL)
        return;
    __atomic_store_n(&death->own->minority_digest, digest, __ATOMIC_RELAXED);
    __atomic_store_n(&death->own->minority_step, step, __ATOMIC_RELEASE);
}

void spotnik_death_checkpoint(struct spotnik_death *death, bool failed, uint64_t completed)
{
    if (death == NULL || death->own == NULL)
        return;
    __atomic_store_n(&death->own->checkpoint, failed ? SPOTNIK_SLOT_FAILED : 1, __ATOMIC_RELEASE);
    if (completed)
        __atomic_store_n(&death->slots->completed, completed, __ATOMIC_RELEASE);
}

bool spotnik_death_is_heard(const struct spotnik_death *death)
{
    return death != NULL && __atomic_load_n(&death->slots->listens, __ATOMIC_ACQUIRE) != 0;
}

void spotnik_death_say(struct spotnik_death *death, uint32_t kind, uint64_t epoch, const char *text)
{
    struct spotnik_slot_line line = { .epoch = epoch, .kind = kind };

    if (!spotnik_death_is_heard(death) || death->own == NULL)
        return;
    snprintf(line.text, sizeof line.text, "%s", text);
    spotnik_slots_line_add(death->slots, (uint32_t)(death->own - death->slots->slot), &line);
}

uint32_t spotnik_death_start(const struct spotnik_death *death)
{
    if (death == NULL || __atomic_load_n(&death->slots->gathered, __ATOMIC_ACQUIRE) != 0)
        return 0;
    return __atomic_load_n(&death->slots->start, __ATOMIC_RELAXED);
}

void spotnik_death_origin_set(struct spotnik_death *death, uint64_t step)
{
    if (death != NULL)
        __atomic_store_n(&death->slots->origin, step, __ATOMIC_RELEASE);
}

uint64_t spotnik_death_origin(const struct spotnik_death *death)
{
    return death != NULL ? __atomic_load_n(&death->slots->origin, __ATOMIC_ACQUIRE) : 0;
}

void spotnik_death_gathered(struct spotnik_death *death, uint32_t size)
{
    uint32_t start = spotnik_death_start(death);

    if (start != 0 && size >= start)
        __atomic_store_n(&death->slots->gathered, 1, __ATOMIC_RELEASE);
}
