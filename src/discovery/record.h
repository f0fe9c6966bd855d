/* SPDX-License-Identifier: Apache-2.0 */
/* The small files in a peers directory, signed with the job key. They say which process this is,
 * where it listens and how it stands in the job. Text, so that a person can read them. The name of
 * the file says what the record is for, and is signed with it: under another name a copy is torn.
 */
#ifndef SPOTNIK_DISCOVERY_RECORD_H
#define SPOTNIK_DISCOVERY_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"
#include "base/process.h"
#include "store/store.h"

#define SPOTNIK_RECORD_BYTES 608

/* How far the process has come. Each state is in the directory before the process acts on it. */
enum spotnik_standing {
    SPOTNIK_STANDING_SEEKING, /* never asked to enter: it cannot be in a view */
    SPOTNIK_STANDING_ENTERED, /* has asked to enter, or has founded */
    SPOTNIK_STANDING_PARKED,  /* in a view, and cut off from its majority */
};

struct spotnik_record {
    struct spotnik_member member;
    struct spotnik_process process; /* boot 0: the record does not say */
    uint64_t counter;               /* another one with every refresh */
    uint64_t every_ms;              /* until the next refresh, at most; 0: it does not say */
    uint64_t generation, founding;  /* of its lineage; 0: not known yet */
    uint64_t root, founded_at_ms;   /* of the founding (member/view.h) */
    uint64_t epoch, step;           /* its view, and the last step it has committed */
    enum spotnik_standing standing;
};

/* What a file turned out to be. */
enum spotnik_reading {
    SPOTNIK_READING_RECORD,
    SPOTNIK_READING_ABSENT,
    SPOTNIK_READING_TORN,       /* no record, a part of one, or the copy of another file's */
    SPOTNIK_READING_KEY,        /* signed with none of our keys */
    SPOTNIK_READING_JOB,        /* of another job */
    SPOTNIK_READING_UNREADABLE, /* *ret_error is the errno; EINVAL: it is no regular file */
};

/* The text of the record in the file `name`; returns its length, 0 when OpenSSL fails. */
size_t spotnik_record_format(const struct spotnik_credentials *self, const char *name,
                             const struct spotnik_record *record, char text[SPOTNIK_RECORD_BYTES]);

/* RECORD, TORN, KEY or JOB. */
enum spotnik_reading spotnik_record_parse(const struct spotnik_credentials *self, const char *name,
                                          const char *text, size_t size,
                                          struct spotnik_record *ret);

/* Put a record into the store. `exclusive`: fail with EEXIST where there is one. 0 or -errno. */
int spotnik_record_write(const struct spotnik_credentials *self,
                         const struct spotnik_record *record, struct spotnik_objects *store,
                         const char *name, bool exclusive);

/* *ret_print differs whenever the file was written anew; 0: not even that is known. *ret_error may
 * be NULL. */
enum spotnik_reading spotnik_record_read(const struct spotnik_credentials *self,
                                         struct spotnik_objects *store, const char *name,
                                         struct spotnik_record *ret, uint64_t *ret_print,
                                         int *ret_error);

/* How long this record stays the same before its process counts as gone: `stale_ns`, or longer
 * where the process writes it seldom. */
uint64_t spotnik_record_stale_ns(const struct spotnik_record *record, uint64_t stale_ns);

/* "member-<id in hex>" */
void spotnik_record_name(struct spotnik_id id, char name[64]);

#endif
