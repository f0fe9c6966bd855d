/* SPDX-License-Identifier: Apache-2.0 */
/* What the planner's commands share: options with units, refusals, and JSON. */
#ifndef SPOTNIK_PLANNER_PLAN_ARGS_H
#define SPOTNIK_PLANNER_PLAN_ARGS_H

#include "common/fault.h"
#include "common/table.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum { SPOTNIK_EXIT_OK = 0, SPOTNIK_EXIT_FAILED = 1, SPOTNIK_EXIT_USAGE = 2 };

/* Prints "spotnik <command>: <sentence>" to stderr and returns `code`. */
int spotnik_cli_refuse(const char *command, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reads all options: `take` has each with optarg, and false from it is bad usage; --help (h) prints
 * `usage`. Returns -1 to go on, with optind at the first word that is no option, else the exit
 * status. */
struct option;
int spotnik_cli_options(int argc, char **argv, const char *letters, const struct option *options,
                        const char *usage, bool (*take)(void *call, int option), void *call);

/* Adds a word to a list of at most `most`; says so and returns false when it is full. */
bool spotnik_cli_append(const char *command, const char *text, const char **list, size_t *count,
                        size_t most);

/* "6h"; when `bare_s` a plain number is seconds. Prints what is wrong and returns false
 * otherwise. */
bool spotnik_cli_duration(const char *command, const char *option, const char *text, bool bare_s,
                          double *seconds_out);
/* A finite number in [least, most]. */
bool spotnik_cli_number(const char *command, const char *option, const char *text, double least,
                        double most, double *value_out);
/* A whole number in [least, most]. */
bool spotnik_cli_count(const char *command, const char *option, const char *text, unsigned least,
                       unsigned most, unsigned *count_out);
/* "1,2,3" into at most `most` numbers above `least`; false when it is anything else. */
bool spotnik_cli_list(const char *text, double least, double *values, size_t most,
                      size_t *count_out);

/* Prints and frees a JSON value. */
int spotnik_cli_json(json_t *json);

/* A rule of a command's options, and what it says to who breaks it. */
struct spotnik_cli_rule {
    bool broken;
    const char *says;
};

/* What the first broken rule says; NULL: none is broken. */
const char *spotnik_cli_rule_broken(const struct spotnik_cli_rule *rules, size_t count);

#endif
