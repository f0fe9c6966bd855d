/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secret.h"

#include <string.h>
#include <sys/mman.h>

uint8_t *spotnik_secret_new(size_t size)
{
    void *pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (pages == MAP_FAILED)
        return NULL;
    madvise(pages, size, MADV_DONTDUMP);
    (void)!mlock(pages, size); /* RLIMIT_MEMLOCK may be 0, and the job goes on */
    return pages;
}

void spotnik_secret_free(uint8_t *secret, size_t size)
{
    if (secret == NULL)
        return;
    explicit_bzero(secret, size);
    munmap(secret, size);
}
