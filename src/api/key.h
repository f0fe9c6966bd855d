/* SPDX-License-Identifier: Apache-2.0 */
/* The job key as a file: 64 hex digits and a newline, readable by its owner alone. Its holder can
 * join the job and read its state, so the library refuses a key that others can read, as ssh
 * does. */
#ifndef SPOTNIK_API_KEY_H
#define SPOTNIK_API_KEY_H

#include <stdint.h>

#define SPOTNIK_KEY_BYTES 32

/* Errors: ARGUMENT (not a key, or readable by others), SYSTEM (cannot be read). */
int spotnik_key_read(const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES]);

/* Make a new key in a new file of mode 0600. Errors: ARGUMENT (the file exists: a key is never
 * overwritten), SYSTEM. */
int spotnik_key_create(const char *path);

/* `size` random bytes, fit for keys. SPOTNIK_ERR_SYSTEM when the kernel has none. */
int spotnik_key_random(void *out, uint32_t size);

/* The job's name as 16 bytes; it separates jobs by accident only, the key separates them for
 * certain. */
void spotnik_job_hash(const char *name, uint8_t ret_job[16]);

#endif
