/* SPDX-License-Identifier: Apache-2.0 */
/* How the clouds word a notice. Only these answers are read here; how one asks for them is in
 * aws.c, gcp.c and azure.c. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "words.h"

#define AWS_NOTICE_MS 120000 /* where the answer has no time that can be read */
/* best effort; more only where the machine was made with a longer notice */
#define GCP_PREEMPTED_MS 30000
#define GCP_MAINTENANCE_MS 60000

static void begin(struct notice *ret, const char *source)
{
    *ret = (struct notice){ .kind = NOTICE_NONE };
    snprintf(ret->source, sizeof(ret->source), "%s", source);
}

static const char *word(const json_t *object, const char *name)
{
    const char *value = json_string_value(json_object_get(object, name));
    return value ? value : "";
}

bool notice_aws_action(const char *body, int64_t now_ms, struct notice *ret)
{
    json_t *object = json_loads(body, 0, NULL);
    const char *action = word(object, "action"), *time = word(object, "time");

    begin(ret, "aws");
    if (*action) {
        ret->kind = NOTICE_LEAVE;
        if (!notice_when(time, now_ms, &ret->deadline_ms))
            ret->deadline_ms = now_ms + AWS_NOTICE_MS;
        if (!strcmp(action, "hibernate")) /* begins at once */
            ret->deadline_ms = now_ms;
        snprintf(ret->text, sizeof(ret->text), "%.40s at %.60s", action,
                 *time ? time : "an unknown time");
    }
    json_decref(object);
    return ret->kind != NOTICE_NONE;
}

bool notice_aws_rebalance(const char *body, struct notice *ret)
{
    json_t *object = json_loads(body, 0, NULL);
    const char *time = word(object, "noticeTime");

    begin(ret, "aws");
    if (*time) {
        ret->kind = NOTICE_RISK;
        snprintf(ret->text, sizeof(ret->text), "rebalance recommended at %.60s", time);
    }
    json_decref(object);
    return ret->kind != NOTICE_NONE;
}

bool notice_gcp_preempted(const char *body, int64_t now_ms, struct notice *ret)
{
    begin(ret, "gcp");
    if (!strncasecmp(body, "FALSE", 5))
        return true;
    if (strncasecmp(body, "TRUE", 4))
        return false;
    ret->kind = NOTICE_LEAVE;
    ret->deadline_ms = now_ms + GCP_PREEMPTED_MS;
    snprintf(ret->text, sizeof(ret->text), "preempted");
    return true;
}

bool notice_gcp_maintenance(const char *body, int64_t now_ms, struct notice *ret)
{
    begin(ret, "gcp");
    if (!strncasecmp(body, "NONE", 4))
        return true;
    if (!strncasecmp(body, "TERMINATE", 9) || !strncasecmp(body, "SHUTDOWN", 8)) {
        ret->kind = NOTICE_LEAVE;
        ret->deadline_ms = now_ms + GCP_MAINTENANCE_MS;
    } else if (!strncasecmp(body, "MIGRATE", 7)) {
        ret->kind = NOTICE_RISK; /* it goes on elsewhere after a pause */
    } else {
        return false;
    }
    snprintf(ret->text, sizeof(ret->text), "%.*s", (int)strcspn(body, "\r\n "), body);
    return true;
}

/* ---- Azure ---- */

static bool is_named(const json_t *event, const char *own)
{
    const json_t *resource;
    size_t i;

    json_array_foreach(json_object_get(event, "Resources"), i,
                       resource) if (json_string_value(resource)
                                     && !strcasecmp(json_string_value(resource), own)) return true;
    return false;
}

static enum notice_kind azure_kind(const char *type)
{
    static const char *const ends[] = { "Preempt", "Terminate", "Reboot", "Redeploy" };

    for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
        if (!strcmp(type, ends[i]))
            return NOTICE_LEAVE;
    return NOTICE_RISK; /* Freeze: a pause of seconds */
}

/* The event that comes first wins; what ends the machine wins over what may pause it. */
static void consider(const json_t *event, int64_t now_ms, struct notice *ret)
{
    const char *type = word(event, "EventType"), *before = word(event, "NotBefore");
    enum notice_kind kind = azure_kind(type);
    int64_t deadline_ms = now_ms;

    if (*before) /* blank once it has started */
        notice_when(before, now_ms, &deadline_ms);
    if (ret->kind != NOTICE_NONE
        && (kind > ret->kind || (kind == ret->kind && deadline_ms >= ret->deadline_ms)))
        return;
    ret->kind = kind;
    ret->deadline_ms = deadline_ms;
    snprintf(ret->text, sizeof(ret->text), "%.20s %.20s, event %.60s", type,
             word(event, "EventStatus"), word(event, "EventId"));
}

bool notice_azure_events(const char *body, const char *own, int64_t now_ms, struct notice *ret)
{
    json_t *object = json_loads(body, 0, NULL);
    const json_t *events = json_object_get(object, "Events"), *event;
    size_t i;
    bool readable = json_is_array(events);

    begin(ret, "azure");
    json_array_foreach(events, i, event)
    {
        const char *status = word(event, "EventStatus");
        if (is_named(event, own) && (!strcmp(status, "Scheduled") || !strcmp(status, "Started")))
            consider(event, now_ms, ret);
    }
    json_decref(object);
    return readable;
}
