/* SPDX-License-Identifier: Apache-2.0 */
/* The answers of three metadata services. See mock_cloud.h. */
#include "mock_cloud.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/time.h"
#include "notice/notice.h"

void mock_cloud_init(struct mock_cloud *cloud)
{
    *cloud = (struct mock_cloud){ .aws = true,
                                  .gcp = true,
                                  .azure = true,
                                  .name = "vm-0",
                                  .maintenance = "NONE",
                                  .incarnation = 1,
                                  .preempted_tag = 1,
                                  .maintenance_tag = 1 };
}

/* ---- orders ---- */

static void date(char *ret, size_t size, const char *format, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm time;

    strftime(ret, size, format, gmtime_r(&seconds, &time));
}

/* "+120" and its like, as a date in `format`; anything else stands as it is, for answers that are
 * out of order. */
static void when(const struct mock_cloud *cloud, const char *word, const char *format, char *ret,
                 size_t size)
{
    int64_t ms;

    if (word && notice_when(word, cloud->now_ms, &ms))
        date(ret, size, format, ms);
    else
        snprintf(ret, size, "%s", word ? word : "");
}

#define ISO "%Y-%m-%dT%H:%M:%SZ"
#define HTTP "%a, %d %b %Y %H:%M:%S GMT"

static const char *order_aws(struct mock_cloud *cloud, char **word)
{
    if (!strcmp(word[0], "action") && word[1]) {
        snprintf(cloud->action, sizeof(cloud->action), "%s", word[1]);
        when(cloud, word[2] ? word[2] : "+120", ISO, cloud->action_time,
             sizeof(cloud->action_time));
    } else if (!strcmp(word[0], "rebalance")) {
        when(cloud, word[1] ? word[1] : "+0", ISO, cloud->rebalance_time,
             sizeof(cloud->rebalance_time));
    } else if (!strcmp(word[0], "expire-tokens")) {
        cloud->tokens = 0;
    } else if (!strcmp(word[0], "clear")) {
        cloud->action[0] = cloud->rebalance_time[0] = 0;
    } else {
        return "aws: action terminate|stop|hibernate [WHEN], rebalance [WHEN], expire-tokens or "
               "clear";
    }
    return NULL;
}

static const char *order_gcp(struct mock_cloud *cloud, char **word)
{
    if (!strcmp(word[0], "preempted")) {
        cloud->preempted = true;
        cloud->preempted_tag++;
    } else if (!strcmp(word[0], "maintenance") && word[1]) {
        snprintf(cloud->maintenance, sizeof(cloud->maintenance), "%s", word[1]);
        cloud->maintenance_tag++;
    } else if (!strcmp(word[0], "clear")) {
        cloud->preempted = false;
        snprintf(cloud->maintenance, sizeof(cloud->maintenance), "NONE");
        cloud->preempted_tag++;
        cloud->maintenance_tag++;
    } else {
        return "gcp: preempted, maintenance VALUE or clear";
    }
    return NULL;
}

/* event TYPE RESOURCE [WHEN] [STATUS] */
static const char *order_event(struct mock_cloud *cloud, char **word)
{
    struct mock_event *event = &cloud->event[cloud->events];

    if (!word[1] || !word[2])
        return "azure: event TYPE MACHINE [WHEN] [Scheduled|Started]";
    if (cloud->events == MOCK_EVENTS)
        return "azure: too many events at once";
    *event = (struct mock_event){ 0 };
    snprintf(event->id, sizeof(event->id), "EVENT-%u", ++cloud->incarnation);
    snprintf(event->type, sizeof(event->type), "%s", word[1]);
    snprintf(event->resource, sizeof(event->resource), "%s", word[2]);
    snprintf(event->status, sizeof(event->status), "%s",
             word[3] && word[4] ? word[4] : "Scheduled");
    when(cloud, word[3] ? word[3] : "+30", HTTP, event->before, sizeof(event->before));
    if (!strcmp(event->status, "Started"))
        event->before[0] = 0;
    cloud->events++;
    return NULL;
}

static const char *order_azure(struct mock_cloud *cloud, char **word)
{
    if (!strcmp(word[0], "event"))
        return order_event(cloud, word);
    if (strcmp(word[0], "clear"))
        return "azure: event TYPE MACHINE [WHEN] [STATUS], or clear";
    cloud->events = 0;
    cloud->incarnation++;
    return NULL;
}

static const char *order_all(struct mock_cloud *cloud, char **word)
{
    if (!strcmp(word[0], "fail") && word[1])
        cloud->fail = atoi(word[1]);
    else if (!strcmp(word[0], "hang"))
        cloud->hang = true;
    else if (!strcmp(word[0], "well"))
        cloud->fail = 0, cloud->hang = false;
    else
        return "all: fail STATUS, hang or well";
    return NULL;
}

const char *mock_cloud_order(struct mock_cloud *cloud, const char *line)
{
    char copy[512], *word[8] = { NULL }, *save = NULL;
    int count = 0;

    snprintf(copy, sizeof(copy), "%s", line);
    for (char *at = strtok_r(copy, " \t\r\n", &save); at && *at != '#' && count < 7;
         at = strtok_r(NULL, " \t\r\n", &save))
        word[count++] = at;
    if (count == 0)
        return NULL;
    if (count == 1)
        return "a line is: [SECONDS] aws|gcp|azure|all WHAT...";
    if (!strcmp(word[0], "aws"))
        return order_aws(cloud, word + 1);
    if (!strcmp(word[0], "gcp"))
        return order_gcp(cloud, word + 1);
    if (!strcmp(word[0], "azure"))
        return order_azure(cloud, word + 1);
    return !strcmp(word[0], "all") ? order_all(cloud, word + 1) : "whose? aws, gcp, azure or all";
}

/* ---- answers ---- */

static void reply(struct mock_answer *ret, int status, const char *type, const char *body)
{
    ret->status = status;
    ret->type = type;
    snprintf(ret->body, sizeof(ret->body), "%s", body);
}

static bool begins(const char *text, const char *with)
{
    return !strncmp(text, with, strlen(with));
}

static void give_token(struct mock_cloud *cloud, const struct mock_question *question,
                       struct mock_answer *ret)
{
    char *end;
    long ttl_s = strtol(question->ttl, &end, 10);

    if (strcmp(question->method, "PUT")) {
        reply(ret, 405, "text/plain", "");
    } else if (question->forwarded[0]) {
        reply(ret, 403, "text/plain", "");
    } else if (!question->ttl[0] || *end || ttl_s < 1 || ttl_s > 21600) {
        reply(ret, 400, "text/plain", "");
    } else {
        uint32_t place =
            cloud->tokens < MOCK_TOKENS ? cloud->tokens++ : (uint32_t)random() % MOCK_TOKENS;
        snprintf(cloud->token[place].value, sizeof(cloud->token[place].value),
                 "AQAEA%08lx%08lx==", random(), random());
        cloud->tokens_given++;
        cloud->token[place].until_ns = cloud->now_ns + (uint64_t)ttl_s * SPOTNIK_S;
        reply(ret, 200, "text/plain", cloud->token[place].value);
        snprintf(ret->headers, sizeof(ret->headers),
                 "X-aws-ec2-metadata-token-ttl-seconds: %ld\r\n", ttl_s);
    }
}

static bool has_token(const struct mock_cloud *cloud, const struct mock_question *question)
{
    for (uint32_t i = 0; i < cloud->tokens; i++)
        if (!strcmp(cloud->token[i].value, question->token))
            return cloud->now_ns < cloud->token[i].until_ns;
    return false;
}

static void answer_aws(struct mock_cloud *cloud, const struct mock_question *question,
                       struct mock_answer *ret)
{
    const char *path = question->path;
    char body[256];

    if (!strcmp(path, "/latest/api/token")) {
        give_token(cloud, question, ret);
    } else if (!has_token(cloud, question)) {
        reply(ret, 401, "text/plain", "");
    } else if (!strcmp(path, "/latest/meta-data/instance-life-cycle")) {
        reply(ret, 200, "text/plain", "spot");
    } else if (!strcmp(path, "/latest/meta-data/spot/instance-action") && cloud->action[0]) {
        snprintf(body, sizeof(body), "{\"action\":\"%s\",\"time\":\"%s\"}", cloud->action,
                 cloud->action_time);
        reply(ret, 200, "application/json", body);
    } else if (!strcmp(path, "/latest/meta-data/events/recommendations/rebalance")
               && cloud->rebalance_time[0]) {
        snprintf(body, sizeof(body), "{\"noticeTime\":\"%s\"}", cloud->rebalance_time);
        reply(ret, 200, "application/json", body);
    } else {
        reply(ret, 404, "text/html", "<html><title>404 - Not Found</title></html>");
    }
}

static const char *parameter(const char *path, const char *name, char *ret, size_t size)
{
    const char *at = strchr(path, '?');

    ret[0] = 0;
    while (at) {
        size_t length = strlen(name);
        at++;
        if (!strncmp(at, name, length) && at[length] == '=')
            snprintf(ret, size, "%.*s", (int)strcspn(at + length + 1, "&"), at + length + 1);
        at = strchr(at, '&');
    }
    return ret;
}

static void answer_value(const struct mock_cloud *cloud, const struct mock_question *question,
                         uint64_t asked_ns, const char *value, uint64_t tag,
                         struct mock_answer *ret)
{
    char text[64], etag[32];
    bool wants_change =
        !strcasecmp(parameter(question->path, "wait_for_change", text, sizeof(text)), "true");
    uint64_t patience_ns =
        strtoull(parameter(question->path, "timeout_sec", text, sizeof(text)), NULL, 10)
        * SPOTNIK_S;

    snprintf(etag, sizeof(etag), "%016" PRIx64, tag * UINT64_C(0x9e3779b97f4a7c15));
    parameter(question->path, "last_etag", text, sizeof(text));
    if (wants_change && !strcmp(text, etag)
        && (!patience_ns || cloud->now_ns - asked_ns < patience_ns)) {
        ret->status = 0;
        ret->wait_ns = patience_ns ? asked_ns + patience_ns - cloud->now_ns : SPOTNIK_NEVER;
        return;
    }
    reply(ret, 200, "application/text", value);
    snprintf(ret->headers, sizeof(ret->headers), "Metadata-Flavor: Google\r\nETag: %s\r\n", etag);
}

static void answer_gcp(const struct mock_cloud *cloud, const struct mock_question *question,
                       uint64_t asked_ns, struct mock_answer *ret)
{
    const char *what = question->path + strlen("/computeMetadata/v1/instance/");

    if (strcmp(question->flavor, "Google"))
        reply(ret, 403, "text/html", "Missing Metadata-Flavor:Google header.");
    else if (begins(what, "preempted"))
        answer_value(cloud, question, asked_ns, cloud->preempted ? "TRUE" : "FALSE",
                     cloud->preempted_tag, ret);
    else if (begins(what, "maintenance-event"))
        answer_value(cloud, question, asked_ns, cloud->maintenance, cloud->maintenance_tag, ret);
    else
        reply(ret, 404, "text/html", "");
}

static void answer_events(struct mock_cloud *cloud, const struct mock_question *question,
                          struct mock_answer *ret)
{
    size_t used = 0;

    if (!strcmp(question->method, "POST")) {
        cloud->acknowledged++;
        reply(ret, 200, "application/json", "");
        return;
    }
    reply(ret, 200, "application/json", "");
    used += (size_t)snprintf(ret->body, sizeof(ret->body),
                             "{\"DocumentIncarnation\":%u,\"Events\":[", cloud->incarnation);
    for (uint32_t i = 0; i < cloud->events; i++) {
        const struct mock_event *event = &cloud->event[i];
        used += (size_t)snprintf(
            ret->body + used, sizeof(ret->body) - used,
            "%s{\"EventId\":\"%s\",\"EventStatus\":\"%s\",\"EventType\":\"%s\",\"ResourceType\":"
            "\"VirtualMachine\","
            "\"Resources\":[\"%s\"],\"NotBefore\":\"%s\",\"Description\":\"\",\"EventSource\":"
            "\"Platform\","
            "\"DurationInSeconds\":-1}",
            i ? "," : "", event->id, event->status, event->type, event->resource, event->before);
    }
    snprintf(ret->body + used, sizeof(ret->body) - used, "]}");
}

static void answer_azure(struct mock_cloud *cloud, const struct mock_question *question,
                         struct mock_answer *ret)
{
    if (strcasecmp(question->metadata, "true") || !strstr(question->path, "api-version="))
        reply(ret, 400, "application/json",
              "{\"error\":\"Bad request. Required metadata header or api-version not specified\"}");
    else if (begins(question->path, "/metadata/instance/compute/name?"))
        reply(ret, 200, "text/plain", cloud->name);
    else if (begins(question->path, "/metadata/scheduledevents?"))
        answer_events(cloud, question, ret);
    else
        reply(ret, 404, "application/json", "");
}

void mock_cloud_answer(struct mock_cloud *cloud, const struct mock_question *question,
                       uint64_t asked_ns, struct mock_answer *ret)
{
    *ret = (struct mock_answer){ .wait_ns = SPOTNIK_NEVER };
    if (!strcmp(question->path, "/mock/seen")) { /* for tests, whatever else is said */
        reply(ret, 200, "application/json", "");
        snprintf(ret->body, sizeof(ret->body),
                 "{\"asked\":%" PRIu64 ",\"tokens\":%" PRIu64 ",\"acknowledged\":%u}", cloud->asked,
                 cloud->tokens_given, cloud->acknowledged);
        return;
    }
    if (cloud->hang)
        return;
    if (cloud->fail)
        reply(ret, cloud->fail, "text/plain", "");
    else if (cloud->aws && begins(question->path, "/latest/"))
        answer_aws(cloud, question, ret);
    else if (cloud->gcp && begins(question->path, "/computeMetadata/v1/instance/"))
        answer_gcp(cloud, question, asked_ns, ret);
    else if (cloud->azure && begins(question->path, "/metadata/"))
        answer_azure(cloud, question, ret);
    else
        reply(ret, 404, "text/plain", "");
}
