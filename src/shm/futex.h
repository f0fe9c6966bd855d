/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for others in shared memory. Spin for a short while, if every member has a processor.
 * Then sleep, on the futex words of the awaited members and on a word of our own process. No waiter
 * burns a processor that another thread needs.
 *
 * A spinning member watches the very sequence numbers that it waits for, and tells no other. A
 * sleeping member sets `waiting` first, and only then do others ring futex words. A futex word
 * is one more cache line that travels between processors, and ringing it is a system call. */
#ifndef SPOTNIK_SHM_FUTEX_H
#define SPOTNIK_SHM_FUTEX_H

#include <stdbool.h>
#include <stdint.h>

#include "shm/flat.h"

#define SPOTNIK_BELLS_MAX 32

/* The futex words to wait for, each with the last value that was seen. */
struct spotnik_futexes {
    uint32_t count;
    struct {
        const uint32_t *futex;
        uint32_t heard;
    } of[SPOTNIK_BELLS_MAX];
};

#define SPOTNIK_WATCH_MAX 8

/* Tickets, with what they say when they are up. */
struct spotnik_watch {
    uint32_t count;
    struct {
        const uint64_t *sequence;
        uint64_t value;
    } of[SPOTNIK_WATCH_MAX];
};

/* What all active buckets wait for. False: they cannot be watched so. */
bool spotnik_watch_take(const struct spotnik_flat *flat, struct spotnik_watch *ret);

/* About a microsecond, so short that a lock may be held meanwhile. True: one of them is up. */
bool spotnik_watch_glance(const struct spotnik_watch *watch);

/* For `spin_ns` at most. True: one of them is up, or `word` is not `value` any more. */
bool spotnik_watch_look(const struct spotnik_watch *watch, const uint32_t *word, uint32_t value,
                        uint64_t spin_ns);

/* Say that we are about to wait: from now on others wake us. Look at sequence numbers again after
 * it. */
void spotnik_futexes_listen(struct spotnik_flat *flat, struct spotnik_futexes *ret);
void spotnik_futexes_ignore(struct spotnik_shm_header *own);

/* Did any of them ring, or `word` change from `value`? */
bool spotnik_futexes_rang(const struct spotnik_futexes *futexes, const uint32_t *word,
                          uint32_t value);

/* Look for `spin_ns` at most, then sleep until `until_ns` at most (CLOCK_MONOTONIC). True: looking
 * was enough. */
bool spotnik_futexes_wait(const struct spotnik_futexes *futexes, const uint32_t *word,
                          uint32_t value, uint64_t spin_ns, uint64_t until_ns);

/* We have put up a sequence number: ring our futex word for sleepers. */
void spotnik_futexes_wake(const struct spotnik_flat *flat);

/* Wake the threads of this process that wait with `word`, which has been changed. */
void spotnik_futexes_word_wake(uint32_t *word);

#endif
