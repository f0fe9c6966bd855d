/* SPDX-License-Identifier: Apache-2.0 */
/* --peers exec:COMMAND: a command that prints a host on each line, and the file that has its last
 * answer. */
#ifndef SPOTNIK_CLI_RUN_HOSTS_H
#define SPOTNIK_CLI_RUN_HOSTS_H

#include <stdbool.h>

/* Run the command until it names a host, and write its answer to `path`; a child of ours then keeps
 * the file up to date, and removes it when we end. False: standard error has why. */
bool run_hosts_begin(const char *command, const char *path);

#endif
