/* SPDX-License-Identifier: Apache-2.0 */
/* The committed results that joiners still have to replay: an unbroken run of steps, oldest first.
 * A donor appends at every commit while joiners are attached and drops from the front what all of
 * them have acknowledged.
 *
 * An entry may be read without the donor's lock while a reference is held. No locking of its
 * own. */
#ifndef SPOTNIK_TRANSFER_LOG_H
#define SPOTNIK_TRANSFER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/runtime.h"

struct spotnik_log_bucket {
    uint32_t bucket;
    uint8_t dtype, op;
    uint64_t count, bytes;
    uint8_t *data; /* inside the entry's memory */
};

struct spotnik_log_entry {
    uint64_t step, bytes;
    uint32_t references;   /* the log's own, and one per session that is sending it */
    uint32_t bucket_count; /* those in use */
    struct spotnik_log_entry *next;
    struct spotnik_log_bucket bucket[];
};

/* Invariant: entries first..last have steps without gaps; `bytes` is their sum. */
struct spotnik_log {
    struct spotnik_log_entry *first, *last;
    uint64_t bytes;
};

/* A copy of the results of `step`, with one reference, for the log. NULL: no memory. */
struct spotnik_log_entry *spotnik_log_entry_new(uint64_t step, uint32_t bucket_count,
                                                const struct spotnik_bucket_result *result);

/* Append; the step must follow the last one. The log has the reference from now on. */
void spotnik_log_append(struct spotnik_log *log, struct spotnik_log_entry *entry);

/* The entry of `step` with a reference for the caller, or NULL. */
struct spotnik_log_entry *spotnik_log_hold(struct spotnik_log *log, uint64_t step);
void spotnik_log_release(struct spotnik_log_entry *entry);

/* Drop all steps below `step`. UINT64_MAX: all. */
void spotnik_log_prune(struct spotnik_log *log, uint64_t step);

#endif
