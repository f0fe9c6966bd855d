/* SPDX-License-Identifier: Apache-2.0 */
/* A notice: somebody says that this machine is about to be taken away. What one is, and the line in
 * which the watcher sends it to the agent. Decides nothing about what follows from it. */
#ifndef SPOTNIK_COMMON_NOTICE_H
#define SPOTNIK_COMMON_NOTICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum notice_kind {
    NOTICE_NONE,
    NOTICE_LEAVE, /* this machine goes at the deadline */
    NOTICE_RISK,  /* it may go soon, or pause; nothing is certain */
    NOTICE_OVER,  /* what this source said before no longer holds */
};

struct notice {
    enum notice_kind kind;
    char source[16];     /* aws, gcp, azure, exec, file */
    int64_t deadline_ms; /* since 1970; 0: none */
    char text[200];      /* in the words of the source; two notices with the same text are one */
};

/* One JSON object on a line, without its end. Returns the length; 0 when it did not fit. */
size_t notice_format(const struct notice *notice, char *line, size_t size);
bool notice_parse(const char *line, struct notice *ret);

#endif
