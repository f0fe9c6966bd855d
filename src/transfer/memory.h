/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for a copy of the state, touched by the thread that asks for it, so that the copy finds it
 * warm. Page by page: MAP_POPULATE would hold the memory map of the process for as long as it takes
 * (0.4 s for 1 GiB). Every thread that needs a page would wait, above all the one that trains.
 * Decides nothing. */
#ifndef SPOTNIK_TRANSFER_MEMORY_H
#define SPOTNIK_TRANSFER_MEMORY_H

#include <stdint.h>

#define SPOTNIK_MEMORY_PIECE_BYTES (UINT64_C(64) << 20)

/* NULL: there is none. Give it back with munmap(). bytes > 0. `between`, unless it is NULL, is
 * called after each piece, as all of it may take long. */
void *spotnik_memory_warm(uint64_t bytes, void (*between)(void *context), void *context);

#endif
