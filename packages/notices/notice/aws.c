/* SPDX-License-Identifier: Apache-2.0 */
/* AWS: a token (IMDSv2), then spot/instance-action, then the recommendation to rebalance, again and
 * again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "source.h"

#define TOKEN_S 21600 /* the longest there is; one that has expired earlier is answered with 401 */

struct aws {
    char token[512];
    uint32_t refused; /* tokens in a row */
};

static void ask_token(struct notice_source *source);

static void on_rebalance(void *context, const struct notice_answer *answer)
{
    struct notice_source *source = context;
    struct notice seen = { .kind = NOTICE_NONE };

    if (answer->status == 200)
        notice_aws_rebalance(answer->body, &seen);
    notice_source_say(source, &seen);
    notice_source_again(source, source->interval_ns);
}

static void ask(struct notice_source *source, const char *path, notice_answered *answered)
{
    const struct aws *aws = source->own;
    struct notice_question question = { .method = "GET", .timeout_ms = NOTICE_ANSWER_MS };

    snprintf(question.url, sizeof(question.url), "%s/latest/meta-data/%s", source->base, path);
    snprintf(question.header[0], sizeof(question.header[0]), "X-aws-ec2-metadata-token: %s",
             aws->token);
    notice_source_ask(source, &question, answered);
}

/* The token has expired, or was never any good: get another at once, but do not go on like that for
 * ever. */
static void renew(struct notice_source *source)
{
    struct aws *aws = source->own;

    aws->token[0] = 0;
    if (aws->refused++ < 2)
        ask_token(source);
    else
        notice_source_missing(source);
}

static void on_action(void *context, const struct notice_answer *answer)
{
    struct notice_source *source = context;
    struct aws *aws = source->own;
    struct notice seen;

    if (answer->status == 401) {
        renew(source);
        return;
    }
    aws->refused = 0;
    if (answer->status == 404) {
        ask(source, "events/recommendations/rebalance", on_rebalance);
    } else if (answer->status == 200 && notice_aws_action(answer->body, notice_wall_ms(), &seen)) {
        notice_source_say(source, &seen);
        notice_source_again(source, source->interval_ns);
    } else {
        notice_source_missing(source);
    }
}

static void on_token(void *context, const struct notice_answer *answer)
{
    struct notice_source *source = context;
    struct aws *aws = source->own;
    size_t length = strcspn(answer->body, "\r\n");

    if (answer->status != 200 || length == 0 || length >= sizeof(aws->token)) {
        notice_source_missing(source);
        return;
    }
    memcpy(aws->token, answer->body, length);
    aws->token[length] = 0;
    notice_source_found(source);
    ask(source, "spot/instance-action", on_action);
}

static void ask_token(struct notice_source *source)
{
    struct notice_question question = { .method = "PUT" };

    question.timeout_ms =
        source->presence == NOTICE_PRESENT || source->seeks ? NOTICE_ANSWER_MS : NOTICE_SEEK_MS;
    snprintf(question.url, sizeof(question.url), "%s/latest/api/token", source->base);
    snprintf(question.header[0], sizeof(question.header[0]),
             "X-aws-ec2-metadata-token-ttl-seconds: %d", TOKEN_S);
    notice_source_ask(source, &question, on_token);
}

static void due(struct notice_source *source)
{
    const struct aws *aws = source->own;

    if (aws->token[0])
        ask(source, "spot/instance-action", on_action);
    else
        ask_token(source);
}

static void aws_free(struct notice_source *source)
{
    free(source->own);
}

bool notice_aws_open(struct notice_source *source)
{
    source->own = calloc(1, sizeof(struct aws));
    source->due = due;
    source->free = aws_free;
    return source->own != NULL;
}
