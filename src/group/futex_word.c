/* SPDX-License-Identifier: Apache-2.0 */
#include "group/futex_word.h"

#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/time.h"

void spotnik_futex_word_wait(uint32_t *word, uint32_t value, uint64_t until_ns)
{
    struct timespec until = spotnik_clock_timespec(until_ns);
    /* the call with a bit set takes an instant, the plain one a span */
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, until_ns == SPOTNIK_NEVER ? NULL : &until,
            NULL, FUTEX_BITSET_MATCH_ANY);
}

void spotnik_futex_word_wake(uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void spotnik_futex_word_ring(uint32_t *word)
{
    __atomic_add_fetch(word, 1, __ATOMIC_SEQ_CST);
    spotnik_futex_word_wake(word);
}
