/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of many megabytes. */
#ifndef SPOTNIK_BASE_LARGE_H
#define SPOTNIK_BASE_LARGE_H

#include <stddef.h>

/* Memory for the caller to fill, freed by free(); aligned to a page at least. In large pages where
 * the kernel has them: first touches of 100 MiB take 13 ms so, and 60 ms in small pages. NULL:
 * there is none. */
void *spotnik_large_alloc(size_t bytes);

/* The same word for memory that was had elsewhere. */
void spotnik_large_advise(void *memory, size_t bytes);

#endif
