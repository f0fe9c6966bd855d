/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes that may be a gzip stream. */
#ifndef SPOTNIK_PLANNER_GUNZIP_H
#define SPOTNIK_PLANNER_GUNZIP_H

#include <stddef.h>

/* Replaces *bytes (of malloc) by what it holds, with a NUL behind it; what is no gzip stream stays.
 * Returns -1 for a stream that is damaged, ends early or is too large; then *bytes stays. */
int spotnik_gunzip(char **bytes, size_t *size);

#endif
