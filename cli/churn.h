/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of machines coming and going: lines "milliseconds,add|remove,node", in order of time.
 * Blank lines and lines beginning with '#' are skipped. */
#ifndef SPOTNIK_CLI_CHURN_H
#define SPOTNIK_CLI_CHURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct churn_event {
    uint64_t at_ms;
    bool add;      /* else remove */
    uint32_t node; /* index in order of first appearance */
};

struct churn {
    struct churn_event *event;
    size_t event_count;
    char **node; /* names */
    uint32_t node_count;
};

/* Parse `size` bytes of text. On failure returns false and writes to `error` what is wrong, with
 * the line number. */
bool churn_parse(const char *text, size_t size, struct churn *ret, char *error, size_t error_size);
bool churn_read(const char *path, struct churn *ret, char *error, size_t error_size);
void churn_free(struct churn *churn);

#endif
