/* SPDX-License-Identifier: Apache-2.0 */
/* What to tell a member whose program differs from the others'. */
#ifndef SPOTNIK_ENGINE_MISMATCH_H
#define SPOTNIK_ENGINE_MISMATCH_H

#include <stddef.h>

#include "core/core.h"

/* ": in step 3, bucket 1, this member has ...; 2 of 3 members have ...", to put behind the error;
 * "" where nothing is known. */
void spotnik_mismatch_text(const struct spotnik_core *core, char *text, size_t size);

/* Write the same for two claims. `found` is the claim of `agreeing` of `members` members; 0: no
 * majority agrees. */
void spotnik_mismatch_say(const struct spotnik_claim *own, const struct spotnik_claim *found,
                          uint32_t agreeing, uint32_t members, char *text, size_t size);

#endif
