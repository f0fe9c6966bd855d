/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands. Each gets argv from its own name on and returns the exit status. */
#ifndef SPOTNIK_CLI_COMMANDS_H
#define SPOTNIK_CLI_COMMANDS_H

int spotnik_cmd_run(int argc, char **argv);
int spotnik_cmd_status(int argc, char **argv);
int spotnik_cmd_bench(int argc, char **argv);
int spotnik_cmd_checkpoint(int argc, char **argv);
int spotnik_cmd_key(int argc, char **argv);
int spotnik_cmd_report(int argc, char **argv);
int spotnik_cmd_trace(int argc, char **argv);
int spotnik_cmd_top(int argc, char **argv);
int spotnik_cmd_doctor(int argc, char **argv);

#endif
