/* SPDX-License-Identifier: Apache-2.0 */
/* Large pages by madvise(); what the kernel refuses stays in small ones. */
#include "base/large.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define LARGE ((size_t)2 << 20) /* a large page; on machines where it is more, some stay small */
#define PAGE ((size_t)4096)
#define WORTH (2 * LARGE)

void *spotnik_large_alloc(size_t bytes)
{
    size_t unit = bytes < WORTH ? PAGE : LARGE, rounded = (bytes + unit - 1) & ~(unit - 1);
    void *memory = rounded >= bytes ? aligned_alloc(unit, rounded > 0 ? rounded : unit) : NULL;

    if (memory)
        spotnik_large_advise(memory, rounded);
    return memory;
}

void spotnik_large_advise(void *memory, size_t bytes)
{
    uintptr_t begin = ((uintptr_t)memory + PAGE - 1) & ~(PAGE - 1);

    if (bytes >= WORTH)
        madvise((void *)begin, bytes - (begin - (uintptr_t)memory), MADV_HUGEPAGE);
}
