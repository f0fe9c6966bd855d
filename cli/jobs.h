/* SPDX-License-Identifier: Apache-2.0 */
/* The jobs of this host: read from the environments of its processes, so nothing has to be
 * registered, and nothing is left behind. Jobs of programs that set peers and key in their code are
 * not found. */
#ifndef SPOTNIK_CLI_JOBS_H
#define SPOTNIK_CLI_JOBS_H

#include <stdint.h>

#include "question.h"

#define JOBS_MAX 32

/* Each once, of the processes that this user may look at. Returns how many. */
uint32_t jobs_find(struct job_at ret[JOBS_MAX]);

/* What the options and the environment say, or the one job of this host. True: *ret is it. False:
 * *ret_status is the exit status, and a word was said on it (`command` asks). */
bool jobs_choose(const char *command, const char *peers, const char *key_file, const char *job,
                 struct job_at *ret, int *ret_status);

#endif
