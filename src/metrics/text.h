/* SPDX-License-Identifier: Apache-2.0 */
/* Writing text into memory of a fixed size: what does not fit is remembered, not written. */
#ifndef SPOTNIK_METRICS_TEXT_H
#define SPOTNIK_METRICS_TEXT_H

#include <stdbool.h>
#include <stddef.h>

struct spotnik_text {
    char *at;
    size_t left;
    bool full;
};

void spotnik_text_add(struct spotnik_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A string of ours or of the user's: quoted, with what JSON does not allow written as an escape. */
void spotnik_text_quote(struct spotnik_text *text, const char *string);

/* JSON has no word for what is not finite: 0 in its place. */
double spotnik_text_finite(double x);

#endif
