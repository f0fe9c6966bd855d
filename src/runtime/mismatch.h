/* SPDX-License-Identifier: Apache-2.0 */
/* What to tell members of which two run different programs. */
#ifndef SPOTNIK_RUNTIME_MISMATCH_H
#define SPOTNIK_RUNTIME_MISMATCH_H

#include <stddef.h>

#include "core/core.h"

/* "in step 3, bucket 1, this member has ..., and member 2 at ... has ...". */
void spotnik_mismatch_text(const struct spotnik_mismatch *found, const struct spotnik_view *view,
                           struct spotnik_id self, char *text, size_t size);

#endif
