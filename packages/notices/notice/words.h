/* SPDX-License-Identifier: Apache-2.0 */
/* How clouds, commands and files word a notice. */
#ifndef NOTICE_WORDS_H
#define NOTICE_WORDS_H

#include "common/notice.h"

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
