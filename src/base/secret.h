/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for a key: pages of its own, which are not swapped out and are left out of core dumps, as
 * far as the system allows it. One owner; everybody else keeps the pointer and makes no copy. */
#ifndef SPOTNIK_BASE_SECRET_H
#define SPOTNIK_BASE_SECRET_H

#include <stddef.h>
#include <stdint.h>

/* `size` zeros. NULL: no memory. */
uint8_t *spotnik_secret_new(size_t size);

/* Wiped and given back. NULL: does nothing. */
void spotnik_secret_free(uint8_t *secret, size_t size);

#endif
