/* SPDX-License-Identifier: Apache-2.0 */
/* A watcher. It finds out in which cloud the machine is, and asks there again and
 * again. It runs the user's commands, looks at the user's files, and tells what changes. One
 * thread; never blocks longer than it is told to. */
#ifndef NOTICE_WATCH_H
#define NOTICE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/notice.h"

#define NOTICE_SOURCES_MAX 16

struct notice_watch;

typedef void notice_teller(void *context, const struct notice *notice);

/* `from`: auto, aws, gcp, azure, exec:COMMAND or file:PATH; auto stands for the three clouds and
 * says nothing when there is none of them. `interval_ns` 0: what each source asks for. NULL:
 * *ret_error says why. */
struct notice_watch *notice_watch_new(const char *const *from, uint32_t count, uint64_t interval_ns,
                                      notice_teller *tell, void *context, const char **ret_error);
void notice_watch_free(struct notice_watch *watch);

/* End the commands of exec: that run now, with what they have started. For a signal handler. */
void notice_commands_kill(void);

/* One turn, of at most timeout_ms. False: there is nothing left to watch. */
bool notice_watch_turn(struct notice_watch *watch, int timeout_ms);

/* Every source has answered once, or is not there. */
bool notice_watch_has_looked(const struct notice_watch *watch);

/* The sources that answer, as "aws, file"; "" when none does. */
void notice_watch_present(const struct notice_watch *watch, char *text, uint32_t size);

#endif
