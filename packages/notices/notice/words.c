/* SPDX-License-Identifier: Apache-2.0 */
/* Instants, and the words of commands and files. */
#include "words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define EARLIEST_S 1e9 /* a plain number below it is no date but a word: echo 1 >/run/going-down */

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
    snprintf(ret->source, sizeof(ret->source), "%s", source);
    if (sscanf(line, " %63s%n", first, &length) == 1
        && notice_when(first, now_ms, &ret->deadline_ms))
        line += length;
    while (isspace((unsigned char)*line))
        line++;
    snprintf(ret->text, sizeof(ret->text), "%s", line);
    ret->text[strcspn(ret->text, "\r\n")] = 0;
}
