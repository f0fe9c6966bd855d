/* SPDX-License-Identifier: Apache-2.0 */
/* The one quiet line under what the workers print: how the job is. Only where standard error is a
 * terminal, or, with --json, as an object a second. A thread asks the job, so that the agent never
 * waits for an answer. */
#ifndef SPOTNIK_CLI_RUN_LINE_H
#define SPOTNIK_CLI_RUN_LINE_H

#include <stdbool.h>

#include "metrics/messages.h"

/* Before the first line: lines are objects. */
void run_line_json(void);

/* Peers and key are those of the environment. Does nothing where there is neither a terminal nor
 * objects are wanted. */
void run_line_start(bool quiet);
void run_line_stop(void);

/* Around everything else that is printed. */
void run_line_hide(void);
void run_line_show(void);

/* A line of `spotnik run` itself: "spotnik: ..." or an object. `info`: the message that it is, or
 * NULL. */
void run_line_say(const struct spotnik_said_info *info, const char *text);

/* The command that asks this job, for any shell. Peers, key and job are those of the
 * environment. */
void run_line_say_how_to_ask(void);

#endif
