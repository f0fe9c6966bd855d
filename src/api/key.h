/* SPDX-License-Identifier: Apache-2.0 */
/* The job key as a file: 64 hex digits and a newline, readable by its owner alone. Its holder can
 * join the job and read its state, so the library refuses a key that others can read, as ssh does.
 * A second line, "made", says that the key was made for one run, and that the next will have
 * another: checkpoints are not signed by it. A second line, "observer", marks the key of those that
 * may ask for the status alone. A second line of 64 hex digits is the key before it was rotated: it
 * opens no connection and signs nothing, and what it has signed is read. */
#ifndef SPOTNIK_API_KEY_H
#define SPOTNIK_API_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "checkpoint/signature.h"

#define SPOTNIK_KEY_BYTES 32
#define SPOTNIK_KEY_PAIR_BYTES (2 * SPOTNIK_KEY_BYTES)

/* Errors: ARGUMENT (not a job key, or readable by others), SYSTEM (cannot be read). */
int spotnik_key_read(const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES]);

/* The key, and behind it the one before. */
int spotnik_key_read_pair(const char *path, uint8_t ret_pair[SPOTNIK_KEY_PAIR_BYTES],
                          bool *ret_has_old);

/* The same for one that asks members: *ret_observes: it is the observer key. */
int spotnik_key_read_to_ask(const char *path, uint8_t ret_key[SPOTNIK_KEY_BYTES],
                            bool *ret_observes);

/* What signs the checkpoints of a job with this key file: nothing where the key was made for one
 * run, or `path` is NULL. The second is that of the key before, for the first to point to. Errors
 * as above. */
int spotnik_key_signer(const char *path, struct spotnik_signer ret[2]);

/* Make a new key in a new file of mode 0600. Errors: ARGUMENT (the file exists: a key is never
 * overwritten), SYSTEM. */
int spotnik_key_create(const char *path);

/* Exchange the file for one with a new key first, and the key that it had second. Whatever fails,
 * the file is as before. Errors: as of spotnik_key_read(); ARGUMENT (a key of one run). */
int spotnik_key_rotate(const char *path);

/* The observer key of the job key in `job_path`. Errors of both. */
int spotnik_key_create_observer(const char *path, const char *job_path);

/* A new job key, for one run alone. */
int spotnik_key_create_for_run(const char *path);

/* `size` random bytes, fit for keys. SPOTNIK_ERR_SYSTEM when the kernel has none. */
int spotnik_key_random(void *out, uint32_t size);

/* The job's name as 16 bytes; it separates jobs by accident only, the key separates them for
 * certain. */
void spotnik_job_hash(const char *name, uint8_t ret_job[16]);

#endif
