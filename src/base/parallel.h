/* SPDX-License-Identifier: Apache-2.0 */
/* Independent calls, several at once. Decides nothing about what they do. */
#ifndef SPOTNIK_BASE_PARALLEL_H
#define SPOTNIK_BASE_PARALLEL_H

#include <stdint.h>

#define SPOTNIK_PARALLEL_MAX 16

/* Call each(context, number) for every number below `count`, in `threads` threads at most, of which
 * this is one. After a failure no further call begins. Returns the first failure, with what
 * spotnik_last_error() was there; or 0. Blocking. */
int spotnik_parallel(uint32_t count, uint32_t threads, int (*each)(void *context, uint32_t number),
                     void *context);

#endif
