/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Watching a job: the program's own numbers, and the library's messages.
 *
 * Metrics, status and a live page over HTTP need no call: set SPOTNIK_HTTP
 * (docs/guide/observability.md). The library never prints. Its messages reach a program by a
 * callback (spotnik_log_set()) or one by one on request (spotnik_log_next()). Every message has an
 * id; docs/reference/messages.md says what it means and what to do.
 */
#ifndef SPOTNIK_WATCH_H
#define SPOTNIK_WATCH_H

#include "spotnik/spotnik.h"

#ifdef __cplusplus
extern "C" {
#endif

enum spotnik_level {
    SPOTNIK_INFO = 20, /**< the values are those of Python's logging */
    SPOTNIK_WARNING = 30,
};

/** One message of the library. */
typedef struct spotnik_log_entry {
    size_t size; /**< sizeof(spotnik_log_entry): set by the caller of spotnik_log_next() */
    enum spotnik_level level;
    char id[8];     /**< "S112": see docs/reference/messages.md */
    char name[24];  /**< "lost" */
    char text[400]; /**< one line, no newline */
    uint64_t step;  /**< last committed one when it happened */
    /** Messages of this id held back since the last one: the library tells at most one in 5 s. */
    uint64_t held_back;
} spotnik_log_entry;

/**
 * Record a number of the program's own, such as the loss. Metrics, page, event log and `spotnik
 * top` show the latest. At most 16 names of up to 31 letters, digits and underscores. Cheap: call
 * it as often as you like, on the thread of the job. Errors: ARGUMENT, LIMIT.
 */
SPOTNIK_API int spotnik_observe(spotnik_job *job, const char *name, double value);

/**
 * Call @p log for each message, on a thread of the library, one call at a time, soon after the
 * event. Inside it, call only spotnik_status() and spotnik_members() of this library. NULL ends it;
 * no call runs once this returns. On the thread of the job. Errors: ARGUMENT, SYSTEM, MEMORY.
 */
SPOTNIK_API int spotnik_log_set(spotnik_job *job,
                                void (*log)(void *context, const spotnik_log_entry *message),
                                void *context);

/**
 * Take the oldest message not yet taken. Returns 1 if there was one, else 0. The first call starts
 * to collect, unless SPOTNIK_HTTP or an event log started before. The library keeps 64 messages and
 * drops the oldest. On the thread of the job. Errors: ARGUMENT, SYSTEM, MEMORY.
 */
SPOTNIK_API int spotnik_log_next(spotnik_job *job, spotnik_log_entry *ret);

#ifdef __cplusplus
}
#endif
#endif
