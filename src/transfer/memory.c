/* SPDX-License-Identifier: Apache-2.0 */
/* Warm memory. */
#include "transfer/memory.h"

#include <stddef.h>
#include <sys/mman.h>

#define PAGE_BYTES 4096

void *spotnik_memory_warm(uint64_t bytes, void (*between)(void *context), void *context)
{
    volatile uint8_t *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    for (uint64_t at = 0; at < bytes; at += PAGE_BYTES) {
        if (between && at && at % SPOTNIK_MEMORY_PIECE_BYTES == 0)
            between(context);
        memory[at] = 0;
    }
    return (void *)memory;
}
