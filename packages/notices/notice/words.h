/* SPDX-License-Identifier: Apache-2.0 */
/* A notice: somebody says that this machine is about to be taken away. What one is, how clouds,
 * commands and files word it, and the line in which the watcher tells the agent. Decides nothing
 * about what follows from it. */
#ifndef NOTICE_NOTICE_H
#define NOTICE_NOTICE_H

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

/* The instant that `text` names: "+90" or "90s" from now, seconds since 1970, 2026-04-24T17:11:44Z,
 * or the date of HTTP. False: it is none of these. */
bool notice_when(const char *text, int64_t now_ms, int64_t *ret_ms);

/* ---- what the clouds answer: `ret` says NOTICE_NONE where there is no notice in it. False: the
 * answer cannot be read. ---- */

/* GET /latest/meta-data/spot/instance-action */
bool notice_aws_action(const char *body, int64_t now_ms, struct notice *ret);
/* GET /latest/meta-data/events/recommendations/rebalance */
bool notice_aws_rebalance(const char *body, struct notice *ret);
/* .../instance/preempted */
bool notice_gcp_preempted(const char *body, int64_t now_ms, struct notice *ret);
/* .../instance/maintenance-event */
bool notice_gcp_maintenance(const char *body, int64_t now_ms, struct notice *ret);
/* GET /metadata/scheduledevents. `own`: the name of this machine. Events of other machines arrive
 * here, too. */
bool notice_azure_events(const char *body, const char *own, int64_t now_ms, struct notice *ret);

/* A line of a command or a file: "[WHEN] [words]"; an empty one means now. */
void notice_words(const char *source, const char *line, int64_t now_ms, struct notice *ret);

#endif
