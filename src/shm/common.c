/* SPDX-License-Identifier: Apache-2.0 */
/* memfd and seals. */
#include "shm/common.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "spotnik/spotnik.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static int map(int fd, size_t bytes, void **ret_base)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot map %zu bytes of shared memory: %m",
                                    bytes);
    madvise(base, bytes, MADV_DONTFORK);
    *ret_base = base;
    return 0;
}

int spotnik_common_new(size_t bytes, int *ret_fd, void **ret_base)
{
    int fd = memfd_create("spotnik", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    if (fd < 0)
        return spotnik_error_return(SPOTNIK_ERR_SYSTEM, "cannot make shared memory: %m");
    /* Allocate pages now: later only a signal reports that memory has run out. */
    int rc = fallocate(fd, 0, 0, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, SEALS)
                 ? spotnik_error_return(SPOTNIK_ERR_SYSTEM,
                                        "cannot have %zu bytes of shared memory: %m", bytes)
                 : map(fd, bytes, ret_base);
    if (rc) {
        close(fd);
        return rc;
    }
    *ret_fd = fd;
    return 0;
}

int spotnik_common_map(int fd, size_t bytes, void **ret_base)
{
    struct stat status;
    int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &status) != 0
        || (uint64_t)status.st_size != bytes)
        return spotnik_error_return(SPOTNIK_ERR_PEERS,
                                    "a member offered memory of another size, or that can change");
    return map(fd, bytes, ret_base);
}

void spotnik_common_unmap(void *base, size_t bytes)
{
    if (base)
        munmap(base, bytes);
}
