/* SPDX-License-Identifier: Apache-2.0 */
/* How the planner says what is wrong with its input: one sentence that names the file, the line and
 * the column and what to do about it. The planner never prints; the command line does. */
#ifndef SPOTNIK_PLAN_FAULT_H
#define SPOTNIK_PLAN_FAULT_H

struct spotnik_fault {
    char text[768];
};

/* Fills in the sentence (a null fault is allowed) and returns -1, so that callers can write `return
 * fault(...)`. */
int spotnik_fault_set(struct spotnik_fault *fault, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
