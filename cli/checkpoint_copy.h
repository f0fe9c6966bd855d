/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPOTNIK_CLI_CHECKPOINT_COPY_H
#define SPOTNIK_CLI_CHECKPOINT_COPY_H

#include <stdbool.h>

#include "checkpoint/signature.h"

/* Copy checkpoint `name` between two folders or buckets, byte for byte. *ret_verified: by `signer`,
 * or as an unsigned one; else its lengths alone were. 0, or an error with spotnik_last_error(). */
int checkpoint_copy(const char *from, const char *to, const char *name,
                    const struct spotnik_signer *signer, bool *ret_verified);

#endif
