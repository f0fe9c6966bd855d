/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SPOTNIK_CLI_CHECKPOINT_COPY_H
#define SPOTNIK_CLI_CHECKPOINT_COPY_H

/* Copy checkpoint `name` between two folders or buckets. 0, or an error with
 * spotnik_last_error(). */
int checkpoint_copy(const char *from, const char *to, const char *name);

#endif
