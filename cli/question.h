/* SPDX-License-Identifier: Apache-2.0 */
/* Asking the members of a job for their status, by the key alone. Asking joins nothing and
 * disturbs nothing. */
#ifndef SPOTNIK_CLI_QUESTION_H
#define SPOTNIK_CLI_QUESTION_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/runtime.h"

#define QUESTION_MEMBERS_MAX 1024
#define QUESTION_PATHS_MAX 64

/* Where a job is, and what opens it. */
struct job_at {
    char peers[4096], key_file[4096], job[256];
};

/* Of the options --peers, --key-file and --job, each of which may be NULL, and of the environment.
 * False: the peers or the key are not known. */
bool job_at_fill(const char *peers, const char *key_file, const char *job, struct job_at *ret);

/* False with spotnik_last_error(). */
bool question_credentials(const struct job_at *at, struct spotnik_credentials *ret);
bool question_members(const struct job_at *at, const struct spotnik_credentials *credentials,
                      struct spotnik_member *ret, uint32_t *ret_count);

/* The status of one member; NULL with spotnik_last_error(). */
json_t *question_ask(const struct spotnik_credentials *credentials,
                     const struct spotnik_member *member, uint64_t timeout_ns);

/* The first answer that one of them gives; a member of a view goes before one that is only
 * joining. */
json_t *question_first(const struct spotnik_credentials *credentials,
                       const struct spotnik_member *member, uint32_t count);

/* The faults of paths that members tell of: of `answer`, and of the others it names, of which up to
 * QUESTION_PATHS_MAX are asked at one time. An array of {"address", "path", "path_age_ns"}; a
 * member that does not answer within a second is left out. The caller owns it. */
json_t *question_paths(const struct spotnik_credentials *credentials, const json_t *answer);

/* The members that an answer names. */
uint32_t question_named(const json_t *answer, struct spotnik_member *ret, uint32_t max);

long long json_whole(const json_t *object, const char *name);
double json_part(const json_t *object, const char *name);
const char *json_words(const json_t *object, const char *name); /* "" where there are none */

#endif
