/* SPDX-License-Identifier: Apache-2.0 */
/* Strict parsing of command-line values. */
#include "common/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/time.h"

bool option_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value < min || value > max)
        return false;
    *ret = value;
    return true;
}

bool option_ratio(const char *text, double *ret)
{
    char *end;
    errno = 0;
    double value = strtod(text, &end);
    if (text[0] < '0' || text[0] > '9' || *end || errno || !isfinite(value) || value <= 0)
        return false;
    *ret = value;
    return true;
}

bool option_duration(const char *text, uint64_t *ret_ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = { { "us", 1e3 }, { "ms", 1e6 }, { "s", 1e9 }, { "m", 60e9 }, { "h", 3600e9 } };
    char *end;
    double value = strtod(text, &end);

    if (text[0] < '0' || text[0] > '9' || !isfinite(value))
        return false;
    for (size_t i = 0; i < sizeof(units) / sizeof(*units); i++)
        if (!strcmp(end, units[i].name) && value * units[i].ns >= 1 && value * units[i].ns < 9e18) {
            *ret_ns = (uint64_t)(value * units[i].ns);
            return true;
        }
    return false;
}

bool option_span(const char *text, uint32_t *ret_min, uint32_t *ret_max)
{
    char copy[32];
    uint64_t low, high;
    const char *colon = strchr(text, ':');

    if (strlen(text) >= sizeof(copy))
        return false;
    strcpy(copy, text);
    if (colon)
        copy[colon - text] = 0;
    if (!option_u64(copy, 1, 1024, &low))
        return false;
    high = low;
    if (colon && !option_u64(colon + 1, low, 1024, &high))
        return false;
    *ret_min = (uint32_t)low;
    *ret_max = (uint32_t)high;
    return true;
}

bool option_bytes(const char *text, uint64_t *ret)
{
    static const char *const units[][3] = {
        { "", "b", "B" }, { "k", "kib", "kb" }, { "m", "mib", "mb" }, { "g", "gib", "gb" }
    };
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);

    if (text[0] < '0' || text[0] > '9' || errno)
        return false;
    for (unsigned power = 0; power < 4; power++)
        for (unsigned name = 0; name < 3; name++)
            if (!strcasecmp(end, units[power][name]) && value <= UINT64_MAX >> (10 * power)) {
                *ret = value << (10 * power);
                return true;
            }
    return false;
}

bool option_is_group(const char *text)
{
    uint64_t processes;

    return strcmp(text, "auto") == 0 || option_u64(text, 1, 64, &processes);
}

size_t option_quote(const char *word, char *to, size_t room)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./=:,@%+";
    size_t used = 0;

    if (*word && !word[strspn(word, safe)])
        return (size_t)snprintf(to, room, "%s", word);
    used += (size_t)snprintf(to, room, "'");
    for (; *word && used + 6 < room; word++)
        used += (size_t)snprintf(to + used, room - used, *word == '\'' ? "'\\%c'" : "%c", *word);
    return used + (size_t)snprintf(to + used, room - used, "'");
}

void option_container_word(const char *word, char *to)
{
    for (; *word; word++) {
        if (word[0] == '$' && (word[1] == '$' || word[1] == '('))
            *to++ = '$';
        *to++ = *word;
    }
    *to = 0;
}

int option_refuse(const char *command, const char *format, ...)
{
    va_list arguments;

    fprintf(stderr, "spotnik %s: ", command);
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\nTry: spotnik %s --help\n", command);
    return 2;
}
