/* SPDX-License-Identifier: Apache-2.0 */
/* futex calls. A sleeper puts up `waiting` before it looks at futex words, and then at sequence
 * numbers. The owner of a sequence number looks at `waiting` after putting it up. Both are in one
 * order for all, so the sleeper sees the sequence number, or the owner sees the sleeper and rings.
 */
#include "shm/futex.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

#define GLANCE 64
/* without futex_waitv: how long one futex word may keep us from hearing the others */
#define SLEEP_BLIND_NS SPOTNIK_MS

static void listen_to(struct spotnik_futexes *futexes, const uint32_t *futex)
{
    for (uint32_t i = 0; i < futexes->count; i++)
        if (futexes->of[i].futex == futex)
            return;
    futexes->of[futexes->count].futex = futex;
    futexes->of[futexes->count++].heard = __atomic_load_n(futex, __ATOMIC_SEQ_CST);
}

void spotnik_futexes_listen(struct spotnik_flat *flat, struct spotnik_futexes *ret)
{
    ret->count = 0;
    __atomic_store_n(&flat->peer[flat->rank].header->waiting, 1, __ATOMIC_SEQ_CST);
    /* sequence numbers are looked at after this, by whatever load */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < flat->last && ret->count < SPOTNIK_BELLS_MAX; i++) {
        uint32_t rank[2],
            count = spotnik_flat_is_active(flat, i) ? spotnik_flat_awaits(flat, i, rank) : 0;
        for (uint32_t k = 0; k < count && ret->count < SPOTNIK_BELLS_MAX; k++)
            listen_to(ret, &flat->peer[rank[k]].header->futex);
    }
}

void spotnik_futexes_ignore(struct spotnik_shm_header *own)
{
    __atomic_store_n(&own->waiting, 0, __ATOMIC_RELAXED);
}

bool spotnik_futexes_rang(const struct spotnik_futexes *futexes, const uint32_t *word,
                          uint32_t value)
{
    if (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        return true;
    for (uint32_t i = 0; i < futexes->count; i++)
        if (__atomic_load_n(futexes->of[i].futex, __ATOMIC_ACQUIRE) != futexes->of[i].heard)
            return true;
    return false;
}

static void pause_briefly(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

bool spotnik_watch_take(const struct spotnik_flat *flat, struct spotnik_watch *ret)
{
    ret->count = 0;
    for (uint32_t i = 0; i < flat->last; i++) {
        uint32_t rank[2];
        if (!spotnik_flat_is_active(flat, i) || spotnik_flat_awaits(flat, i, rank) == 0)
            continue;
        const uint64_t *sequence = spotnik_flat_awaited_sequence(flat, i);
        if (sequence == NULL || ret->count == SPOTNIK_WATCH_MAX)
            return false;
        ret->of[ret->count].sequence = sequence;
        ret->of[ret->count++].value = flat->bucket[i].order.sequence;
    }
    return ret->count > 0;
}

static bool is_up(const struct spotnik_watch *watch)
{
    for (uint32_t i = 0; i < watch->count; i++)
        if (spotnik_shm_header_hangs(watch->of[i].sequence, watch->of[i].value))
            return true;
    return false;
}

bool spotnik_watch_glance(const struct spotnik_watch *watch)
{
    for (int i = 0; i < GLANCE; i++) {
        if (is_up(watch))
            return true;
        pause_briefly();
    }
    return false;
}

bool spotnik_watch_look(const struct spotnik_watch *watch, const uint32_t *word, uint32_t value,
                        uint64_t spin_ns)
{
    uint64_t until_ns = spotnik_clock_ns() + spin_ns;
    do {
        if (spotnik_watch_glance(watch) || __atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
            return true;
    } while (spotnik_clock_ns() < until_ns);
    return false;
}

/* True: something rang. */
static bool look(const struct spotnik_futexes *futexes, const uint32_t *word, uint32_t value,
                 uint64_t spin_ns)
{
    uint64_t until_ns = spin_ns > 0 ? spotnik_clock_ns() + spin_ns : 0;
    do {
        for (int i = 0; i < 64; i++) {
            if (spotnik_futexes_rang(futexes, word, value))
                return true;
            if (spin_ns == 0)
                return false;
            pause_briefly();
        }
    } while (spotnik_clock_ns() < until_ns);
    return false;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){ .tv_sec = (time_t)(ns / SPOTNIK_S),
                              .tv_nsec = (long)(ns % SPOTNIK_S) };
}

/* One futex only: the first futex word, or the word; and not for long. */
static void sleep_blind(const struct spotnik_futexes *futexes, const uint32_t *word, uint32_t value)
{
    struct timespec most = timespec_of(SLEEP_BLIND_NS);
    const uint32_t *futex = futexes->count > 0 ? futexes->of[0].futex : word;
    uint32_t seen = futexes->count > 0 ? futexes->of[0].heard : value;
    syscall(SYS_futex, futex, futexes->count > 0 ? FUTEX_WAIT : FUTEX_WAIT_PRIVATE, seen, &most,
            NULL, 0);
}

bool spotnik_futexes_wait(const struct spotnik_futexes *futexes, const uint32_t *word,
                          uint32_t value, uint64_t spin_ns, uint64_t until_ns)
{
    struct futex_waitv waiter[SPOTNIK_BELLS_MAX + 1];
    struct timespec until = timespec_of(until_ns);
    uint32_t count = 0;
    if (look(futexes, word, value, spin_ns))
        return true;
    waiter[count++] = (struct futex_waitv){ .val = value,
                                            .uaddr = (uintptr_t)word,
                                            .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG };
    for (uint32_t i = 0; i < futexes->count; i++)
        waiter[count++] = (struct futex_waitv){ .val = futexes->of[i].heard,
                                                .uaddr = (uintptr_t)futexes->of[i].futex,
                                                .flags = FUTEX_32 };
    long rc = syscall(SYS_futex_waitv, waiter, count, 0, &until, CLOCK_MONOTONIC);
    if (rc < 0 && (errno == ENOSYS || errno == EPERM))
        sleep_blind(futexes, word, value);
    return false;
}

void spotnik_futexes_wake(const struct spotnik_flat *flat)
{
    uint32_t *futex = &flat->peer[flat->rank].header->futex;
    __atomic_thread_fence(__ATOMIC_SEQ_CST); /* sequence numbers were put up before it */
    for (uint32_t rank = 0; rank < flat->size; rank++)
        if (rank != flat->rank
            && __atomic_load_n(&flat->peer[rank].header->waiting, __ATOMIC_RELAXED) != 0) {
            __atomic_add_fetch(futex, 1, __ATOMIC_SEQ_CST);
            syscall(SYS_futex, futex, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
            return;
        }
}

void spotnik_futexes_word_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
