/* SPDX-License-Identifier: Apache-2.0 */
/* Where the lines go that workers print: to the terminal, to a file for each worker, to one file
 * for all.
 *
 * A line is written at once and whole. Not thread-safe: the loop of spotnik run alone calls it. */
#ifndef SPOTNIK_CLI_OUTPUT_H
#define SPOTNIK_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_TAIL 4096 /* bytes */

enum output_whose { OUTPUT_BY_TERMINAL, OUTPUT_ALL, OUTPUT_SENIOR, OUTPUT_NONE };

struct output {
    enum output_whose whose; /* whose lines are shown */
    const char *log_dir;     /* NULL: no files */
    const char *tee_path;    /* NULL: no file for all */
    int tee;                 /* open for appending where there is a tee_path */
};

struct output_line {
    uint32_t worker;  /* w<worker> */
    bool error;       /* standard error */
    bool senior;      /* of the senior worker; needed for OUTPUT_SENIOR only */
    const char *text; /* without its end */
    size_t length;
};

/* The last whole lines of a worker's standard error that were not shown: why it failed. Zeroed at
 * the start. */
struct output_tail {
    uint32_t used;
    char text[OUTPUT_TAIL];
};

/* "all", "senior" or "none". False: another word. */
bool output_parse(const char *word, enum output_whose *ret_whose);

/* Make the folder, open the file for all, look whether there is a terminal. False: errno says
 * why. */
bool output_prepare(struct output *output);

/* What output_prepare() could not write to. */
const char *output_refused(const struct output *output);

/* The file of a worker, to be closed by the caller; -1: none is wanted, or errno says why there is
 * none. It is appended to. */
int output_open(const struct output *output, uint32_t worker);

/* Pass a line on. `log` is what output_open() returned. */
void output_pass(const struct output *output, int log, const struct output_line *line,
                 struct output_tail *tail);

/* A worker has failed: show what of its standard error was held back, but for OUTPUT_NONE. */
void output_tail_show(const struct output *output, uint32_t worker, const struct output_tail *tail);

#endif
