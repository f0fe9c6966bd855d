/* SPDX-License-Identifier: Apache-2.0 */
/* spotnik run --from: the checkpoint that the job shall begin with. */
#ifndef SPOTNIK_CLI_RUN_FROM_H
#define SPOTNIK_CLI_RUN_FROM_H

#include <stdbool.h>

/* Set SPOTNIK_FROM to it, unless `from` is NULL. `key_file`: of the job, NULL: one is made. False:
 * it is no checkpoint, or is not signed as the job's are; standard error has why. */
bool run_from_set(const char *from, const char *key_file);

#endif
