/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that several processes of one host write together. It has no name: its creator passes the
 * file descriptor to processes that have proved the job key. It vanishes with the last process that
 * has it open or mapped. Seals fix its size for good, so no process can shrink it under another.
 * Decides nothing about its content. */
#ifndef SPOTNIK_SHM_COMMON_H
#define SPOTNIK_SHM_COMMON_H

#include <stddef.h>

/* New memory of `bytes` zeros, with pages behind it. 0, or SPOTNIK_ERR_SYSTEM (no memfd here, or no
 * memory). */
int spotnik_common_new(size_t bytes, int *ret_fd, void **ret_base);

/* Map what came from another. 0, SPOTNIK_ERR_PEERS when it is not such memory of that size, or
 * SPOTNIK_ERR_SYSTEM. */
int spotnik_common_map(int fd, size_t bytes, void **ret_base);

void spotnik_common_unmap(void *base, size_t bytes);

#endif
