/* SPDX-License-Identifier: Apache-2.0 */
/* Futex words in memory that processes share. */
#ifndef SPOTNIK_GROUP_FUTEX_WORD_H
#define SPOTNIK_GROUP_FUTEX_WORD_H

#include <stdint.h>

/* Sleep while *word is `value`, until `until_ns` (CLOCK_MONOTONIC; SPOTNIK_NEVER: no limit). May
 * return early: look at the word again. */
void spotnik_futex_word_wait(uint32_t *word, uint32_t value, uint64_t until_ns);

/* Wake all that sleep on it. Async-signal-safe. */
void spotnik_futex_word_wake(uint32_t *word);

/* Change it, and wake them. Async-signal-safe. */
void spotnik_futex_word_ring(uint32_t *word);

#endif
