/* SPDX-License-Identifier: Apache-2.0 */
/* What a key file holds. Private to those that read and write it. */
#ifndef SPOTNIK_API_KEY_FILE_H
#define SPOTNIK_API_KEY_FILE_H

#include "api/key.h"

#define SPOTNIK_KEY_HEX_BYTES (2 * SPOTNIK_KEY_BYTES)
#define SPOTNIK_KEY_TEXT_BYTES (2 * SPOTNIK_KEY_HEX_BYTES + 16)

enum spotnik_key_kind {
    SPOTNIK_KEY_OF_JOB,
    SPOTNIK_KEY_OF_ONE_RUN,
    SPOTNIK_KEY_OBSERVER,
    SPOTNIK_KEY_ROTATED /* a job's, with the one before: read as that of a job */
};
extern const char *const spotnik_key_mark[]; /* what follows the digits, by kind */

/* Into a new file of mode 0600; ROTATED: a pair. Errors: as of spotnik_key_create(). */
int spotnik_key_write(const char *path, const uint8_t *key, enum spotnik_key_kind kind);

#endif
