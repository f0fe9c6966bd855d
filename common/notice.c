/* SPDX-License-Identifier: Apache-2.0 */
/* The line between watcher and agent. */
#include "common/notice.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_names[] = { "none", "leave", "risk", "over" };

/* JSON has UTF-8 alone. A notice in another encoding, or cut within a character, is one all the
 * same: its foreign bytes become '?'. */
static json_t *words_of(const char *text)
{
    json_t *words = json_string(text);
    char plain[sizeof(((struct notice *)0)->text)];

    if (words)
        return words;
    snprintf(plain, sizeof(plain), "%s", text);
    for (char *c = plain; *c; c++)
        if ((unsigned char)*c >= 0x80)
            *c = '?';
    return json_string(plain);
}

size_t notice_format(const struct notice *notice, char *line, size_t size)
{
    json_t *object = json_pack("{s:s, s:s, s:I, s:o}", "kind", kind_names[notice->kind], "source",
                               notice->source, "deadline_ms", (json_int_t)notice->deadline_ms,
                               "text", words_of(notice->text));
    size_t length = object ? json_dumpb(object, line, size - 1, JSON_COMPACT) : 0;

    json_decref(object);
    if (length == 0 || length >= size)
        return 0;
    line[length] = 0;
    return length;
}

static void copy(char *to, size_t size, const char *from)
{
    snprintf(to, size, "%s", from ? from : "");
}

bool notice_parse(const char *line, struct notice *ret)
{
    json_t *object = json_loads(line, 0, NULL);
    const char *kind = json_string_value(json_object_get(object, "kind"));

    *ret = (struct notice){ .deadline_ms =
                                json_integer_value(json_object_get(object, "deadline_ms")) };
    for (int i = NOTICE_LEAVE; kind && i <= NOTICE_OVER; i++)
        if (!strcmp(kind, kind_names[i]))
            ret->kind = (enum notice_kind)i;
    copy(ret->source, sizeof(ret->source), json_string_value(json_object_get(object, "source")));
    copy(ret->text, sizeof(ret->text), json_string_value(json_object_get(object, "text")));
    json_decref(object);
    return ret->kind != NOTICE_NONE;
}
