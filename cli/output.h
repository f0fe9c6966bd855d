/* SPDX-License-Identifier: Apache-2.0 */
/* Where the lines go that workers print: to the terminal, and to a file for each worker.
 *
 * A line is written at once and whole. Not thread-safe: the loop of spotnik run alone calls it. */
#ifndef SPOTNIK_CLI_OUTPUT_H
#define SPOTNIK_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OUTPUT_TAIL 16384 /* bytes */

enum output_whose { OUTPUT_BY_TERMINAL, OUTPUT_ALL, OUTPUT_SENIOR, OUTPUT_NONE };

struct output {
    enum output_whose whose; /* whose lines are shown */
    const char *log_dir;     /* NULL: no files */
    int grows;               /* readable when a file in log_dir has grown; -1: nothing tells */
    char error[512];         /* the line that ended the errors shown last, or its beginning */
};

struct output_line {
    uint32_t worker;  /* w<worker> */
    bool error;       /* standard error */
    bool kept;        /* shown when its worker fails */
    bool senior;      /* of the senior worker; needed for OUTPUT_SENIOR only */
    const char *text; /* without its end */
    size_t length;
};

/* The last whole lines of a worker that were kept and not shown: why it failed. Zeroed at
 * the start. */
struct output_tail {
    uint32_t used;
    bool holds; /* a traceback that is to be shown once its last line is here */
    char text[OUTPUT_TAIL];
};

/* "all", "senior" or "none". False: another word. */
bool output_parse(const char *word, enum output_whose *ret_whose);

/* Make the folder, look whether there is a terminal. False: the folder cannot be written. */
bool output_prepare(struct output *output);

/* The file of a worker, to be appended to, and a reader at its end. False: errno. */
bool output_open(const struct output *output, uint32_t worker, int *ret_write, int *ret_read);

/* Pass a line on. */
void output_pass(struct output *output, const struct output_line *line, struct output_tail *tail);

/* Show what was kept of a worker, but for OUTPUT_NONE. Where its last line is the last error that
 * was shown, show that line alone: a traceback of all members appears once. */
void output_tail_show(struct output *output, uint32_t worker, struct output_tail *tail);

#endif
