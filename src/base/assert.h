/* SPDX-License-Identifier: Apache-2.0 */
/* Assertions that stay on in release: a crash is one more revocation, which the design survives;
 * corrupt weights are not. For our own invariants only, never for bytes from a peer, a disk, the
 * environment or a user. */
#ifndef SPOTNIK_BASE_ASSERT_H
#define SPOTNIK_BASE_ASSERT_H

/* Writes one line to stderr and aborts. Nothing else in the library speaks by itself. */
void spotnik_assert_fail(const char *expression, const char *file, int line)
    __attribute__((noreturn, cold));

/* The same for what the program has done to us: the line is this sentence. */
void spotnik_assert_say(const char *sentence) __attribute__((noreturn, cold));

/* The failed thread calls this once before the end, with its message; NULL: it calls nothing. Must
 * not lock, allocate or return late. The flight recorder sets it (record/dump.c). */
extern void (*spotnik_assert_last_words)(const char *what);

#define SPOTNIK_ASSERT(expression)                                                                 \
    ((expression) ? (void)0 : spotnik_assert_fail(#expression, __FILE__, __LINE__))

#endif
