/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPOTNIK_CLI_CHECKPOINT_ADOPT_H
#define SPOTNIK_CLI_CHECKPOINT_ADOPT_H

#include "checkpoint/signature.h"

/* Write checkpoint `name` of `dir` anew, signed by `signer`, after all of it was verified: by `old`
 * if it is signed. `old` without a key: none was given. 0, or an error with spotnik_last_error(),
 * and the checkpoint is as it was. */
int checkpoint_adopt(const char *dir, const char *name, const struct spotnik_signer *signer,
                     const struct spotnik_signer *old);

#endif
