/* SPDX-License-Identifier: Apache-2.0 */
/* The small files in a peers directory: who a process is and where it listens, signed with the job key.
 * Text, so that a person can read them; whatever else lies in the directory is passed over. */
#ifndef SPOTNIK_PEERS_RECORD_H
#define SPOTNIK_PEERS_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "net/engine.h"

#define SPOTNIK_RECORD_BYTES 512

struct spotnik_record {
    struct spotnik_member member;
    struct timespec written;
};

/* The text of our own record; returns its length, 0 when OpenSSL fails. */
size_t spotnik_record_format(const struct spotnik_credentials *self, char text[SPOTNIK_RECORD_BYTES]);

/* 0, or SPOTNIK_ERR_ARGUMENT (no record), _JOB, _KEY. */
int spotnik_record_parse(const struct spotnik_credentials *self, const char *text, size_t size,
                         struct spotnik_member *ret_member);

/* Put our record into the file, whole or not at all. `exclusive`: fail with EEXIST where there is one. 0
 * or -errno. */
int spotnik_record_write(const struct spotnik_credentials *self, const char *directory, const char *name,
                         bool exclusive);

/* 0, -errno, or the errors of _parse as they are (positive numbers never). */
int spotnik_record_read(const struct spotnik_credentials *self, const char *directory, const char *name,
                        struct spotnik_record *ret_record, bool *ret_readable);

/* "member-<id in hex>" */
void spotnik_record_name(struct spotnik_id id, char name[64]);

#endif
