/* SPDX-License-Identifier: Apache-2.0 */
/* Copying results to the caller. Decides when a copy goes past the caches. A bucket that would not
 * stay in them anyway is written without being read first. It does not push out what the next step
 * sends. */
#ifndef SPOTNIK_BASE_COPY_H
#define SPOTNIK_BASE_COPY_H

#include <stddef.h>

/* From here on memory is slower than the caches are small. glibc uses three quarters of what it
 * takes for the last cache's size. Under virtualisation that may be the whole host's (288 MiB where
 * 32 were ours). */
#define SPOTNIK_COPY_PAST_CACHES ((size_t)16 << 20)

/* memcpy() of a piece of something that has `whole` bytes. */
void spotnik_copy(void *to, const void *from, size_t bytes, size_t whole);

#endif
