/* SPDX-License-Identifier: Apache-2.0 */
/* The line between watcher and agent, instants, and the words of commands and files. */
#include "notice.h"

#include <ctype.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EARLIEST_S 1e9 /* a plain number below it is no date but a word: echo 1 >/run/going-down */

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

/* ---- instants ---- */

static bool date(const char *text, const char *format, int64_t *ret_ms)
{
    struct tm time = { 0 };
    const char *end = strptime(text, format, &time), *rest;

    if (!end)
        return false;
    if (*end == '.') /* fractions of a second: too fine for a deadline */
        for (end++; isdigit((unsigned char)*end);)
            end++;
    struct tm zone = { 0 }; /* +02:00, as date -Is writes it */
    bool has_zone = (*end == '+' || *end == '-') && (rest = strptime(end, "%z", &zone)) && !*rest;
    if (!has_zone && strcmp(end, "Z") && strcmp(end, " GMT") && strcmp(end, ""))
        return false;
    *ret_ms = ((int64_t)timegm(&time) - zone.tm_gmtoff) * 1000;
    return true;
}

static bool number(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    bool relative = *text == '+';
    char *end;
    double value = strtod(text + relative, &end);

    if (!isdigit((unsigned char)text[relative]) || value < 0 || value > 1e11)
        return false;
    if (!strcmp(end, "s")) {
        relative = true;
        end++;
    }
    if (*end || (!relative && value < EARLIEST_S))
        return false;
    *ret_ms = (int64_t)(value * 1000) + (relative ? now_ms : 0);
    return true;
}

bool notice_when(const char *text, int64_t now_ms, int64_t *ret_ms)
{
    return number(text, now_ms, ret_ms) || date(text, "%Y-%m-%dT%H:%M:%S", ret_ms)
           || date(text, "%a, %d %b %Y %H:%M:%S", ret_ms);
}

void notice_words(const char *source, const char *line, int64_t now_ms, struct notice *ret)
{
    char first[64];
    int length = 0;

    *ret = (struct notice){ .kind = NOTICE_LEAVE, .deadline_ms = now_ms };
    copy(ret->source, sizeof(ret->source), source);
    if (sscanf(line, " %63s%n", first, &length) == 1
        && notice_when(first, now_ms, &ret->deadline_ms))
        line += length;
    while (isspace((unsigned char)*line))
        line++;
    copy(ret->text, sizeof(ret->text), line);
    ret->text[strcspn(ret->text, "\r\n")] = 0;
}
