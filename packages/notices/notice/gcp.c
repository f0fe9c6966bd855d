/* SPDX-License-Identifier: Apache-2.0 */
/* Google Cloud: a value is read once, then asked for with wait_for_change, which answers when it is
 * another one. The request carries the tag of the last answer, so that no change between two
 * requests is missed. A wait that breaks begins anew with a plain reading. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

#define WAIT_S 60
#define SLACK_MS 5000 /* how much longer than that an answer may take */

struct gcp {
    bool maintenance; /* ask for maintenance-event; else for preempted */
    char etag[64];    /* "": read plainly */
};

static bool is_plain(const char *text)
{
    for (; *text; text++)
        if (!isalnum((unsigned char)*text))
            return false;
    return true;
}

static void on_value(void *context, const struct notice_answer *answer)
{
    struct notice_source *source = context;
    struct gcp *gcp = source->own;
    struct notice seen;
    int64_t now_ms = notice_wall_ms();
    bool is_gcp = answer->status == 200 && !strcmp(answer->flavor, "Google");
    bool readable = is_gcp
                    && (gcp->maintenance ? notice_gcp_maintenance(answer->body, now_ms, &seen)
                                         : notice_gcp_preempted(answer->body, now_ms, &seen));
    gcp->etag[0] = 0;
    if (!readable) {
        notice_source_missing(source);
        return;
    }
    notice_source_found(source);
    notice_source_say(source, &seen);
    if (is_plain(answer->etag))
        memcpy(gcp->etag, answer->etag, sizeof(gcp->etag));
    notice_source_again(source, gcp->etag[0] ? 0 : source->interval_ns);
}

static void due(struct notice_source *source)
{
    const struct gcp *gcp = source->own;
    struct notice_question question = { .method = "GET", .header = { "Metadata-Flavor: Google" } };
    size_t used;

    snprintf(question.url, sizeof(question.url), "%s/computeMetadata/v1/instance/%s", source->base,
             gcp->maintenance ? "maintenance-event" : "preempted");
    question.timeout_ms =
        source->presence == NOTICE_PRESENT || source->seeks ? NOTICE_ANSWER_MS : NOTICE_SEEK_MS;
    if (gcp->etag[0]) {
        used = strlen(question.url);
        snprintf(question.url + used, sizeof(question.url) - used,
                 "?wait_for_change=true&timeout_sec=%d&last_etag=%s", WAIT_S, gcp->etag);
        question.timeout_ms = WAIT_S * 1000 + SLACK_MS;
    }
    notice_source_ask(source, &question, on_value);
}

static void gcp_free(struct notice_source *source)
{
    free(source->own);
}

bool notice_gcp_open(struct notice_source *source, bool maintenance)
{
    struct gcp *gcp = calloc(1, sizeof(*gcp));

    if (!gcp)
        return false;
    gcp->maintenance = maintenance;
    source->own = gcp;
    source->due = due;
    source->free = gcp_free;
    return true;
}
