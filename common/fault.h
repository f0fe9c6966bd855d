/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with the input: one sentence that names the file, the line and the column and what
 * to do about it. A reader never prints; the command does. */
#ifndef SPOTNIK_COMMON_FAULT_H
#define SPOTNIK_COMMON_FAULT_H

struct spotnik_fault {
    char text[768];
};

/* Fills in the sentence; a null fault is allowed. */
void spotnik_fault_fill(struct spotnik_fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same, and the value is -1. A macro, so that an analyser sees it. */
#define spotnik_fault_set(fault, ...) (spotnik_fault_fill((fault), __VA_ARGS__), -1)

#endif
