/* SPDX-License-Identifier: Apache-2.0 */
/* Azure: Scheduled Events, for this machine's own name alone. An event is never acknowledged: that
 * would let it go ahead at once, for every machine that it names. The first question makes Azure
 * begin to watch, and may take two minutes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

#define FIRST_MS 150000

struct azure {
    char name[256]; /* of this machine; "": not known yet */
};

static void on_events(void *context, const struct notice_answer *answer)
{
    struct notice_source *source = context;
    const struct azure *azure = source->own;
    struct notice seen;

    if (answer->status != 200
        || !notice_azure_events(answer->body, azure->name, notice_wall_ms(), &seen)) {
        notice_source_missing(source);
        return;
    }
    notice_source_say(source, &seen);
    notice_source_again(source, source->interval_ns);
}

static void ask(struct notice_source *source, const char *path, uint32_t timeout_ms,
                notice_answered *answered)
{
    struct notice_question question = { .method = "GET",
                                        .header = { "Metadata: true" },
                                        .timeout_ms = timeout_ms };

    snprintf(question.url, sizeof(question.url), "%s/metadata/%s", source->base, path);
    notice_source_ask(source, &question, answered);
}

static void ask_events(struct notice_source *source)
{
    ask(source, "scheduledevents?api-version=2020-07-01",
        source->answered ? NOTICE_ANSWER_MS : FIRST_MS, on_events);
}

static void on_name(void *context, const struct notice_answer *answer)
{
    struct notice_source *source = context;
    struct azure *azure = source->own;
    size_t length = strcspn(answer->body, "\r\n");

    if (answer->status != 200 || length == 0 || length >= sizeof(azure->name)) {
        notice_source_missing(source);
        return;
    }
    memcpy(azure->name, answer->body, length);
    notice_source_found(source);
    ask_events(source);
}

static void due(struct notice_source *source)
{
    const struct azure *azure = source->own;

    if (azure->name[0])
        ask_events(source);
    else
        ask(source, "instance/compute/name?api-version=2021-02-01&format=text",
            source->seeks ? NOTICE_ANSWER_MS : NOTICE_SEEK_MS, on_name);
}

static void azure_free(struct notice_source *source)
{
    free(source->own);
}

bool notice_azure_open(struct notice_source *source)
{
    source->own = calloc(1, sizeof(struct azure));
    source->due = due;
    source->free = azure_free;
    return source->own != NULL;
}
